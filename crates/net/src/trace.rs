//! Rates that follow a trace: mahimahi's packet-delivery opportunities, or steps of rate over time.

use units::{BitRate, Time};

/// A rate trace, which repeats after its end.
#[derive(Debug, Clone, PartialEq)]
pub enum RateTrace {
    /// Mahimahi's link format: at each of these milliseconds one packet of [`OPPORTUNITY_BYTES`] may leave.
    /// Ascending and not empty. The last value is the period, and is greater than 0.
    Opportunities(Vec<u64>),
    /// The rate from each step until the next.
    Steps {
        /// Times since the period's start, and rates. Ascending; the first time is 0.
        steps: Vec<(Time, BitRate)>,
        /// The period: the trace repeats after it. Longer than the time of the last step.
        end: Time,
    },
}

/// Bytes on the wire of one opportunity of a mahimahi trace (mahimahi's `PACKET_SIZE`: 1500 bytes of IP and a
/// header of 4).
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
                    .map(|((from, rate), to)| {
                        u128::from(rate.0) * u128::from(to.saturating_sub(*from).as_nanos())
                    })
                    .sum();
                BitRate((sum / u128::from(end.as_nanos().max(1))) as u64)
            }
        }
    }
}
