//! Readers of rate traces, until `net::RateTrace::mahimahi` and `net::RateTrace::csv` are there.

use net::RateTrace;
use units::{BitRate, Time};

/// Mahimahi's format: one millisecond a line, ascending.
pub(crate) fn mahimahi(text: &str) -> Result<RateTrace, String> {
    let mut at = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let ms: u64 =
            line.parse().map_err(|_| format!("line {}: {line:?} is no whole number of ms", i + 1))?;
        if at.last().is_some_and(|last| *last > ms) {
            return Err(format!("line {}: {ms} comes after a later time", i + 1));
        }
        at.push(ms);
    }
    match at.last() {
        None | Some(0) => Err("it ends before it has begun".into()),
        Some(_) => Ok(RateTrace::Opportunities(at)),
    }
}

/// `time,rate` a line; the last line's time is the end.
pub(crate) fn csv(text: &str) -> Result<RateTrace, String> {
    let mut steps: Vec<(Time, BitRate)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: String| format!("line {}: {why}", i + 1);
        let (time, rate) = line.split_once(',').ok_or_else(|| wrong("not time,rate".into()))?;
        let time = match time.trim() {
            "0" => Time(0),
            text => text.parse().map_err(|e: units::ParseError| wrong(e.to_string()))?,
        };
        let rate = rate.trim().parse().map_err(|e: units::ParseError| wrong(e.to_string()))?;
        if steps.last().map_or(time != Time(0), |(before, _)| *before >= time) {
            return Err(wrong("the times begin at 0 and rise".into()));
        }
        steps.push((time, rate));
    }
    let Some((end, _)) = steps.pop().filter(|_| !steps.is_empty()) else {
        return Err("it has fewer than two lines".into());
    };
    Ok(RateTrace::Steps { steps, end })
}
