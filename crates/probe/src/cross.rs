//! Other traffic, from trains that keep the narrow link busy all the while: what a train of `n` bytes takes longer to arrive than the
//! link alone needs for it was other traffic's. Of a link of rate C, and of a train that spans S when sent and A when it
//! arrives, of whose bytes n the share p arrived:
//!
//! X = (C A / p - n) / S   (from C A = p (n + X S): a full queue drops of both alike)
//!
//! That holds where the link is never idle between the first packet and the last: always for a train that is as fast as the link
//! (direct probing, as Spruce and IGI; Strauss et al., IMC 2003, Hu and Steenkiste, JSAC 21(6), 2003). No trend has to be seen, so
//! traffic that comes in bursts gives a wider spread and no bias.
//!
//! What it does not know: whether another link than the one of this capacity has less available.

use std::ops::Range;

use crate::{
    statistics::{mean, quantile},
    train::Seen,
};

/// Packets between whose first and last a train must still be looked at.
const LEAST_PACKETS: usize = 8;
/// A pause between two packets of a train, beyond what was planned, after which the link may have been idle (pathload splits
/// streams there), ns.
const STALL_NS: f64 = 1e6;
/// The same in planned gaps.
const STALL_GAPS: f64 = 4.0;

/// What other traffic took while the packets `within` of a train passed a link of `capacity_bps`, bit/s; `None` where too few
/// arrived, or the sender was held up, so that the link may have been idle.
pub(crate) fn cross_traffic(seen: &Seen, capacity_bps: f64, within: Range<usize>) -> Option<f64> {
    let sent_ns = seen.sent_ns.get(within.clone())?;
    if is_held_up(sent_ns) {
        return None;
    }
    let mut received = seen.received().filter(|packet| within.contains(&packet.number));
    let (first, last) = (received.next()?, received.next_back()?);
    let sent = last.number - first.number;
    let arrived = received.count() + 1;
    let took = (last.sent_ns - first.sent_ns) as f64;
    if sent < LEAST_PACKETS || took <= 0.0 {
        return None;
    }
    let carried = capacity_bps * (last.arrived_ns - first.arrived_ns) as f64 / 8e9;
    let bytes = sent as f64 * f64::from(seen.bytes);
    let share = arrived as f64 / sent as f64;
    Some((carried / share - bytes) * 8e9 / took)
}

/// Whether the sender left a gap much longer than those around it.
fn is_held_up(sent_ns: &[i64]) -> bool {
    let (Some(first), Some(last)) = (sent_ns.first(), sent_ns.last()) else { return true };
    let typical = (last - first) as f64 / (sent_ns.len() - 1).max(1) as f64;
    let most = STALL_NS.max(STALL_GAPS * typical);
    sent_ns.windows(2).any(|pair| (pair[1] - pair[0]) as f64 > most)
}

/// What others leave of a policer's tokens, and what its bucket holds: a train at R empties a bucket B in the time t to its first loss,
/// B = (R - A) t, so two rates give both. `fast` and `slow` are rates, bit/s, and times to the first loss, ns. Available in bit/s, the bucket
/// in bytes.
pub(crate) fn tokens_left(fast: (f64, &[f64]), slow: (f64, &[f64])) -> Option<(Estimate, f64)> {
    let (first, second) = (estimate(fast.1)?, estimate(slow.1)?);
    let between = second.value - first.value;
    if between <= 0.2 * first.value {
        return None;
    }
    let value = (slow.0 * second.value - fast.0 * first.value) / between;
    let bucket = (fast.0 - value) * first.value;
    let error = bucket * (first.error / first.value).hypot(second.error / second.value) / between;
    let spread = error * (fast.1.len() as f64).sqrt();
    (value >= 0.0).then_some((Estimate { value, error, spread }, bucket / 8e9))
}

/// What many trains say of the same thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The mean of the middle half: a few trains that a host held up move it little.
    pub(crate) value: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// How a single one differs: a standard deviation, by the quartiles.
    pub(crate) spread: f64,
}

/// The mean of the middle half of at least four.
pub(crate) fn estimate(values: &[f64]) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    if quarter == 0 {
        return None;
    }
    let value = mean(&sorted[quarter..sorted.len() - quarter])?;
    // Quartiles of a normal distribution are 1.349 standard deviations apart; the mean of its middle half has 1.09 times the error
    // of the mean of all.
    let spread = (quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?) / 1.349;
    Some(Estimate { value, error: 1.09 * spread / (sorted.len() as f64).sqrt(), spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train at 120 Mb/s through a link of 100 Mb/s, beside 1500 bytes of others each `every` packets.
    fn seen(every: usize) -> Seen {
        let sent_ns: Vec<i64> = (0..200).map(|i| i * 100_000).collect();
        let mut free = 0;
        let arrived_ns = sent_ns
            .iter()
            .enumerate()
            .map(|(i, sent)| {
                let packets = 1 + i64::from(i % every == every - 1);
                free = free.max(*sent) + packets * 120_000;
                Some(free)
            })
            .collect();
        Seen { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 }
    }

    #[test]
    fn others_are_what_is_missing() {
        let found = cross_traffic(&seen(4), 100e6, 0..200).unwrap();
        assert!((found / 30e6 - 1.0).abs() < 0.03, "{found}");
        let found = cross_traffic(&seen(1000), 100e6, 0..200).unwrap();
        assert!(found.abs() < 1e6, "{found}");
        // A drop-tail queue that lost a third of both alike.
        let mut lossy = seen(4);
        let kept: Vec<i64> = lossy.arrived_ns.iter().flatten().copied().collect();
        for (i, arrived) in lossy.arrived_ns.iter_mut().enumerate() {
            *arrived = (i % 3 != 1).then(|| kept[i * 2 / 3]);
        }
        let found = cross_traffic(&lossy, 100e6, 0..200).unwrap();
        assert!((found / 30e6 - 1.0).abs() < 0.05, "{found}");
        let mut late = seen(4);
        late.sent_ns.iter_mut().skip(100).for_each(|at| *at += 3_000_000);
        assert_eq!(cross_traffic(&late, 100e6, 0..200), None);
        assert_eq!(cross_traffic(&Seen::default(), 100e6, 0..200), None);
    }

    #[test]
    fn a_policer_shows_its_tokens_at_two_rates() {
        // 40 Mb/s are left, and 500 kB in the bucket: 4 Mb over 160 Mb/s, and over 60 Mb/s.
        let (found, bucket) = tokens_left((200e6, &[25e6; 8]), (100e6, &[4e6 / 60e6 * 1e9; 8])).unwrap();
        assert!((found.value / 40e6 - 1.0).abs() < 1e-6 && found.error < 1.0, "{found:?}");
        assert!((bucket / 500e3 - 1.0).abs() < 1e-6, "{bucket}");
        assert_eq!(tokens_left((200e6, &[25e6; 8]), (100e6, &[25e6; 8])), None);
    }

    #[test]
    fn single_odd_trains_do_not_count() {
        let found = estimate(&[1.0, 2.0, 3.0, 2.0, 2.0, 900.0, 1.0, 3.0]).unwrap();
        assert!((found.value - 2.25).abs() < 1e-9, "{found:?}");
        assert_eq!(estimate(&[1.0, 2.0, 3.0]), None);
    }
}
