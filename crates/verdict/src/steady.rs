//! The time from which a flow's throughput is steady.

use crate::series::Cumulative;

/// Number of parts into which a flow's time is divided; fewer if the parts would be shorter than the minimum.
const PARTS: i64 = 50;
/// Minimum length of a part, in round trips.
const MIN_PART_ROUND_TRIPS: i64 = 4;
/// Minimum length of a part, microseconds.
const MIN_PART_US: i64 = 50_000;
/// Minimum throughput of a steady part, as a share of the mean throughput of the flow's second half.
const MIN_STEADY_SHARE: f64 = 0.9;

/// The time from which a flow's throughput is steady, in microseconds: the beginning of the first two
/// consecutive steady parts. `None` for flows that are too short.
pub(crate) fn steady_from(received_bits: &Cumulative, rtt_us: i64) -> Option<i64> {
    let (start, end) = received_bits.span_us()?;
    let part = ((end - start) / PARTS).max(rtt_us * MIN_PART_ROUND_TRIPS).max(MIN_PART_US);
    let count = (end - start) / part;
    if count < 4 {
        return None;
    }
    let reference = received_bits.rate(start + (end - start) / 2, end)?;
    let reached = |i: i64| {
        let from = start + i * part;
        received_bits.rate(from, from + part).is_some_and(|rate| rate >= MIN_STEADY_SHARE * reference)
    };
    (0..count - 1).find(|i| reached(*i) && reached(i + 1)).map(|i| start + i * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: impl Fn(f64) -> f64) -> Option<i64> {
        let mut counter = Cumulative::default();
        let mut bits = 0.0;
        for i in 0..1000i64 {
            counter.push(i * 10_000, bits);
            bits += rate(i as f64 * 0.01) * 0.01;
        }
        steady_from(&counter, 20_000)
    }

    #[test]
    fn a_ramp_is_not_steady() {
        let steady = at(|t| (t / 2.0).min(1.0) * 1e9).unwrap();
        assert!((1_700_000..=2_000_000).contains(&steady), "{steady}");
        assert_eq!(at(|_| 1e9), Some(0));
    }

    #[test]
    fn a_spike_at_the_start_is_not_steady() {
        let steady = at(|t| if (0.2..3.0).contains(&t) { 0.2e9 } else { 1e9 }).unwrap();
        assert!(steady >= 2_800_000, "{steady}");
    }

    #[test]
    fn a_short_flow_has_no_steady_part() {
        let mut counter = Cumulative::default();
        (0..10).for_each(|i| counter.push(i * 10_000, i as f64));
        assert_eq!(steady_from(&counter, 20_000), None);
    }
}
