//! Rate traces as text: mahimahi's link files, and steps of rate as comma-separated values.

use units::{BitRate, ParseError, Time};

use crate::RateTrace;

/// The most lines that a trace may have.
pub const MOST_LINES: usize = 10_000_000;
/// The longest period: about three years, so that instants many periods on still fit.
const LONGEST: Time = Time(100_000_000_000_000_000);
/// How long a single step without an end is taken to last; it repeats.
const ONLY_STEP: Time = Time(1_000_000_000);

/// Why a trace could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not as it should be.
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Nothing in it.
    #[error("the trace is empty")]
    Empty,
    /// Nothing would ever leave.
    #[error("the trace never lets anything through: all its times or rates are 0")]
    Nothing,
    /// More lines than [`MOST_LINES`].
    #[error("the trace has more than {MOST_LINES} lines")]
    TooLong,
}

fn bad(line: usize, what: impl Into<String>) -> TraceError {
    TraceError::Line { line, what: what.into() }
}

/// Lines with their numbers, without comments and blanks.
fn lines(text: &str) -> impl Iterator<Item = Result<(usize, &str), TraceError>> {
    text.lines().enumerate().filter_map(|(i, line)| {
        if i >= MOST_LINES {
            return Some(Err(TraceError::TooLong));
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then_some(Ok((i + 1, line)))
    })
}

impl RateTrace {
    /// Mahimahi's format: each line is the millisecond of one opportunity, ascending; the last is the period.
    pub fn mahimahi(text: &str) -> Result<RateTrace, TraceError> {
        let mut at: Vec<u64> = Vec::new();
        for line in lines(text) {
            let (line, text) = line?;
            let ms: u64 = text
                .parse()
                .map_err(|_| bad(line, format!("`{text}` is not a whole number of milliseconds")))?;
            if at.last().is_some_and(|last| ms < *last) {
                return Err(bad(line, format!("{ms} comes after a later time; times must ascend")));
            }
            if ms > LONGEST.0 / 1_000_000 {
                return Err(bad(line, format!("{ms} ms is too long")));
            }
            at.push(ms);
        }
        match at.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::Nothing),
            Some(_) => Ok(RateTrace::Opportunities(at)),
        }
    }

    /// Lines of `time,rate`: from this time on this rate. Times in seconds or with a unit, ascending from 0; rates in bit/s or
    /// with a unit. A last line without a rate (`60,`) is the end of the period; else the last step lasts as long as
    /// the one before it.
    pub fn csv(text: &str) -> Result<RateTrace, TraceError> {
        let (mut steps, mut end): (Vec<(Time, BitRate)>, Option<Time>) = (Vec::new(), None);
        for line in lines(text) {
            let (line, text) = line?;
            if end.is_some() {
                return Err(bad(line, "only the last line may be without a rate"));
            }
            let (time, rate) =
                text.split_once(',').ok_or_else(|| bad(line, format!("`{text}` is not `time,rate`")))?;
            let time = time_of(time.trim()).map_err(|e| bad(line, e.to_string()))?;
            match steps.last() {
                None if time > Time(0) => return Err(bad(line, "the first time must be 0")),
                Some((last, _)) if time <= *last => return Err(bad(line, "times must ascend")),
                _ if time > LONGEST => return Err(bad(line, format!("{time} is too long"))),
                _ => {}
            }
            if rate.trim().is_empty() {
                end = Some(time);
            } else {
                let rate = rate_of(rate.trim()).map_err(|e| bad(line, e.to_string()))?;
                steps.push((time, rate));
            }
        }
        let end = end.or_else(|| match steps[..] {
            [] => None,
            [_] => Some(ONLY_STEP),
            [.., before, last] => Some(last.0 + last.0.saturating_sub(before.0)),
        });
        let Some(end) = end.filter(|_| !steps.is_empty()) else { return Err(TraceError::Empty) };
        if end == Time(0) || steps.iter().all(|step| step.1 == BitRate(0)) {
            return Err(TraceError::Nothing);
        }
        Ok(RateTrace::Steps { steps, end })
    }
}

/// A bare number is in seconds.
fn time_of(text: &str) -> Result<Time, ParseError> {
    if is_bare(text) { format!("{text}s").parse() } else { text.parse() }
}

/// A bare number is in bit/s.
fn rate_of(text: &str) -> Result<BitRate, ParseError> {
    if is_bare(text) { format!("{text}bit").parse() } else { text.parse() }
}

fn is_bare(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mahimahi_files_are_read() {
        let trace = RateTrace::mahimahi("# 12 Mb/s and a pause\n0\n1\n1\n\n4\n").unwrap();
        assert_eq!(trace, RateTrace::Opportunities(vec![0, 1, 1, 4]));
        assert_eq!(trace.mean(), BitRate(4 * 1504 * 8000 / 4));
    }

    #[test]
    fn steps_are_read() {
        let trace = RateTrace::csv("0, 10mbit # begin\n1.5,0\n2000ms,2500000\n60,\n").unwrap();
        let steps = vec![
            (Time(0), BitRate(10_000_000)),
            (Time(1_500_000_000), BitRate(0)),
            (Time(2_000_000_000), BitRate(2_500_000)),
        ];
        assert_eq!(trace, RateTrace::Steps { steps, end: Time(60_000_000_000) });
    }

    #[test]
    fn without_an_end_the_last_step_is_as_long_as_the_one_before() {
        let RateTrace::Steps { end, .. } = RateTrace::csv("0,1mbit\n2,3mbit\n5,2mbit").unwrap() else {
            panic!()
        };
        assert_eq!(end, Time(8_000_000_000));
        let RateTrace::Steps { end, .. } = RateTrace::csv("0,1mbit").unwrap() else { panic!() };
        assert_eq!(end, Time(1_000_000_000));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let mahimahi = |text| RateTrace::mahimahi(text).unwrap_err().to_string();
        assert_eq!(mahimahi(""), "the trace is empty");
        assert_eq!(mahimahi("1\n5\n3"), "line 3: 3 comes after a later time; times must ascend");
        assert_eq!(mahimahi("1\nx"), "line 2: `x` is not a whole number of milliseconds");
        assert!(mahimahi("0\n0").contains("never lets anything through"));
        let csv = |text| RateTrace::csv(text).unwrap_err().to_string();
        assert_eq!(csv("\n1,5mbit"), "line 2: the first time must be 0");
        assert_eq!(csv("0,1mbit\n0,2mbit"), "line 2: times must ascend");
        assert_eq!(csv("0,1mbit\n1,\n2,1mbit"), "line 3: only the last line may be without a rate");
        assert_eq!(csv("0"), "line 1: `0` is not `time,rate`");
        assert!(csv("0,5 apples").starts_with("line 1: "));
        assert!(csv("0,0\n1,0").contains("never lets anything through"));
        assert_eq!(csv("0,"), "the trace is empty");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-z#,.\n -]{0,200}", any in any::<String>()) {
            for text in [text, any] {
                let _ = RateTrace::mahimahi(&text).map(|trace| trace.mean());
                let _ = RateTrace::csv(&text).map(|trace| trace.mean());
            }
        }
    }
}
