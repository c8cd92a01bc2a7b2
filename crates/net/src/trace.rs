//! A rate that follows a trace: mahimahi's packet-delivery opportunities, or steps of rate over time.

use units::{BitRate, Time};

/// A trace; it repeats after its end.
#[derive(Debug, Clone, PartialEq)]
pub enum RateTrace {
    /// Mahimahi's link format: at each of these milliseconds one packet of [`OPPORTUNITY_BYTES`] may leave.
    /// Ascending, not empty, the last greater than 0: it is the period.
    Opportunities(Vec<u64>),
    /// From each instant on this rate. The first instant is 0; ascending; `end` is the period.
    Steps {
        /// Instant and rate.
        steps: Vec<(Time, BitRate)>,
        /// When it begins anew; after the last instant.
        end: Time,
    },
}

/// Bytes on the wire that one opportunity of a mahimahi trace is for (mahimahi's `PACKET_SIZE`, IP of 1500
/// and 4 bytes of its own).
pub const OPPORTUNITY_BYTES: u64 = 1504;

impl RateTrace {
    /// The mean rate over one period.
    pub fn mean(&self) -> BitRate {
        match self {
            RateTrace::Opportunities(at) => {
                let period = u128::from(at.last().copied().unwrap_or(1).max(1));
                BitRate((at.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8000 / period) as u64)
            }
            RateTrace::Steps { steps, end } => {
                let ends = steps.iter().skip(1).map(|s| s.0).chain([*end]);
                let sum: u128 = steps
                    .iter()
                    .zip(ends)
                    .map(|((from, rate), to)| u128::from(rate.0) * u128::from(to.0.saturating_sub(from.0)))
                    .sum();
                BitRate((sum / u128::from(end.0.max(1))) as u64)
            }
        }
    }
}
