//! Readers of rate traces, of the same signature and meaning as `net::RateTrace::mahimahi` and
//! `net::RateTrace::csv`, until these are there.

use net::RateTrace;
use units::{BitRate, ParseError, Time};

/// How long a single step without an end is taken to last.
const ONLY_STEP: Time = Time::from_secs(1);

/// Mahimahi's format: each line is the millisecond of one opportunity, ascending; the last is the period.
pub(crate) fn mahimahi(text: &str) -> Result<RateTrace, String> {
    let mut at: Vec<u64> = Vec::new();
    for (line, text) in lines(text) {
        let ms: u64 = text
            .parse()
            .map_err(|_| format!("line {line}: `{text}` is not a whole number of milliseconds"))?;
        if at.last().is_some_and(|last| ms < *last) {
            return Err(format!("line {line}: {ms} comes after a later time; times must ascend"));
        }
        at.push(ms);
    }
    match at.last() {
        None => Err("the trace is empty".into()),
        Some(0) => Err("the trace never lets anything through: all its times or rates are 0".into()),
        Some(_) => Ok(RateTrace::Opportunities(at)),
    }
}

/// Lines of `time,rate`, times in seconds or with a unit, rates in bit/s or with a unit. A last line without a rate
/// is the end of the period; else the last step lasts as long as the one before it.
pub(crate) fn csv(text: &str) -> Result<RateTrace, String> {
    let (mut steps, mut end): (Vec<(Time, BitRate)>, Option<Time>) = (Vec::new(), None);
    for (line, text) in lines(text) {
        let wrong = |why: String| format!("line {line}: {why}");
        if end.is_some() {
            return Err(wrong("only the last line may be without a rate".into()));
        }
        let (time, rate) =
            text.split_once(',').ok_or_else(|| wrong(format!("`{text}` is not `time,rate`")))?;
        let time: Time = with_unit(time, "s").map_err(|e| wrong(e.to_string()))?;
        match steps.last() {
            None if time > Time(0) => return Err(wrong("the first time must be 0".into())),
            Some((last, _)) if time <= *last => return Err(wrong("times must ascend".into())),
            _ => {}
        }
        match rate.trim() {
            "" => end = Some(time),
            rate => steps.push((time, with_unit(rate, "bit").map_err(|e| wrong(e.to_string()))?)),
        }
    }
    let end = end.or(match steps[..] {
        [] => None,
        [_] => Some(ONLY_STEP),
        [.., before, last] => Some(last.0.saturating_add(last.0.saturating_sub(before.0))),
    });
    match end {
        Some(end) if !steps.is_empty() && end > Time(0) => Ok(RateTrace::Steps { steps, end }),
        _ => Err("the trace is empty".into()),
    }
}

/// Lines with their numbers, without comments and blanks.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines =
        text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("").trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

/// A bare number is in `unit`.
fn with_unit<T: std::str::FromStr<Err = ParseError>>(text: &str, unit: &str) -> Result<T, ParseError> {
    let text = text.trim();
    let bare = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    if bare { format!("{text}{unit}").parse() } else { text.parse() }
}
