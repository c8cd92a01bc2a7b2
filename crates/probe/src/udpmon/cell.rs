//! The statistics of one train of the grid.
//!
//! The time that the bottleneck takes for a packet follows from the arrivals of a train that keeps it busy. A
//! packet dropped by a full queue took no time at the bottleneck; a packet lost elsewhere did. Between two
//! packets with consecutive numbers no packet was lost, so these intervals are correct in both cases. If a
//! full queue drops so many packets that few intervals remain, the mean interval of all arrivals is used
//! instead.

use crate::{
    statistics::quantile,
    train::{ReceivedPacket, TrainObservation},
};

/// Minimum share of the received packets that directly follow the packet with the previous number, for their
/// intervals to count alone.
const MIN_CONSECUTIVE: f64 = 0.5;
/// Minimum number of intervals of an estimate.
const MIN_INTERVALS: usize = 10;

/// The time between two packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PacketSpacing {
    /// ns.
    pub(super) ns: f64,
    /// Its error by the resolution of the timestamps, ns.
    pub(super) error_ns: f64,
}

/// The mean time between arrivals; `None` if too few packets arrived.
pub(super) fn received_spacing(packets: &[ReceivedPacket], resolution_ns: f64) -> Option<PacketSpacing> {
    let (first, last) = (packets.first()?, packets.last()?);
    let intervals = packets.len() - 1;
    if intervals < MIN_INTERVALS {
        return None;
    }
    let mut consecutive = (0usize, 0.0);
    // Each run of consecutive numbers has the errors of two timestamps.
    let mut runs = 1;
    for pair in packets.windows(2) {
        if pair[1].number == pair[0].number + 1 {
            consecutive.0 += 1;
            consecutive.1 += pair[1].arrived_ns.saturating_sub(pair[0].arrived_ns) as f64;
        } else {
            runs += 1;
        }
    }
    let (count, sum, runs) = if consecutive.0 as f64 >= MIN_CONSECUTIVE * intervals as f64 {
        (consecutive.0, consecutive.1, runs)
    } else {
        (intervals, last.arrived_ns.saturating_sub(first.arrived_ns) as f64, 1)
    };
    let error_ns = resolution_ns * (2.0 * f64::from(runs)).sqrt() / count as f64;
    Some(PacketSpacing { ns: sum / count as f64, error_ns })
}

/// The share of a train's duration in which a bottleneck that takes `spacing_ns` for a packet waits for the
/// sender, which may pause. Lost packets count as dropped before the bottleneck.
pub(super) fn idle_share(packets: &[ReceivedPacket], spacing_ns: f64) -> f64 {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return 0.0 };
    let sent = |packet: &ReceivedPacket| packet.sent_ns.saturating_sub(first.sent_ns) as f64;
    let mut free_at = spacing_ns;
    let mut idle = 0.0;
    for packet in &packets[1..] {
        idle += (sent(packet) - free_at).max(0.0);
        free_at = free_at.max(sent(packet)) + spacing_ns;
    }
    idle / sent(last).max(free_at).max(1.0)
}

/// The mean time between departures, ns; 0 for fewer than two packets.
pub(super) fn sent_spacing_ns(observation: &TrainObservation) -> f64 {
    let span = match (observation.sent_ns.first(), observation.sent_ns.last()) {
        (Some(first), Some(last)) => last.saturating_sub(*first) as f64,
        _ => 0.0,
    };
    span / observation.sent().saturating_sub(1).max(1) as f64
}

/// Number of reordered packets (RFC 4737 section 3.3): they arrived after a packet that was sent later.
pub(super) fn reordered(observation: &TrainObservation) -> usize {
    let mut arrivals: Vec<(i64, usize)> =
        observation.received().map(|packet| (packet.arrived_ns, packet.number)).collect();
    arrivals.sort_unstable();
    let mut next = 0;
    let mut late = 0;
    for (_, number) in arrivals {
        match number >= next {
            true => next = number + 1,
            false => late += 1,
        }
    }
    late
}

/// Intervals between the arrivals of packets with consecutive numbers, microseconds.
pub(super) fn interarrivals_us(observation: &TrainObservation) -> Vec<f64> {
    consecutive(observation, |before, after| after.arrived_ns.saturating_sub(before.arrived_ns))
}

/// One-way jitter: the delay of each packet minus that of the packet with the previous number (RFC 3393, with
/// consecutive packets), microseconds.
pub(super) fn jitter_us(observation: &TrainObservation) -> Vec<f64> {
    consecutive(observation, |before, after| {
        let gap = |from: i64, to: i64| to.saturating_sub(from);
        gap(before.arrived_ns, after.arrived_ns).saturating_sub(gap(before.sent_ns, after.sent_ns))
    })
}

fn consecutive(
    observation: &TrainObservation,
    value_ns: impl Fn(&ReceivedPacket, &ReceivedPacket) -> i64,
) -> Vec<f64> {
    let packets: Vec<ReceivedPacket> = observation.received().collect();
    let pairs = packets.windows(2).filter(|pair| pair[1].number == pair[0].number + 1);
    pairs.map(|pair| value_ns(&pair[0], &pair[1]) as f64 / 1e3).collect()
}

/// One-way delay of each packet above the minimum of its train, microseconds.
pub(super) fn delay_variation_us(observation: &TrainObservation) -> Vec<f64> {
    let delay = |packet: ReceivedPacket| packet.arrived_ns.saturating_sub(packet.sent_ns);
    let delays: Vec<i64> = observation.received().map(delay).collect();
    let Some(min_delay) = delays.iter().min() else { return Vec::new() };
    delays.iter().map(|delay| delay.saturating_sub(*min_delay) as f64 / 1e3).collect()
}

