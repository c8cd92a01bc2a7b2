//! How methods answer: a value with its interval, and whether to believe it.

use serde::Serialize;

/// A value and between which bounds it is believed to lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The value.
    pub value: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// `value` within a share of itself.
    pub fn within(value: f64, share: f64) -> Interval {
        Interval { low: value * (1.0 - share), value, high: value * (1.0 + share) }
    }

    /// What is available, of a capacity and the mean of the cross traffic with its standard error. Bursts that are longer than a train make
    /// errors that no train shows: on a thousand random paths 95 % of the true values are within three standard errors and a hundredth
    /// of the capacity (crates/probe/tests/accuracy.rs).
    pub(crate) fn left_of(capacity: Interval, value: f64, error: f64, factor: f64) -> Interval {
        let by = 3.0 * error + 0.01 * capacity.value + factor * (capacity.high - capacity.low) / 2.0;
        Interval { low: (value - by).max(0.0), value, high: (value + by).min(capacity.high) }
    }

    /// Each number multiplied.
    pub fn times(self, factor: f64) -> Interval {
        Interval { low: self.low * factor, value: self.value * factor, high: self.high * factor }
    }
}

/// Whether an answer is to be believed, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Validity {
    /// True where nothing speaks against it.
    pub valid: bool,
    /// What speaks against it; what it rests on, where nothing does.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Nothing speaks against it: `ground` is what it rests on; unless there are `doubts`.
    pub fn of(doubts: Vec<String>, ground: impl FnOnce() -> String) -> Validity {
        if doubts.is_empty() {
            Validity { valid: true, reasons: vec![ground()] }
        } else {
            Validity { valid: false, reasons: doubts }
        }
    }
}

/// What a method must know about the ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The most that may be sent within a second, bytes of IP.
    pub most_bytes: u64,
    /// The largest packet that passes, bytes of IP.
    pub mtu: u32,
    /// Differences of time below this mean nothing, ns: time stamps are not more exact.
    pub resolution_ns: f64,
}
