//! One-way delay between clocks that do not agree: what is left when the line under all delays is taken away.
//!
//! The one-way delays of packets to another clock are d + offset + skew x t. No packet is faster than the path, so the line that
//! lies below all of them and as close as can be has the skew as its slope: the edge of the lower convex hull over the mean of the times
//! (Moon, Skelly and Towsley 1999 as a linear program; Zhang, Liu and Xia 2002 by the hull, in linear time). What is above
//! the line is queueing. The offset itself cannot be known from one direction; two directions bound it by the round trip.

use serde::Serialize;

use crate::{
    answer::{Interval, Validity},
    statistics::{least, median, quantile},
};

/// The lowest points of so many parts tell how far above the path's own delay a line may lie.
const PARTS: usize = 10;

/// A packet there and back: all four instants (RFC 8762), ns; the first and last by one clock, the others by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// It left.
    pub sent_ns: i64,
    /// It came to the reflector.
    pub received_ns: i64,
    /// It left the reflector.
    pub reflected_ns: i64,
    /// It came back.
    pub returned_ns: i64,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OneWay {
    /// The one-way delay, milliseconds: half of the smallest round trip, give or take the same half.
    pub delay_ms: Interval,
    /// Above the smallest: the median and the 95th and 99th percentile, milliseconds. Exact to the time stamps' error.
    pub variation_ms: [f64; 3],
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayAnswer {
    /// Packets sent, and those that did not come back.
    pub sent: usize,
    /// Lost in either direction.
    pub lost: usize,
    /// Round-trip time without the reflector's part: least, median, 95th and 99th percentile, milliseconds.
    pub rtt_ms: Option<[f64; 4]>,
    /// There.
    pub forward: Option<OneWay>,
    /// And back.
    pub backward: Option<OneWay>,
    /// How much faster the other clock runs, parts in a million.
    pub skew_ppm: Option<Interval>,
    /// What time stamps add to a one-way delay at most, as both ends say, milliseconds.
    pub stamp_error_ms: f64,
    /// Whether to believe it.
    pub validity: Validity,
}

/// A line below points, and the two of them that it touches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineBelow {
    /// Its slope.
    pub slope: f64,
    /// Its height at x = 0.
    pub height: f64,
    /// The x of the two points.
    pub touches: [f64; 2],
}

impl LineBelow {
    fn above(&self, point: &(f64, f64)) -> f64 {
        point.1 - self.slope * point.0 - self.height
    }

    /// How wrong its slope may be, where `stamps` is what each height may be wrong by. A point that it touches is above the floor by as much
    /// as the lowest points of other parts are above the line, usually.
    fn slope_error(&self, points: &[(f64, f64)], stamps: f64) -> f64 {
        let lowest = |part: &[(f64, f64)]| least(part.iter().map(|point| self.above(point)));
        let floors: Vec<f64> = points.chunks((points.len() / PARTS).max(1)).filter_map(lowest).collect();
        let floor = median(&floors).unwrap_or(0.0).max(0.0);
        (floor + stamps) / (self.touches[1] - self.touches[0]).max(1.0)
    }
}

