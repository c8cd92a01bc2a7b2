//! Serialization time per byte to a hop and back: slopes of minimum round-trip times over packet sizes.
//!
//! A round trip to hop n takes a + s F + q R, for a probe of s bytes and a reply of q bytes, where F and R
//! are the sums of the serialization times per byte of the links in forward and backward direction. Probes
//! whose replies have a constant size yield F. Probes whose replies grow with them byte by byte yield F + R.
//! The value of a link is the difference between two hops.

use crate::statistics::median;

/// Minimum number of points of a slope.
const MIN_POINTS: usize = 4;

/// A slope with its possible errors downwards and upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlopeEstimate {
    pub(crate) value: f64,
    below: f64,
    above: f64,
}

impl SlopeEstimate {
    const ZERO: SlopeEstimate = SlopeEstimate { value: 0.0, below: 0.0, above: 0.0 };

    fn new(value: f64, error: f64) -> SlopeEstimate {
        SlopeEstimate { value, below: error, above: error }
    }

    pub(crate) fn low(self) -> f64 {
        self.value - self.below
    }

    pub(crate) fn high(self) -> f64 {
        self.value + self.above
    }

    fn minus(self, other: SlopeEstimate) -> SlopeEstimate {
        SlopeEstimate {
            value: self.value - other.value,
            below: self.below + other.above,
            above: self.above + other.below,
        }
    }
}

/// Serialization times per byte to a hop, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slopes {
    /// The slope of the forward direction.
    forward: Option<SlopeEstimate>,
    /// Sum of both directions.
    both: Option<SlopeEstimate>,
}

/// Serialization time per byte of a link, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinkStep {
    pub(crate) value: SlopeEstimate,
    pub(crate) assumes_equal_directions: bool,
}

impl Slopes {
    /// The slopes of the local host.
    pub(crate) const ORIGIN: Slopes =
        Slopes { forward: Some(SlopeEstimate::ZERO), both: Some(SlopeEstimate::ZERO) };

    /// Estimates slopes from probe sizes, reply sizes, and minimum round-trip times, ns, of the given
    /// resolution.
    pub(crate) fn estimate(points: &[(u32, u32, f64)], resolution_ns: f64) -> Slopes {
        let part = |key: &dyn Fn(&(u32, u32, f64)) -> i64| {
            let key_value = most_frequent(points.iter().map(key))?;
            let part: Vec<(f64, f64)> = points
                .iter()
                .filter(|point| key(point) == key_value)
                .map(|(bytes, _, ns)| (f64::from(*bytes), *ns))
                .collect();
            slope(&part, resolution_ns)
        };
        Slopes {
            forward: part(&|(_, reply, _)| i64::from(*reply)),
            both: part(&|(bytes, reply, _)| i64::from(*reply) - i64::from(*bytes)),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.forward.is_some() || self.both.is_some()
    }

    /// The serialization time per byte from the hop of `before` to this one; `None` if it is below the
    /// resolution.
    pub(crate) fn step_from(&self, before: &Slopes) -> Option<LinkStep> {
        let forward = self.forward.zip(before.forward).map(|(here, before)| here.minus(before));
        let both = self.both.zip(before.both).map(|(here, before)| here.minus(before));
        let half = both.filter(|both| both.low() > 0.0).map(|both| SlopeEstimate {
            value: both.value / 2.0,
            below: both.below / 2.0,
            above: both.above / 2.0,
        });
        let half = match (half, forward) {
            // The directions differ, or the forward direction alone is at least as precise.
            (Some(half), Some(forward)) if half.high() < forward.low() || half.low() > forward.high() => None,
            (Some(half), Some(forward)) if forward.above <= half.above => None,
            (half, _) => half,
        };
        if let (Some(half), Some(both)) = (half, both) {
            // The sum may be due entirely to the forward direction, or not at all.
            let min = forward.map_or(0.0, |forward| forward.low().max(0.0)).min(half.low());
            let max = forward.map_or(f64::INFINITY, SlopeEstimate::high).min(both.high()).max(half.high());
            let value = SlopeEstimate { below: half.value - min, above: max - half.value, ..half };
            return Some(LinkStep { value, assumes_equal_directions: true });
        }
        let forward = forward.filter(|forward| forward.low() > 0.0)?;
        Some(LinkStep { value: forward, assumes_equal_directions: false })
    }
}

fn most_frequent(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut sorted: Vec<i64> = values.collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).max_by_key(|chunk| chunk.len()).map(|chunk| chunk[0])
}

/// The median of the slopes between all pairs (Theil 1950, Sen 1968), which is robust against sizes without
/// an undisturbed sample.
fn slope(points: &[(f64, f64)], resolution_ns: f64) -> Option<SlopeEstimate> {
    if points.len() < MIN_POINTS {
        return None;
    }
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    let slope = median(&slopes)?;
    let residuals: Vec<f64> = points.iter().map(|p| p.1 - slope * p.0).collect();
    let middle = median(&residuals)?;
    let deviation = median(&residuals.iter().map(|ns| (ns - middle).abs()).collect::<Vec<_>>())?;
    let span = points.last()?.0 - points.first()?.0;
    Some(SlopeEstimate::new(slope, 2.0 * (deviation + resolution_ns) / span))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes of round trips over a link of `forward` and `backward` ns per byte, with replies of this size.
    fn slopes(sizes: &[u32], reply: impl Fn(u32) -> u32, forward: f64, backward: f64) -> Slopes {
        let points: Vec<(u32, u32, f64)> = sizes
            .iter()
            .map(|bytes| {
                let reply = reply(*bytes);
                (*bytes, reply, 5e6 + f64::from(*bytes) * forward + f64::from(reply) * backward)
            })
            .collect();
        Slopes::estimate(&points, 100.0)
    }

    const SIZES: [u32; 12] = [64, 300, 500, 700, 900, 1100, 1240, 1290, 1340, 1400, 1450, 1500];

    fn step(reply: impl Fn(u32) -> u32, forward: f64, backward: f64) -> LinkStep {
        slopes(&SIZES, reply, forward, backward).step_from(&Slopes::ORIGIN).unwrap()
    }

    #[test]
    fn replies_of_one_size_yield_the_forward_direction() {
        let found = step(|_| 56, 80.0, 800.0);
        assert!(!found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn replies_that_quote_everything_yield_the_sum_of_both_directions() {
        let found = step(|bytes| bytes + 48, 80.0, 80.0);
        assert!(found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
        // The backward direction is ten times slower, which cannot be distinguished: the interval must
        // contain the true value.
        let found = step(|bytes| bytes + 48, 80.0, 800.0);
        assert!(found.value.low() <= 80.0 && found.value.high() >= 80.0, "{found:?}");
    }

    #[test]
    fn replies_limited_to_1280_bytes_separate_the_directions() {
        let found = step(|bytes| (bytes + 48).min(1280), 80.0, 800.0);
        assert!(!found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_link_between_routers_that_quote_different_lengths_is_unknown() {
        let near = slopes(&SIZES, |_| 56, 80.0, 80.0);
        let distant = slopes(&SIZES, |bytes| bytes + 48, 160.0, 160.0);
        assert_eq!(distant.step_from(&near), None);
    }
}
