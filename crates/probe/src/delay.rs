//! One-way delay variation between unsynchronized clocks: the delay above the closest line that lies below
//! all delays.
//!
//! The one-way delays of packets by another host's clock are d + offset + skew x t. No packet is faster than
//! the path. So the closest line below all delays has the skew as its slope: the edge of the lower convex
//! hull at the mean of the times (Moon, Skelly and Towsley 1999 as a linear program; Zhang, Liu and Xia 2002
//! by the hull, in linear time). The delay above the line is queueing. The offset cannot be determined from
//! one direction; the round-trip time bounds it.

use serde::Serialize;

use crate::{
    result::{Interval, Validity},
    statistics::{median, minimum, quantile},
};

/// Number of parts of a measurement whose lowest points show how far the line may lie above the path's
/// minimum delay.
const PARTS: usize = 10;

/// The four timestamps of a round trip (RFC 8762), ns: the first and the last by the sender's clock, the
/// others by the reflector's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTripTimes {
    /// Departure time at the sender.
    pub sent_ns: i64,
    /// Arrival time at the reflector.
    pub received_ns: i64,
    /// Departure time at the reflector.
    pub reflected_ns: i64,
    /// Arrival time at the sender.
    pub returned_ns: i64,
}

/// The two timestamps of a packet that is not returned (RFC 4656), ns: each by the clock of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWayTimes {
    /// Departure time at the sender.
    pub sent_ns: i64,
    /// Arrival time at the receiver.
    pub received_ns: i64,
}

/// The packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DirectionCounts {
    /// Number of packets sent.
    pub sent: usize,
    /// Number of packets lost.
    pub lost: usize,
}

/// The delay of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OneWayDelay {
    /// One-way delay, milliseconds: half of the minimum round-trip time, plus or minus the same amount.
    pub delay_ms: Interval,
    /// Delay above the minimum: median, 95th and 99th percentile, milliseconds. Precise to the error of the
    /// timestamps.
    pub variation_ms: [f64; 3],
}

/// The result of a delay measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayResult {
    /// Number of packets sent.
    pub sent: usize,
    /// Number of packets lost in either direction.
    pub lost: usize,
    /// The packets of each direction, forward and backward, if they were counted: by OWAMP and TWAMP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_direction: Option<[DirectionCounts; 2]>,
    /// Round-trip time without the reflector's processing time: minimum, median, 95th and 99th percentile,
    /// milliseconds.
    pub rtt_ms: Option<[f64; 4]>,
    /// Forward direction.
    pub forward: Option<OneWayDelay>,
    /// Backward direction.
    pub backward: Option<OneWayDelay>,
    /// Clock skew: how much faster the reflector's clock runs, parts per million.
    pub skew_ppm: Option<Interval>,
    /// Maximum error of a one-way delay by the timestamps, as both hosts report it, milliseconds.
    pub stamp_error_ms: f64,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// A line below points that touches two of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineBelow {
    /// Slope.
    pub slope: f64,
    /// Height at x = 0.
    pub height: f64,
    /// The x of the two touched points.
    pub touches: [f64; 2],
}

impl LineBelow {
    fn height_at(&self, x: f64) -> f64 {
        self.slope * x + self.height
    }

    fn height_above(&self, point: &(f64, f64)) -> f64 {
        point.1 - self.height_at(point.0)
    }

    /// The possible error of the slope, given the possible error of each height by the timestamps. A touched
    /// point usually lies above the path's minimum delay by as much as the lowest points of other parts lie
    /// above the line.
    fn slope_error(&self, points: &[(f64, f64)], timestamp_error: f64) -> f64 {
        let lowest = |part: &[(f64, f64)]| minimum(part.iter().map(|point| self.height_above(point)));
        let floors: Vec<f64> = points.chunks((points.len() / PARTS).max(1)).filter_map(lowest).collect();
        let floor = median(&floors).unwrap_or(0.0).max(0.0);
        (floor + timestamp_error) / (self.touches[1] - self.touches[0]).max(1.0)
    }
}