/// The line below all points that is closest to them: the lower hull's edge over the mean of x. Points are in ascending order of x.
pub fn line_below(points: &[(f64, f64)]) -> Option<LineBelow> {
    let mean = points.iter().map(|p| p.0).sum::<f64>() / points.len().max(1) as f64;
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..] {
            // Right turns only: b lies above the chord from a to the new point.
            if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        if hull.last().is_some_and(|last| last.0 >= point.0) {
            // Two at one instant: the lower.
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

/// What round trips say, of `sent` packets; the ends' clocks say they are exact to `stamp_error_ns` together.
pub fn delay(trips: &[RoundTrip], sent: usize, stamp_error_ns: f64) -> DelayAnswer {
    let mut doubts = Vec::new();
    let begin = trips.first().map_or(0, |trip| trip.sent_ns);
    let base = trips.first().map_or(0, |trip| trip.received_ns.saturating_sub(trip.sent_ns));
    // Relative to the first: numbers small enough for all digits.
    let relative = |from: i64, to: i64, base: i64| to.saturating_sub(from).saturating_sub(base) as f64;
    let at = |trip: &RoundTrip| trip.sent_ns.saturating_sub(begin) as f64;
    let mut sorted = trips.to_vec();
    sorted.sort_by_key(|trip| trip.sent_ns);
    let there: Vec<(f64, f64)> =
        sorted.iter().map(|t| (at(t), relative(t.sent_ns, t.received_ns, base))).collect();
    let back: Vec<(f64, f64)> = sorted
        .iter()
        .map(|t| (at(t), relative(t.reflected_ns, t.returned_ns, base.saturating_neg())))
        .collect();
    let trip_ns =
        |t: &RoundTrip| relative(t.sent_ns, t.returned_ns, 0) - relative(t.received_ns, t.reflected_ns, 0);
    let rtts: Vec<f64> = trips.iter().map(trip_ns).collect();
    let rtt_ms = least(rtts.iter().copied()).and_then(|least| {
        Some([least, median(&rtts)?, quantile(&rtts, 0.95)?, quantile(&rtts, 0.99)?].map(|ns| ns / 1e6))
    });
    if trips.len() < 20 {
        doubts.push(format!("only {} packets came back", trips.len()));
    }
    if rtt_ms.is_some_and(|rtt| rtt[0] < 0.0) {
        doubts.push("a round trip took less than no time: a clock was set meanwhile".into());
    }
    let lines = (line_below(&there), line_below(&back));
    let skew_ppm = match lines {
        (Some(ahead), Some(behind)) => {
            // Both directions see the same skew, with opposite signs; how they differ is what is not known, and they may agree by chance.
            let value = (ahead.slope - behind.slope) / 2.0;
            let lines = ahead.slope_error(&there, stamp_error_ns) + behind.slope_error(&back, stamp_error_ns);
            let spread = (ahead.slope + behind.slope).abs().max(lines) / 2.0;
            Some(Interval { low: (value - spread) * 1e6, value: value * 1e6, high: (value + spread) * 1e6 })
        }
        _ => None,
    };
    if skew_ppm.is_some_and(|skew| skew.value.abs() > 500.0) {
        doubts.push("the clocks' rates differ by more than clocks do: one of them was set, or slewed".into());
    }
    let half = rtt_ms.map_or(0.0, |rtt| rtt[0] / 2.0);
    let one_way = |points: &[(f64, f64)], line: Option<LineBelow>| {
        let line = line?;
        let above: Vec<f64> = points.iter().map(|point| line.above(point).max(0.0) / 1e6).collect();
        Some(OneWay {
            delay_ms: Interval { low: 0.0, value: half, high: 2.0 * half },
            variation_ms: [median(&above)?, quantile(&above, 0.95)?, quantile(&above, 0.99)?],
        })
    };
    DelayAnswer {
        sent,
        lost: sent.saturating_sub(trips.len()),
        rtt_ms,
        forward: one_way(&there, lines.0),
        backward: one_way(&back, lines.1),
        skew_ppm,
        stamp_error_ms: stamp_error_ns / 1e6,
        validity: Validity::of(doubts, || {
            format!(
                "{} round trips; variation is exact to the time stamps, the delay itself to half a round trip",
                trips.len()
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use datagrams::Draws;
    use proptest::prelude::*;
    use units::Time;

    use super::*;

    /// A path of 20 ms each way with exponential queueing to a clock that is `skew_ppm` fast.
    fn trips(skew_ppm: f64, count: usize) -> Vec<RoundTrip> {
        queued_trips(3, skew_ppm, count, Time::from_millis(1))
    }

    fn queued_trips(seed: u64, skew_ppm: f64, count: usize, queue: Time) -> Vec<RoundTrip> {
        let mut draws = Draws::new(seed, 3);
        let other = |ns: i64| ns + 5_000_000_000 + (ns as f64 * skew_ppm / 1e6) as i64;
        let mut queue = || draws.exponential(queue).0 as i64;
        (0..count as i64)
            .map(|i| {
                let sent_ns = i * 50_000_000;
                let at = sent_ns + 20_000_000 + queue();
                let left = at + 30_000;
                RoundTrip {
                    sent_ns,
                    received_ns: other(at),
                    reflected_ns: other(left),
                    returned_ns: left + 20_000_000 + queue(),
                }
            })
            .collect()
    }

    #[test]
    fn skew_is_found_and_taken_away() {
        for skew in [0.0, 40.0, -85.0] {
            let answer = delay(&trips(skew, 1000), 1010, 1000.0);
            let found = answer.skew_ppm.unwrap();
            assert!((found.value - skew).abs() < 1.0, "{skew}: {found:?}");
            assert_eq!((answer.sent, answer.lost, answer.validity.valid), (1010, 10, true));
            let forward = answer.forward.unwrap();
            // Exponential: the median is ln 2 of the mean, the 95th percentile three of it.
            assert!((forward.variation_ms[0] - 0.693).abs() < 0.1, "{forward:?}");
            assert!((forward.variation_ms[1] - 3.0).abs() < 0.5, "{forward:?}");
            assert!((answer.rtt_ms.unwrap()[0] - 40.0).abs() < 0.5);
            assert!(forward.delay_ms.low <= 20.0 && 20.0 <= forward.delay_ms.high);
        }
    }

    #[test]
    fn the_skews_interval_holds_it() {
        let skew = 23.0;
        for (count, queue) in [(100, 1000), (100, 50), (600, 5000), (40, 200)] {
            let holds = |seed: &u64| {
                let trips = queued_trips(*seed, skew, count, Time::from_micros(queue));
                let found = delay(&trips, count, 1000.0).skew_ppm.unwrap();
                found.low <= skew && skew <= found.high
            };
            let held = (0..200).filter(holds).count();
            assert!(held >= 180, "{count} trips with queues of {queue} us: {held} of 200");
        }
    }

    #[test]
    fn nothing_came_back() {
        let answer = delay(&[], 10, 0.0);
        assert_eq!((answer.lost, answer.rtt_ms, answer.validity.valid), (10, None, false));
    }

    proptest! {
        /// No point lies below the line, and it touches two of them.
        #[test]
        fn the_line_is_below(heights in prop::collection::vec(0i32..1000, 2..60)) {
            let points: Vec<(f64, f64)> =
                heights.iter().enumerate().map(|(i, h)| (i as f64, f64::from(*h))).collect();
            let line = line_below(&points).unwrap();
            let above = points.iter().map(|point| line.above(point));
            prop_assert!(above.clone().all(|a| a > -1e-6));
            prop_assert!(above.filter(|a| a.abs() < 1e-6).count() >= 2);
        }

        /// Whatever a peer writes into its packets, nothing overflows.
        #[test]
        fn any_instants_are_taken(all in prop::collection::vec(any::<(i64, i64, i64, i64)>(), 0..40)) {
            let trips: Vec<RoundTrip> = all
                .iter()
                .map(|(a, b, c, d)| RoundTrip { sent_ns: *a, received_ns: *b, reflected_ns: *c, returned_ns: *d })
                .collect();
            prop_assert_eq!(delay(&trips, trips.len(), 0.0).lost, 0);
        }
    }
}
