//! When throughput has settled.

use crate::series::Cumulative;

/// Throughput is looked at in this many parts of a flow's time, or fewer where parts would be too short.
const PARTS: i64 = 50;
/// A part must span so many round trips and so many microseconds.
const ROUND_TRIPS: i64 = 4;
const LEAST_US: i64 = 50_000;
/// A part with so much of the second half's mean has settled.
const SETTLED: f64 = 0.9;

/// The instant from which on a flow's throughput is steady: the begin of the first two parts in a row
/// that reach nine tenths of the second half's mean. `None` for flows too short to tell.
pub(crate) fn settled_at(received_bits: &Cumulative, rtt_us: i64) -> Option<i64> {
    let (start, end) = received_bits.span_us()?;
    let part = ((end - start) / PARTS).max(rtt_us * ROUND_TRIPS).max(LEAST_US);
    let count = (end - start) / part;
    if count < 4 {
        return None;
    }
    let reference = received_bits.rate(start + (end - start) / 2, end)?;
    let reached = |i: i64| {
        let from = start + i * part;
        received_bits.rate(from, from + part).is_some_and(|rate| rate >= SETTLED * reference)
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
        settled_at(&counter, 20_000)
    }

    #[test]
    fn a_ramp_is_left_out() {
        let settled = at(|t| (t / 2.0).min(1.0) * 1e9).unwrap();
        assert!((1_700_000..=2_000_000).contains(&settled), "{settled}");
        assert_eq!(at(|_| 1e9), Some(0));
    }

    #[test]
    fn a_spike_at_the_start_does_not_settle() {
        let settled = at(|t| if (0.2..3.0).contains(&t) { 0.2e9 } else { 1e9 }).unwrap();
        assert!(settled >= 2_800_000, "{settled}");
    }

    #[test]
    fn a_flow_too_short_has_no_steady_part() {
        let mut counter = Cumulative::default();
        (0..10).for_each(|i| counter.push(i * 10_000, i as f64));
        assert_eq!(settled_at(&counter, 20_000), None);
    }
}