/// Fits the closest line below all points: the edge of the lower convex hull at the mean of x. Points must be
/// in ascending order of x. `None` for fewer than two different x.
pub fn fit_line_below(points: &[(f64, f64)]) -> Option<LineBelow> {
    let mean = points.iter().map(|p| p.0).sum::<f64>() / points.len().max(1) as f64;
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..] {
            // A lower hull has only left turns: b is removed if it lies above the chord from a to the new
            // point.
            if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        if hull.last().is_some_and(|last| last.0 >= point.0) {
            // If two points have the same x, the lower one counts.
            if hull.last().is_some_and(|last| last.1 <= point.1) {
                continue;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let edge = hull.windows(2).find(|edge| edge[1].0 >= mean).or_else(|| hull.windows(2).last())?;
    let slope = (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0);
    Some(LineBelow { slope, height: edge[0].1 - slope * edge[0].0, touches: [edge[0].0, edge[1].0] })
}

/// Estimates the delays of both directions from the round trips of `sent` packets. `stamp_error_ns` is the
/// sum of the errors that both hosts report for their timestamps.
pub fn estimate_delay(trips: &[RoundTripTimes], sent: usize, stamp_error_ns: f64) -> DelayResult {
    let mut warnings = Vec::new();
    let begin = trips.first().map_or(0, |trip| trip.sent_ns);
    let base = trips.first().map_or(0, |trip| trip.received_ns.saturating_sub(trip.sent_ns));
    // Times relative to the first are small enough for the precision of f64.
    let relative = |from: i64, to: i64, base: i64| to.saturating_sub(from).saturating_sub(base) as f64;
    let time = |trip: &RoundTripTimes| trip.sent_ns.saturating_sub(begin) as f64;
    let mut sorted = trips.to_vec();
    sorted.sort_by_key(|trip| trip.sent_ns);
    let forward: Vec<(f64, f64)> =
        sorted.iter().map(|t| (time(t), relative(t.sent_ns, t.received_ns, base))).collect();
    let backward: Vec<(f64, f64)> = sorted
        .iter()
        .map(|t| (time(t), relative(t.reflected_ns, t.returned_ns, base.saturating_neg())))
        .collect();
    let trip_ns = |t: &RoundTripTimes| {
        relative(t.sent_ns, t.returned_ns, 0) - relative(t.received_ns, t.reflected_ns, 0)
    };
    let rtts: Vec<f64> = trips.iter().map(trip_ns).collect();
    let rtt_ms = minimum(rtts.iter().copied()).and_then(|min| {
        Some([min, median(&rtts)?, quantile(&rtts, 0.95)?, quantile(&rtts, 0.99)?].map(|ns| ns / 1e6))
    });
    if trips.len() < 20 {
        warnings.push(format!("only {} packets returned", trips.len()));
    }
    if rtt_ms.is_some_and(|rtt| rtt[0] < 0.0) {
        warnings.push("a round-trip time is negative: a clock was set during the measurement".into());
    }
    let directions = Directions::of(&forward, &backward, stamp_error_ns, &mut warnings);
    let half_ms = rtt_ms.map_or(0.0, |rtt| rtt[0] / 2.0);
    DelayResult {
        sent,
        lost: sent.saturating_sub(trips.len()),
        each_direction: None,
        rtt_ms,
        forward: one_way(&forward, directions.lines[0], half_ms),
        backward: one_way(&backward, directions.lines[1], half_ms),
        skew_ppm: directions.skew_ppm,
        stamp_error_ms: stamp_error_ns / 1e6,
        validity: Validity::new(warnings, || {
            format!(
                "{} round trips; variation is precise to the timestamps, the delay itself to half a \
                round-trip time",
                trips.len()
            )
        }),
    }
}

/// Estimates the delays of both directions from packets that are not returned. `sent` is the number of
/// packets that were sent in each direction; `forward` are from this host, `backward` to this host.
/// `stamp_error_ns` is as in [`estimate_delay`].
///
/// A delay of a packet contains the clocks' offset, with the opposite sign in the other direction. So the sum
/// of both directions' minimum delays is the minimum round-trip time.
pub fn estimate_one_way_delays(
    forward: &[OneWayTimes],
    backward: &[OneWayTimes],
    sent: [usize; 2],
    stamp_error_ns: f64,
) -> DelayResult {
    let mut warnings = Vec::new();
    // This host's clock at the first packet, and the clocks' offset: times relative to these are small enough
    // for the precision of f64.
    let begin = forward.iter().map(|t| t.sent_ns).chain(backward.iter().map(|t| t.received_ns)).min();
    let begin = begin.unwrap_or(0);
    let base = forward.first().map(|t| t.received_ns.saturating_sub(t.sent_ns));
    let base = base.or(backward.first().map(|t| t.sent_ns.saturating_sub(t.received_ns))).unwrap_or(0);
    let points = |trips: &[OneWayTimes], base: i64, own_ns: fn(&OneWayTimes) -> i64| {
        let point = |t: &OneWayTimes| {
            let delay = t.received_ns.saturating_sub(t.sent_ns).saturating_sub(base);
            (own_ns(t).saturating_sub(begin) as f64, delay as f64)
        };
        let mut points: Vec<(f64, f64)> = trips.iter().map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let forward_points = points(forward, base, |t| t.sent_ns);
    let backward_points = points(backward, base.saturating_neg(), |t| t.received_ns);
    for (name, points) in [("forward", &forward_points), ("backward", &backward_points)] {
        if points.len() < 20 {
            warnings.push(format!("only {} packets of the {name} direction arrived", points.len()));
        }
    }
    let directions = Directions::of(&forward_points, &backward_points, stamp_error_ns, &mut warnings);
    // Both minima are taken at the same time, so that the skew cancels out.
    let middle = forward_points.last().map_or(0.0, |point| point.0 / 2.0);
    let rtt_ns = match directions.lines {
        [Some(forward_line), Some(backward_line)] => {
            Some(forward_line.height_at(middle) + backward_line.height_at(middle))
        }
        _ => None,
    };
    if rtt_ns.is_some_and(|rtt| rtt < 0.0) {
        warnings
            .push("the minimum round-trip time is negative: a clock was set during the measurement".into());
    }
    let half_ms = rtt_ns.map_or(f64::INFINITY, |rtt| rtt.max(0.0) / 2e6);
    let counts = [(sent[0], forward.len()), (sent[1], backward.len())];
    let counts = counts.map(|(sent, arrived)| DirectionCounts { sent, lost: sent.saturating_sub(arrived) });
    DelayResult {
        sent: counts[0].sent + counts[1].sent,
        lost: counts[0].lost + counts[1].lost,
        each_direction: Some(counts),
        rtt_ms: None,
        forward: one_way(&forward_points, directions.lines[0], half_ms),
        backward: one_way(&backward_points, directions.lines[1], half_ms),
        skew_ppm: directions.skew_ppm,
        stamp_error_ms: stamp_error_ns / 1e6,
        validity: Validity::new(warnings, || {
            format!(
                "{} packets forward, {} backward; variation is precise to the timestamps, the delay itself to half a \
                round-trip time",
                forward.len(),
                backward.len()
            )
        }),
    }
}

/// The result of the points of both directions.
struct Directions {
    /// The lines below the forward and the backward points.
    lines: [Option<LineBelow>; 2],
    skew_ppm: Option<Interval>,
}

impl Directions {
    fn of(
        forward: &[(f64, f64)],
        backward: &[(f64, f64)],
        stamp_error_ns: f64,
        warnings: &mut Vec<String>,
    ) -> Self {
        let lines = [fit_line_below(forward), fit_line_below(backward)];
        let skew_ppm = match lines {
            [Some(forward_line), Some(backward_line)] => {
                // Both directions show the same skew with opposite signs. Their difference is the
                // uncertainty, which is at least the error of the slopes, because they may agree by chance.
                let value = (forward_line.slope - backward_line.slope) / 2.0;
                let errors = forward_line.slope_error(forward, stamp_error_ns)
                    + backward_line.slope_error(backward, stamp_error_ns);
                let spread = (forward_line.slope + backward_line.slope).abs().max(errors) / 2.0;
                Some(Interval {
                    low: (value - spread) * 1e6,
                    value: value * 1e6,
                    high: (value + spread) * 1e6,
                })
            }
            _ => None,
        };
        if skew_ppm.is_some_and(|skew| skew.value.abs() > 500.0) {
            warnings.push(
                "the skew is larger than that of any clock: one clock was set or slewed during the measurement"
                    .into(),
            );
        }
        Directions { lines, skew_ppm }
    }
}

/// The delay of a direction, if half of the minimum round-trip time is `half_ms`.
fn one_way(points: &[(f64, f64)], line: Option<LineBelow>, half_ms: f64) -> Option<OneWayDelay> {
    let line = line?;
    let above: Vec<f64> = points.iter().map(|point| line.height_above(point).max(0.0) / 1e6).collect();
    Some(OneWayDelay {
        delay_ms: Interval { low: 0.0, value: half_ms, high: 2.0 * half_ms },
        variation_ms: [median(&above)?, quantile(&above, 0.95)?, quantile(&above, 0.99)?],
    })
}

#[cfg(test)]
mod tests {
    use datagrams::Draws;
    use proptest::prelude::*;
    use units::Time;

    use super::*;

    /// Round trips of 20 ms in each direction with exponential queueing, to a host whose clock is fast by
    /// `skew_ppm`.
    fn trips(skew_ppm: f64, count: usize) -> Vec<RoundTripTimes> {
        queued_trips(3, skew_ppm, count, Time::from_millis(1))
    }

    fn queued_trips(seed: u64, skew_ppm: f64, count: usize, queue: Time) -> Vec<RoundTripTimes> {
        let mut draws = Draws::new(seed, 3);
        let other = |ns: i64| ns + 5_000_000_000 + (ns as f64 * skew_ppm / 1e6) as i64;
        let mut queue = || draws.exponential(queue).as_nanos() as i64;
        (0..count as i64)
            .map(|i| {
                let sent_ns = i * 50_000_000;
                let at = sent_ns + 20_000_000 + queue();
                let left = at + 30_000;
                RoundTripTimes {
                    sent_ns,
                    received_ns: other(at),
                    reflected_ns: other(left),
                    returned_ns: left + 20_000_000 + queue(),
                }
            })
            .collect()
    }

    #[test]
    fn skew_is_estimated_and_removed() {
        for skew in [0.0, 40.0, -85.0] {
            let result = estimate_delay(&trips(skew, 1000), 1010, 1000.0);
            let found = result.skew_ppm.unwrap();
            assert!((found.value - skew).abs() < 1.0, "{skew}: {found:?}");
            assert_eq!((result.sent, result.lost, result.validity.valid), (1010, 10, true));
            let forward = result.forward.unwrap();
            // Exponential distribution: the median is ln 2 times the mean, the 95th percentile three times
            // the mean.
            assert!((forward.variation_ms[0] - 0.693).abs() < 0.1, "{forward:?}");
            assert!((forward.variation_ms[1] - 3.0).abs() < 0.5, "{forward:?}");
            assert!((result.rtt_ms.unwrap()[0] - 40.0).abs() < 0.5);
            assert!(forward.delay_ms.low <= 20.0 && 20.0 <= forward.delay_ms.high);
        }
    }

    /// Packets of round trips, evaluated as if each direction had separate packets, give the same delays.
    #[test]
    fn one_way_packets_give_the_same_delays_as_round_trips() {
        let trips = trips(40.0, 1000);
        let times = |sent_ns, received_ns| OneWayTimes { sent_ns, received_ns };
        let forward: Vec<OneWayTimes> = trips.iter().map(|t| times(t.sent_ns, t.received_ns)).collect();
        // Half of the packets of the other direction are lost.
        let backward: Vec<OneWayTimes> =
            trips.iter().step_by(2).map(|t| times(t.reflected_ns, t.returned_ns)).collect();
        let result = estimate_one_way_delays(&forward, &backward, [1000, 1000], 1000.0);
        let counts = result.each_direction.unwrap();
        assert_eq!((counts[0].lost, counts[1].lost), (0, 500));
        assert_eq!((result.sent, result.lost, result.rtt_ms), (2000, 500, None));
        let skew = result.skew_ppm.unwrap();
        assert!((skew.value - 40.0).abs() < 1.0, "{skew:?}");
        let (forward, backward) = (result.forward.unwrap(), result.backward.unwrap());
        for way in [forward, backward] {
            assert!((way.delay_ms.high - 40.0).abs() < 0.5, "{way:?}");
            assert!((way.variation_ms[0] - 0.693).abs() < 0.15, "{way:?}");
        }
        assert!(result.validity.valid, "{:?}", result.validity);
    }

    #[test]
    fn without_one_direction_the_delay_is_unknown_but_its_variation_is_not() {
        let forward: Vec<OneWayTimes> = trips(0.0, 100)
            .iter()
            .map(|t| OneWayTimes { sent_ns: t.sent_ns, received_ns: t.received_ns })
            .collect();
        let result = estimate_one_way_delays(&forward, &[], [100, 100], 1000.0);
        assert_eq!((result.lost, result.backward, result.validity.valid), (100, None, false));
        let forward = result.forward.unwrap();
        assert!(forward.delay_ms.high.is_infinite() && forward.variation_ms[0] < 2.0, "{forward:?}");
    }

    #[test]
    fn the_interval_of_the_skew_contains_the_true_value() {
        let skew = 23.0;
        for (count, queue) in [(100, 1000), (100, 50), (600, 5000), (40, 200)] {
            let is_covered = |seed: &u64| {
                let trips = queued_trips(*seed, skew, count, Time::from_micros(queue));
                let found = estimate_delay(&trips, count, 1000.0).skew_ppm.unwrap();
                found.low <= skew && skew <= found.high
            };
            let covered = (0..200).filter(is_covered).count();
            assert!(covered >= 180, "{count} trips with queues of {queue} us: {covered} of 200");
        }
    }

    #[test]
    fn without_replies_there_is_no_result() {
        let result = estimate_delay(&[], 10, 0.0);
        assert_eq!((result.lost, result.rtt_ms, result.validity.valid), (10, None, false));
    }

    proptest! {
        /// No point lies below the line, and the line touches two points.
        #[test]
        fn the_line_touches_the_points_from_below(heights in prop::collection::vec(0i32..1000, 2..60)) {
            let points: Vec<(f64, f64)> =
                heights.iter().enumerate().map(|(i, h)| (i as f64, f64::from(*h))).collect();
            let line = fit_line_below(&points).unwrap();
            let above = points.iter().map(|point| line.height_above(point));
            prop_assert!(above.clone().all(|a| a > -1e-6));
            prop_assert!(above.filter(|a| a.abs() < 1e-6).count() >= 2);
        }

        /// Arbitrary timestamps of a peer cause no overflow.
        #[test]
        fn arbitrary_timestamps_do_not_overflow(all in prop::collection::vec(any::<(i64, i64, i64, i64)>(), 0..40)) {
            let trips: Vec<RoundTripTimes> = all
                .iter()
                .map(|(a, b, c, d)| RoundTripTimes { sent_ns: *a, received_ns: *b, reflected_ns: *c, returned_ns: *d })
                .collect();
            prop_assert_eq!(estimate_delay(&trips, trips.len(), 0.0).lost, 0);
            let forward: Vec<OneWayTimes> =
                all.iter().map(|(a, b, ..)| OneWayTimes { sent_ns: *a, received_ns: *b }).collect();
            let backward: Vec<OneWayTimes> =
                all.iter().map(|(.., c, d)| OneWayTimes { sent_ns: *c, received_ns: *d }).collect();
            let counts = [forward.len(), backward.len()];
            prop_assert_eq!(estimate_one_way_delays(&forward, &backward, counts, 0.0).lost, 0);
        }
    }
}
