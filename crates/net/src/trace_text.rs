//! Parsers of rate traces: mahimahi's link files, and steps of rate as comma-separated values.

use units::{BitRate, ParseError, Time};

use crate::RateTrace;

/// Maximum number of lines in a trace file.
pub const MAX_TRACE_LINES: usize = 10_000_000;
/// Maximum period of a trace: about three years, so that instants after many periods fit into
/// [`units::Instant`].
const MAX_PERIOD: Time = Time::from_secs(100_000_000);
/// Period of a trace with a single step and no end.
const SINGLE_STEP_PERIOD: Time = Time::from_secs(1);

/// Why a trace could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is invalid.
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// The trace has no lines.
    #[error("the trace is empty")]
    Empty,
    /// No packet could ever leave.
    #[error("the trace lets no packet through: all its times or rates are 0")]
    NoCapacity,
    /// More lines than [`MAX_TRACE_LINES`].
    #[error("the trace has more than {MAX_TRACE_LINES} lines")]
    TooLong,
}

fn invalid(line: usize, what: impl Into<String>) -> TraceError {
    TraceError::Line { line, what: what.into() }
}

/// The lines with their numbers, without comments and blank lines.
fn lines(text: &str) -> impl Iterator<Item = Result<(usize, &str), TraceError>> {
    text.lines().enumerate().filter_map(|(i, line)| {
        if i >= MAX_TRACE_LINES {
            return Some(Err(TraceError::TooLong));
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then_some(Ok((i + 1, line)))
    })
}

impl RateTrace {
    /// Parses mahimahi's format: each line is the millisecond of one opportunity, ascending; the last one is
    /// the period.
    ///
    /// # Errors
    /// A line is not a number or not ascending, or the trace is empty, too long, or without capacity.
    pub fn parse_mahimahi(text: &str) -> Result<RateTrace, TraceError> {
        let mut at: Vec<u64> = Vec::new();
        for line in lines(text) {
            let (line, text) = line?;
            let ms: u64 = text
                .parse()
                .map_err(|_| invalid(line, format!("`{text}` is not a whole number of milliseconds")))?;
            if at.last().is_some_and(|last| ms < *last) {
                return Err(invalid(line, format!("{ms} comes after a later time; times must ascend")));
            }
            if ms > MAX_PERIOD.as_millis() {
                return Err(invalid(line, format!("{ms} ms is too long")));
            }
            at.push(ms);
        }
        match at.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoCapacity),
            Some(_) => Ok(RateTrace::Opportunities(at)),
        }
    }

    /// Parses lines of `time,rate`: the rate from that time on. Times ascend from 0, in seconds or with a
    /// unit; rates are in bit/s or with a unit. A last line without a rate (`60,`) ends the period; without
    /// it the last step is as long as the one before.
    ///
    /// # Errors
    /// A line is invalid or not ascending, or the trace is empty, too long, or without capacity.
    pub fn parse_csv(text: &str) -> Result<RateTrace, TraceError> {
        let (mut steps, mut end): (Vec<(Time, BitRate)>, Option<Time>) = (Vec::new(), None);
        for line in lines(text) {
            let (line, text) = line?;
            if end.is_some() {
                return Err(invalid(line, "only the last line may be without a rate"));
            }
            let (time, rate) =
                text.split_once(',').ok_or_else(|| invalid(line, format!("`{text}` is not `time,rate`")))?;
            let time = parse_time(time.trim()).map_err(|e| invalid(line, e.to_string()))?;
            match steps.last() {
                None if time > Time::ZERO => return Err(invalid(line, "the first time must be 0")),
                Some((last, _)) if time <= *last => return Err(invalid(line, "times must ascend")),
                _ if time > MAX_PERIOD => return Err(invalid(line, format!("{time} is too long"))),
                _ => {}
            }
            if rate.trim().is_empty() {
                end = Some(time);
            } else {
                let rate = parse_rate(rate.trim()).map_err(|e| invalid(line, e.to_string()))?;
                steps.push((time, rate));
            }
        }
        let end = end.or_else(|| match steps[..] {
            [] => None,
            [_] => Some(SINGLE_STEP_PERIOD),
            [.., before, last] => Some(last.0 + last.0.minus(before.0)),
        });
        let Some(end) = end.filter(|_| !steps.is_empty()) else { return Err(TraceError::Empty) };
        if end == Time::ZERO || steps.iter().all(|step| step.1 == BitRate(0)) {
            return Err(TraceError::NoCapacity);
        }
        Ok(RateTrace::Steps { steps, end })
    }
}

