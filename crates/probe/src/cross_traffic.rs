//! Cross traffic, measured by trains that keep the narrow link busy (direct probing, as in Spruce and IGI;
//! Strauss et al., IMC 2003, Hu and Steenkiste, JSAC 21(6), 2003). The additional time that a train needs on
//! the link is the transmission time of cross traffic. For a link of rate C, and a train of n bytes that
//! lasts S at the sender and A at the receiver, where the share p of its bytes arrived, the cross traffic X
//! is
//!
//! X = (C A / p - n) / S   (from C A = p (n + X S): a full queue drops the same share of both)
//!
//! This holds if the link is never idle between the first packet and the last, as for every train at least as
//! fast as the link. No trend needs to be detected, so bursty traffic increases the variance but adds no
//! bias.
//!
//! It cannot detect whether another link than the one of this capacity has less available bandwidth.

use std::ops::Range;

use crate::{
    statistics::{mean, minimum, quantile, slope},
    train::{ReceivedPacket, TrainObservation},
};

/// Minimum number of packets over which a train is evaluated.
const MIN_PACKETS: usize = 8;
/// Minimum number of packets for the slope of a growing queue.
const MIN_GROWING_PACKETS: usize = 16;
/// If the slopes of both halves have a ratio in this range, the halves count as a straight line.
const STRAIGHT_RATIO: Range<f64> = 0.8..1.25;
/// Maximum share of a train's time in which the link may have been idle because the sender was delayed.
const MAX_IDLE_SHARE: f64 = 0.02;

/// Estimates the rate of cross traffic, bit/s, while the packets `within` of a train passed a link of
/// `capacity_bps`. `None` if too few packets arrived, or the sender was delayed, so that the link may have
/// been idle.
pub(crate) fn cross_traffic_bps(
    observation: &TrainObservation,
    capacity_bps: f64,
    within: Range<usize>,
) -> Option<f64> {
    if within.end > observation.sent()
        || within.start >= within.end
        || was_idle(observation, capacity_bps, &within)
    {
        return None;
    }
    let mut received = observation.received().filter(|packet| within.contains(&packet.number));
    let (first, last) = (received.next()?, received.next_back()?);
    let sent = last.number - first.number;
    let arrived = received.count() + 1;
    let sent_span_ns = (last.sent_ns - first.sent_ns) as f64;
    if sent < MIN_PACKETS || sent_span_ns <= 0.0 {
        return None;
    }
    let carried = capacity_bps * (last.arrived_ns - first.arrived_ns) as f64 / 8e9;
    let bytes = sent as f64 * f64::from(observation.bytes);
    let share = arrived as f64 / sent as f64;
    Some((carried / share - bytes) * 8e9 / sent_span_ns)
}

/// Whether the sender left gaps in which the queue ran empty, for more than the maximum share of the time.
fn was_idle(observation: &TrainObservation, capacity_bps: f64, within: &Range<usize>) -> bool {
    let packet = f64::from(observation.bytes) * 8e9 / capacity_bps;
    let Some(min_delay) = minimum(observation.received().map(|packet| packet.delay_ns())) else {
        return true;
    };
    let sent_ns = &observation.sent_ns[within.clone()];
    let (Some(first), Some(last)) = (sent_ns.first(), sent_ns.last()) else { return true };
    let idle: f64 = observation
        .received()
        .filter(|packet| within.contains(&packet.number) && packet.number + 1 < within.end)
        .map(|before| {
            let gap = (observation.sent_ns[before.number + 1] - before.sent_ns) as f64;
            // Up to two packet times of a gap are not idle: of this packet and the next.
            (gap - (before.delay_ns() - min_delay) - 2.0 * packet).max(0.0)
        })
        .sum();
    idle > MAX_IDLE_SHARE * (last - first) as f64
}

/// Index of the first lost packet; the number of packets if none was lost.
pub(crate) fn first_loss(observation: &TrainObservation) -> usize {
    observation.arrived_ns.iter().position(Option::is_none).unwrap_or(observation.sent())
}

/// Index of the packet at which a standing queue begins that lasts until packets are lost: the last packet
/// whose delay is within `margin_ns` of the minimum.
pub(crate) fn queue_start(observation: &TrainObservation, margin_ns: f64) -> usize {
    let until = first_loss(observation);
    let before = || observation.received().take_while(|packet| packet.number < until);
    let Some(min_delay) = minimum(before().map(|packet| packet.delay_ns())) else { return until };
    before().filter(|packet| packet.delay_ns() <= min_delay + margin_ns).last().map_or(0, |last| last.number)
}

/// Estimates the tokens that cross traffic leaves of a policer's rate (the available bandwidth A, bit/s), and
/// the size B of its bucket, bytes. A train at rate R empties the bucket in the time t to its first loss: B =
/// (R - A) t. So trains at two rates determine both. `fast` and `slow` are rates, bit/s, and times to the
/// first loss, ns.
pub(crate) fn estimate_tokens(
    fast: (f64, &[f64]),
    slow: (f64, &[f64]),
) -> Option<(CrossTrafficEstimate, f64)> {
    let (first, second) = (estimate(fast.1, 1)?, estimate(slow.1, 1)?);
    let between = second.value - first.value;
    if between <= 0.2 * first.value {
        return None;
    }
    let value = (slow.0 * second.value - fast.0 * first.value) / between;
    let bucket = (fast.0 - value) * first.value;
    let error = bucket * (first.error / first.value).hypot(second.error / second.value) / between;
    let spread = error * (fast.1.len() as f64).sqrt();
    (value >= 0.0).then_some((CrossTrafficEstimate { value, error, spread }, bucket / 8e9))
}

