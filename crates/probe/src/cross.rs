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
    statistics::{least, mean, quantile, slope},
    train::Seen,
};

/// Packets between whose first and last a train must still be looked at.
const LEAST_PACKETS: usize = 8;
/// Packets whose slope counts, and what its two halves may differ by.
const LEAST_GROWING: usize = 16;
const STRAIGHT: Range<f64> = 0.8..1.25;
/// Of a train's time the link may have been idle, because the sender was held up, for this share.
const IDLE: f64 = 0.02;

/// What other traffic took while the packets `within` of a train passed a link of `capacity_bps`, bit/s; `None` where too few
/// arrived, or the sender was held up, so that the link may have been idle.
pub(crate) fn cross_traffic(seen: &Seen, capacity_bps: f64, within: Range<usize>) -> Option<f64> {
    if within.end > seen.sent() || within.start >= within.end || was_idle(seen, capacity_bps, &within) {
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

/// Whether the sender left gaps in which the queue ran empty, and for how much of the time.
fn was_idle(seen: &Seen, capacity_bps: f64, within: &Range<usize>) -> bool {
    let packet = f64::from(seen.bytes) * 8e9 / capacity_bps;
    let Some(least) = least(seen.received().map(|packet| packet.delay_ns())) else { return true };
    let sent_ns = &seen.sent_ns[within.clone()];
    let (Some(first), Some(last)) = (sent_ns.first(), sent_ns.last()) else { return true };
    let idle: f64 = seen
        .received()
        .filter(|packet| within.contains(&packet.number) && packet.number + 1 < within.end)
        .map(|before| {
            let gap = (seen.sent_ns[before.number + 1] - before.sent_ns) as f64;
            // A packet that leaves as the next arrives leaves the link no time.
            (gap - (before.delay_ns() - least) - 2.0 * packet).max(0.0)
        })
        .sum();
    idle > IDLE * (last - first) as f64
}

/// The place of the first packet that was lost; their number where none was.
pub(crate) fn first_loss(seen: &Seen) -> usize {
    seen.arrived_ns.iter().position(Option::is_none).unwrap_or(seen.sent())
}

/// The place from which on a queue stands until packets are lost: that of the last packet whose delay is within `margin_ns` of the
/// least.
pub(crate) fn queue_begins(seen: &Seen, margin_ns: f64) -> usize {
    let until = first_loss(seen);
    let before = || seen.received().take_while(|packet| packet.number < until);
    let Some(least) = least(before().map(|packet| packet.delay_ns())) else { return until };
    before().filter(|packet| packet.delay_ns() <= least + margin_ns).last().map_or(0, |last| last.number)
}

/// What others leave of a policer's tokens, and what its bucket holds: a train at R empties a bucket B in the time t to its first loss,
/// B = (R - A) t, so two rates give both. `fast` and `slow` are rates, bit/s, and times to the first loss, ns. Available in bit/s, the bucket
/// in bytes.
pub(crate) fn tokens_left(fast: (f64, &[f64]), slow: (f64, &[f64])) -> Option<(Estimate, f64)> {
    let (first, second) = (estimate(fast.1, 1)?, estimate(slow.1, 1)?);
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

/// What passes of a train while a queue stands and does not yet overflow, bit/s: from then on large packets are dropped sooner than small
/// ones. `None` of too few packets.
pub(crate) fn growing_bps(seen: &Seen, margin_ns: f64) -> Option<f64> {
    let growing = queue_begins(seen, margin_ns)..first_loss(seen);
    let points: Vec<(f64, f64)> = seen
        .received()
        .filter(|packet| growing.contains(&packet.number))
        .map(|packet| (packet.arrived_ns as f64, packet.number as f64 * f64::from(seen.bytes) * 8e9))
        .collect();
    // The later half, as of all slopes: what comes before may have come out of a bucket. Where it still bends nothing is known.
    let later = &points[points.len() / 2..];
    if later.len() < LEAST_GROWING {
        return None;
    }
    let (begin, end) = later.split_at(later.len() / 2);
    let bends = slope(begin)? / slope(end)?;
    STRAIGHT.contains(&bends).then(|| slope(later)).flatten()
}

/// What many trains say of the same thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The mean of the middle half: a few trains that a host held up move it little.
    pub(crate) value: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// How a single one (or group) differs: a standard deviation, by the quartiles.
    pub(crate) spread: f64,
}

/// The mean of the middle half of at least four. Of short trains `group` each are one value, their mean: what bursts of others
/// take of a short train is nothing of most and much of few.
pub(crate) fn estimate(values: &[f64], group: usize) -> Option<Estimate> {
    let mut sorted: Vec<f64> = values.chunks_exact(group.max(1)).filter_map(mean).collect();
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
        late.sent_ns.iter_mut().skip(100).for_each(|at| *at += 30_000_000);
        late.arrived_ns.iter_mut().skip(100).flatten().for_each(|at| *at += 25_000_000);
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
        let found = estimate(&[1.0, 2.0, 3.0, 2.0, 2.0, 900.0, 1.0, 3.0], 1).unwrap();
        assert!((found.value - 2.25).abs() < 1e-9, "{found:?}");
        assert_eq!(estimate(&[1.0, 2.0, 3.0], 1), None);
    }
}
