//! The arrival curve of a train (bytes received over time): the slope of its later half, and a bend before
//! it.

use crate::{statistics::slope, train::TrainObservation};

/// Parameters of a train's arrival curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrivalCurve {
    /// The slope of the later half, bit/s of IP.
    pub(crate) rate_bps: f64,
    /// Bytes that passed at once before the slope began: the value of the later half's line at the first
    /// arrival. Near zero for a queue without a token bucket.
    pub(crate) bend_bytes: f64,
    /// Bytes received.
    pub(crate) bytes: f64,
}

/// Fits the arrival curve of a train. `None` if fewer than two packets arrived, or two at the same time.
pub(crate) fn fit_arrival_curve(observation: &TrainObservation, resolution_ns: f64) -> Option<ArrivalCurve> {
    let first = observation.received().next()?.arrived_ns;
    let bytes = f64::from(observation.bytes);
    // Lost packets do not count, because they have not passed the narrow link.
    let points: Vec<(f64, f64)> = observation
        .received()
        .enumerate()
        .map(|(count, packet)| ((packet.arrived_ns - first) as f64, count as f64 * bytes))
        .collect();
    if points.len() < 3 {
        let last = points.last().filter(|last| last.0 > 0.0)?;
        return Some(ArrivalCurve {
            rate_bps: last.1 * 8e9 / last.0,
            bend_bytes: 0.0,
            bytes: last.1 + bytes,
        });
    }
    let later = &points[points.len() / 2..];
    // Arrivals at the same time are faster than the resolution.
    let per_ns = slope(later).unwrap_or_else(|| later.len() as f64 * bytes / resolution_ns.max(1.0));
    let sum = later.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
    let count = later.len() as f64;
    let bend_bytes = sum.1 / count - per_ns * sum.0 / count;
    Some(ArrivalCurve { rate_bps: per_ns * 8e9, bend_bytes, bytes: points.len() as f64 * bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(arrived: impl Iterator<Item = i64>) -> TrainObservation {
        let arrived_ns: Vec<Option<i64>> = arrived.map(Some).collect();
        TrainObservation { bytes: 1000, sent_ns: vec![0; arrived_ns.len()], arrived_ns, host_drops: 0 }
    }

    #[test]
    fn a_queue_alone_has_no_bend_and_a_bucket_has_one() {
        let straight = fit_arrival_curve(&observation((0..100).map(|i| 500 + i * 8_000)), 1.0).unwrap();
        assert!((straight.rate_bps / 1e9 - 1.0).abs() < 1e-6, "{straight:?}");
        assert!(straight.bend_bytes.abs() < 1e-3, "{straight:?}");
        // Twenty packets at once, then 8 us for each.
        let bent =
            fit_arrival_curve(&observation((0..100i64).map(|i| 500 + (i - 20).max(0) * 8_000)), 1.0).unwrap();
        assert!((bent.rate_bps / 1e9 - 1.0).abs() < 1e-6, "{bent:?}");
        assert!((bent.bend_bytes - 20_000.0).abs() < 1.0, "{bent:?}");
        assert!(fit_arrival_curve(&observation([5].into_iter()), 1.0).is_none());
    }
}