/// Rate at which a train passes while a queue grows and does not yet overflow, bit/s. A full queue drops
/// large packets sooner than small ones, so later packets do not count. `None` if too few packets remain, or
/// their curve is not straight.
pub(crate) fn growing_bps(observation: &TrainObservation, margin_ns: f64) -> Option<f64> {
    let growing = queue_start(observation, margin_ns)..first_loss(observation);
    // Times since 1970 have more digits than f64.
    let start_ns = observation.received().next()?.arrived_ns;
    let since_start = |packet: &ReceivedPacket| packet.arrived_ns.saturating_sub(start_ns) as f64;
    let points: Vec<(f64, f64)> = observation
        .received()
        .filter(|packet| growing.contains(&packet.number))
        .map(|packet| (since_start(&packet), packet.number as f64 * f64::from(observation.bytes) * 8e9))
        .collect();
    // The later half, as for all slopes: a token bucket may have let the earlier packets pass at once. If it
    // still bends, there is no estimate.
    let later = &points[points.len() / 2..];
    if later.len() < MIN_GROWING_PACKETS {
        return None;
    }
    let (begin, end) = later.split_at(later.len() / 2);
    let ratio = slope(begin)? / slope(end)?;
    STRAIGHT_RATIO.contains(&ratio).then(|| slope(later)).flatten()
}

/// An estimate from many trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CrossTrafficEstimate {
    /// Mean of the middle half (interquartile mean), which is robust against a few trains that a host
    /// delayed.
    pub(crate) value: f64,
    /// Standard error of the value.
    pub(crate) error: f64,
    /// Standard deviation of single values (or groups), from the quartiles.
    pub(crate) spread: f64,
}

/// Estimates the interquartile mean of at least four values. The means of `group` consecutive trains count as
/// one value: for short trains bursts of cross traffic affect few trains by much, and most not at all.
pub(crate) fn estimate(values: &[f64], group: usize) -> Option<CrossTrafficEstimate> {
    let mut sorted: Vec<f64> = values.chunks_exact(group.max(1)).filter_map(mean).collect();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    if quarter == 0 {
        return None;
    }
    let value = mean(&sorted[quarter..sorted.len() - quarter])?;
    // The quartiles of a normal distribution are 1.349 standard deviations apart; the error of its
    // interquartile mean is 1.09 times the error of the mean of all values.
    let spread = (quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?) / 1.349;
    Some(CrossTrafficEstimate { value, error: 1.09 * spread / (sorted.len() as f64).sqrt(), spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train at 120 Mb/s through a link of 100 Mb/s, with 1500 bytes of cross traffic after every `every`
    /// packets.
    fn observation(every: usize) -> TrainObservation {
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
        TrainObservation { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 }
    }

    #[test]
    fn fast_links_are_measured_at_any_time() {
        // Packets of 1500 bytes, sent at once, at 40 Gb/s.
        let begin_ns = 1_764_000_000_123_456_789;
        let observation = TrainObservation {
            bytes: 1500,
            sent_ns: vec![begin_ns; 5000],
            arrived_ns: (0..5000).map(|i| Some(begin_ns + 300 * i)).collect(),
            host_drops: 0,
        };
        let found = growing_bps(&observation, 0.0).unwrap();
        assert!((found / 40e9 - 1.0).abs() < 1e-6, "{found}");
    }

    #[test]
    fn cross_traffic_is_estimated_as_the_missing_capacity() {
        let found = cross_traffic_bps(&observation(4), 100e6, 0..200).unwrap();
        assert!((found / 30e6 - 1.0).abs() < 0.03, "{found}");
        let found = cross_traffic_bps(&observation(1000), 100e6, 0..200).unwrap();
        assert!(found.abs() < 1e6, "{found}");
        // A drop-tail queue that lost a third of the train and of the cross traffic.
        let mut lossy = observation(4);
        let kept: Vec<i64> = lossy.arrived_ns.iter().flatten().copied().collect();
        for (i, arrived) in lossy.arrived_ns.iter_mut().enumerate() {
            *arrived = (i % 3 != 1).then(|| kept[i * 2 / 3]);
        }
        let found = cross_traffic_bps(&lossy, 100e6, 0..200).unwrap();
        assert!((found / 30e6 - 1.0).abs() < 0.05, "{found}");
        let mut late = observation(4);
        late.sent_ns.iter_mut().skip(100).for_each(|at| *at += 30_000_000);
        late.arrived_ns.iter_mut().skip(100).flatten().for_each(|at| *at += 25_000_000);
        assert_eq!(cross_traffic_bps(&late, 100e6, 0..200), None);
        assert_eq!(cross_traffic_bps(&TrainObservation::default(), 100e6, 0..200), None);
    }

    #[test]
    fn two_rates_determine_the_tokens_of_a_policer() {
        // 40 Mb/s are available, and the bucket holds 500 kB: 4 Mb over 160 Mb/s, and over 60 Mb/s.
        let (found, bucket) = estimate_tokens((200e6, &[25e6; 8]), (100e6, &[4e6 / 60e6 * 1e9; 8])).unwrap();
        assert!((found.value / 40e6 - 1.0).abs() < 1e-6 && found.error < 1.0, "{found:?}");
        assert!((bucket / 500e3 - 1.0).abs() < 1e-6, "{bucket}");
        assert_eq!(estimate_tokens((200e6, &[25e6; 8]), (100e6, &[25e6; 8])), None);
    }

    #[test]
    fn the_estimate_is_robust_against_outliers() {
        let found = estimate(&[1.0, 2.0, 3.0, 2.0, 2.0, 900.0, 1.0, 3.0], 1).unwrap();
        assert!((found.value - 2.25).abs() < 1e-9, "{found:?}");
        assert_eq!(estimate(&[1.0, 2.0, 3.0], 1), None);
    }
}
