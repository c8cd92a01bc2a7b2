//! Parts of results: values with their intervals, and whether a result is reliable. Also the limits of the
//! two hosts.

use serde::Serialize;

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The estimate.
    pub value: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// An interval of the relative half-width `share` around `value`.
    pub fn within(value: f64, share: f64) -> Interval {
        Interval { low: value * (1.0 - share), value, high: value * (1.0 + share) }
    }

    /// The interval of the available bandwidth, given the capacity, the estimate `value` and its standard
    /// error. `factor` is the weight of the capacity's uncertainty. Bursts of cross traffic longer than a
    /// train cause errors that do not appear in the scatter of the trains: on a thousand random paths 95 % of
    /// the true values are within three standard errors plus a hundredth of the capacity
    /// (crates/probe/tests/accuracy.rs).
    pub(crate) fn of_available(capacity: Interval, value: f64, error: f64, factor: f64) -> Interval {
        let half_width = 3.0 * error + 0.01 * capacity.value + factor * (capacity.high - capacity.low) / 2.0;
        Interval { low: (value - half_width).max(0.0), value, high: (value + half_width).min(capacity.high) }
    }

    /// Multiplies the estimate and both bounds.
    pub fn scaled(self, factor: f64) -> Interval {
        Interval { low: self.low * factor, value: self.value * factor, high: self.high * factor }
    }
}

/// Whether a result is reliable, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Validity {
    /// Whether the result is reliable.
    pub valid: bool,
    /// Warnings, if the result is not reliable; else its basis.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Valid if there are no `warnings`; the reason is then `basis`.
    pub fn new(warnings: Vec<String>, basis: impl FnOnce() -> String) -> Validity {
        if warnings.is_empty() {
            Validity { valid: true, reasons: vec![basis()] }
        } else {
            Validity { valid: false, reasons: warnings }
        }
    }
}

/// Limits of the hosts, which a method must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeLimits {
    /// Maximum that may be sent within any second, bytes of IP.
    pub max_bytes_per_second: u64,
    /// Path MTU, bytes of IP.
    pub mtu: u32,
    /// Resolution of the timestamps, ns: smaller differences are not significant.
    pub resolution_ns: f64,
}

impl ProbeLimits {
    /// Number of packets of the shortest useful train.
    const MIN_TRAIN_PACKETS: u64 = 64;

    /// Whether the limit allows a useful train of full-sized packets within a second.
    pub fn allow_trains(&self) -> bool {
        self.max_bytes_per_second >= Self::MIN_TRAIN_PACKETS * u64::from(self.mtu)
    }
}