/// Parses a time; a number without unit is in seconds.
fn parse_time(text: &str) -> Result<Time, ParseError> {
    if has_no_unit(text) { format!("{text}s").parse() } else { text.parse() }
}

/// Parses a rate; a number without unit is in bit/s.
fn parse_rate(text: &str) -> Result<BitRate, ParseError> {
    if has_no_unit(text) { format!("{text}bit").parse() } else { text.parse() }
}

fn has_no_unit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_mahimahi_files() {
        let trace = RateTrace::parse_mahimahi("# 12 Mb/s and a pause\n0\n1\n1\n\n4\n").unwrap();
        assert_eq!(trace, RateTrace::Opportunities(vec![0, 1, 1, 4]));
        assert_eq!(trace.mean(), BitRate(4 * 1504 * 8000 / 4));
    }

    #[test]
    fn parses_steps() {
        let trace = RateTrace::parse_csv("0, 10mbit # begin\n1.5,0\n2000ms,2500000\n60,\n").unwrap();
        let steps = vec![
            (Time::ZERO, BitRate(10_000_000)),
            (Time::from_nanos(1_500_000_000), BitRate(0)),
            (Time::from_secs(2), BitRate(2_500_000)),
        ];
        assert_eq!(trace, RateTrace::Steps { steps, end: Time::from_secs(60) });
    }

    #[test]
    fn a_last_step_without_end_is_as_long_as_the_one_before() {
        let RateTrace::Steps { end, .. } = RateTrace::parse_csv("0,1mbit\n2,3mbit\n5,2mbit").unwrap() else {
            panic!()
        };
        assert_eq!(end, Time::from_secs(8));
        let RateTrace::Steps { end, .. } = RateTrace::parse_csv("0,1mbit").unwrap() else { panic!() };
        assert_eq!(end, Time::from_secs(1));
    }

    #[test]
    fn errors_name_the_line() {
        let mahimahi = |text| RateTrace::parse_mahimahi(text).unwrap_err().to_string();
        assert_eq!(mahimahi(""), "the trace is empty");
        assert_eq!(mahimahi("1\n5\n3"), "line 3: 3 comes after a later time; times must ascend");
        assert_eq!(mahimahi("1\nx"), "line 2: `x` is not a whole number of milliseconds");
        assert!(mahimahi("0\n0").contains("lets no packet through"));
        let csv = |text| RateTrace::parse_csv(text).unwrap_err().to_string();
        assert_eq!(csv("\n1,5mbit"), "line 2: the first time must be 0");
        assert_eq!(csv("0,1mbit\n0,2mbit"), "line 2: times must ascend");
        assert_eq!(csv("0,1mbit\n1,\n2,1mbit"), "line 3: only the last line may be without a rate");
        assert_eq!(csv("0"), "line 1: `0` is not `time,rate`");
        assert!(csv("0,5 apples").starts_with("line 1: "));
        assert!(csv("0,0\n1,0").contains("lets no packet through"));
        assert_eq!(csv("0,"), "the trace is empty");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[0-9a-z#,.\n -]{0,200}", any in any::<String>()) {
            for text in [text, any] {
                let _ = RateTrace::parse_mahimahi(&text).map(|trace| trace.mean());
                let _ = RateTrace::parse_csv(&text).map(|trace| trace.mean());
            }
        }
    }
}
