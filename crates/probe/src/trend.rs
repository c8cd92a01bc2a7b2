//! Tests whether one-way delays increase over a stream: pathload's tests PCT and PDT (Jain and Dovrolis,
//! IEEE/ACM ToN 11(4), 2003; thresholds of pathload 1.3.2).

use crate::{statistics::median, train::TrainObservation};

/// Thresholds of the pairwise comparison test (PCT) and the pairwise difference test (PDT): delays increase
/// above the first value, and do not increase below the second.
const PCT: (f64, f64) = (0.605, 0.495);
const PDT: (f64, f64) = (0.44, 0.36);
/// Minimum number of groups of a stream.
const MIN_GROUPS: usize = 5;

/// The trend of a stream's delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trend {
    /// Delays increase: the stream is faster than the available bandwidth.
    Increasing,
    /// Delays do not increase.
    Level,
    /// The tests disagree, or both are inconclusive.
    Ambiguous,
    /// Too few packets arrived.
    Unusable,
}

/// Determines the trend of a stream. Delays are medians of groups; a group has as many packets as there are
/// groups. Changes of less than twice `resolution_ns` are not an increase.
pub(crate) fn delay_trend(observation: &TrainObservation, resolution_ns: f64) -> Trend {
    let delays: Vec<f64> = observation.received().map(|packet| packet.delay_ns()).collect();
    let group = delays.len().isqrt().max(1);
    let medians: Vec<f64> = delays.chunks_exact(group).filter_map(median).collect();
    if medians.len() < MIN_GROUPS {
        return Trend::Unusable;
    }
    let pairs = medians.windows(2);
    let count = pairs.len() as f64;
    let rising = pairs.clone().filter(|pair| pair[1] > pair[0] + resolution_ns).count() as f64;
    let changes: f64 = pairs.map(|pair| (pair[1] - pair[0]).abs()).sum();
    let change = medians[medians.len() - 1] - medians[0];
    if change < 2.0 * resolution_ns {
        return Trend::Level;
    }
    let exceeds = |value: f64, (above, below): (f64, f64)| match value {
        _ if value > above => Some(true),
        _ if value < below => Some(false),
        _ => None,
    };
    match (exceeds(rising / count, PCT), exceeds(change / changes.max(1.0), PDT)) {
        (Some(true), Some(true) | None) | (None, Some(true)) => Trend::Increasing,
        (Some(false), Some(false) | None) | (None, Some(false)) => Trend::Level,
        _ => Trend::Ambiguous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(delay: impl Fn(usize) -> i64) -> TrainObservation {
        let sent_ns: Vec<i64> = (0..100).map(|i| i * 1_000_000).collect();
        let arrived_ns =
            sent_ns.iter().enumerate().map(|(i, sent)| Some(sent + 50_000_000 + delay(i))).collect();
        TrainObservation { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 }
    }

    #[test]
    fn a_growing_queue_is_distinguished_from_noise() {
        let noise = |i: usize| (i as i64 * 7_919) % 40_000;
        assert_eq!(delay_trend(&stream(|i| i as i64 * 5_000 + noise(i)), 100.0), Trend::Increasing);
        assert_eq!(delay_trend(&stream(noise), 100.0), Trend::Level);
        assert_eq!(delay_trend(&stream(|i| -(i as i64) * 5_000), 100.0), Trend::Level);
        assert_eq!(delay_trend(&TrainObservation::default(), 100.0), Trend::Unusable);
    }
}
