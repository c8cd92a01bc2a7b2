//! One line of results.

use iperf3::report::Datagrams;

/// The results of a stream in an interval, or its total.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct IntervalLine {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes: u64,
    /// Datagram counts, at the receiver of a UDP test.
    pub(super) udp: Option<Datagrams>,
    /// The line is of a UDP test, even if the number of datagrams is unknown.
    pub(super) is_udp: bool,
}

/// Parses `0.0-1.0`, `0.0000-1.0000` or `0.0- 1.0` (seconds).
pub(super) fn span(text: &str) -> Option<(f64, f64)> {
    let (start, end) = text.split_once('-')?;
    let (start_s, end_s) = (start.trim().parse::<f64>().ok()?, end.trim().parse::<f64>().ok()?);
    (start_s >= 0.0 && end_s >= start_s && end_s < 1e9).then_some((start_s, end_s))
}

/// Whether the last line is the total of the others.
pub(super) fn is_total(lines: &[IntervalLine]) -> bool {
    match lines {
        [] => false,
        [_] => true,
        [first, .., last] => last.start_s <= first.start_s && last.end_s >= first.end_s,
    }
}