/// The lower quartile, and its standard error. Cross traffic and pauses of hosts lengthen the spacing of a
/// train, so the fast trains count. A pause of the receiver at a train's beginning shortens the spacing, so
/// the fastest train alone is not used. The number of values below the quartile is binomially distributed;
/// the error is the distance to the values that are one standard deviation of that number away.
pub(super) fn lower_quartile(values: &[f64]) -> Option<(f64, f64)> {
    const SHARE: f64 = 0.25;
    let deviation = (SHARE * (1.0 - SHARE) / values.len().max(1) as f64).sqrt();
    let low = quantile(values, (SHARE - deviation).max(0.0))?;
    let high = quantile(values, (SHARE + deviation).min(1.0))?;
    Some((quantile(values, SHARE)?, (high - low) / 2.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A train sent at once; `arrived` has the arrival of each packet in units of 1 us.
    fn train(arrived: &[Option<i64>]) -> TrainObservation {
        TrainObservation {
            bytes: 1000,
            sent_ns: vec![0; arrived.len()],
            arrived_ns: arrived.iter().map(|at| at.map(|us| us * 1000)).collect(),
            host_drops: 0,
        }
    }

    fn spacing(observation: &TrainObservation) -> f64 {
        let packets: Vec<ReceivedPacket> = observation.received().collect();
        received_spacing(&packets, 100.0).unwrap().ns
    }

    #[test]
    fn losses_of_either_kind_do_not_change_the_spacing() {
        // Every tenth packet is lost behind the bottleneck, which has spent 100 us on each.
        let behind: Vec<Option<i64>> = (0..200).map(|i| (i % 10 != 9).then_some(100 * i)).collect();
        assert!((spacing(&train(&behind)) - 100e3).abs() < 1e-6);
        // After the first 40 packets, three of four are dropped by a full queue, which spends no time on
        // them.
        let mut at = 0;
        let dropped: Vec<Option<i64>> = (0..400)
            .map(|i| {
                let is_lost = i > 40 && i % 4 != 0;
                (!is_lost).then(|| {
                    at += 100;
                    at
                })
            })
            .collect();
        assert!((spacing(&train(&dropped)) - 100e3).abs() < 1e-6);
    }

    #[test]
    fn pauses_of_the_sender_leave_the_bottleneck_idle() {
        let packets = |sent: &[i64]| -> Vec<ReceivedPacket> {
            let of =
                |(number, us): (usize, &i64)| ReceivedPacket { number, sent_ns: us * 1000, arrived_ns: 0 };
            sent.iter().enumerate().map(of).collect()
        };
        assert_eq!(idle_share(&packets(&[0, 0, 0, 0, 0]), 100e3), 0.0);
        // A pause shorter than the backlog, and one that exceeds it by 200 us in 500 us of work.
        assert_eq!(idle_share(&packets(&[0, 0, 0, 250, 300]), 100e3), 0.0);
        assert!((idle_share(&packets(&[0, 0, 0, 500, 500]), 100e3) - 2.0 / 7.0).abs() < 1e-9);
        assert_eq!(idle_share(&[], 100e3), 0.0);
    }

    #[test]
    fn packets_overtaken_by_later_ones_count_as_reordered() {
        assert_eq!(reordered(&train(&[Some(1), Some(2), Some(3)])), 0);
        // Two packets overtake packet 0; RFC 4737 counts the late one.
        assert_eq!(reordered(&train(&[Some(5), Some(2), Some(3), Some(6)])), 1);
        assert_eq!(reordered(&train(&[Some(3), None, Some(2), Some(1)])), 2);
        // Equal timestamps are not evidence of reordering.
        assert_eq!(reordered(&train(&[Some(1), Some(1), Some(1)])), 0);
    }

    #[test]
    fn jitter_is_the_change_of_delay() {
        let mut observation = train(&[Some(100), Some(210), None, Some(390), Some(500)]);
        observation.sent_ns = vec![0, 100_000, 200_000, 300_000, 400_000];
        assert_eq!(jitter_us(&observation), [10.0, 10.0]);
        assert_eq!(interarrivals_us(&observation), [110.0, 110.0]);
        assert_eq!(delay_variation_us(&observation), [10.0, 20.0, 0.0, 10.0]);
    }

    #[test]
    fn disturbed_trains_do_not_change_the_quartile() {
        let (value, error) = lower_quartile(&[10.0, 10.1, 9.9, 10.05, 10.2, 30.0, 5.0, 40.0]).unwrap();
        assert_eq!(value, 10.0, "{error}");
        assert_eq!(lower_quartile(&[]), None);
    }

    proptest! {
        /// Arbitrary timestamps cause no overflow, and no packet is counted twice.
        #[test]
        fn arbitrary_timestamps_do_not_overflow(all in prop::collection::vec((any::<i64>(), any::<Option<i64>>()), 0..60)) {
            let (sent_ns, arrived_ns) = all.into_iter().unzip();
            let observation = TrainObservation { bytes: 100, sent_ns, arrived_ns, host_drops: 0 };
            let received = observation.received().count();
            prop_assert!(reordered(&observation) <= received);
            prop_assert!(delay_variation_us(&observation).len() == received);
            prop_assert!(jitter_us(&observation).len() == interarrivals_us(&observation).len());
            let packets: Vec<ReceivedPacket> = observation.received().collect();
            let _ = (received_spacing(&packets, 1.0), sent_spacing_ns(&observation));
            prop_assert!(idle_share(&packets, 100.0) >= 0.0);
        }
    }
}
