//! How long a byte takes on the way to a hop, and on the way back: slopes of the smallest round-trip times.
//!
//! A round trip to hop n takes a + s F + q R, for a probe of s bytes and a reply of q bytes, where F and R are the sums of what a byte takes
//! on the links there and back. Probes whose replies have one size give F; probes whose replies grow with them, byte by byte, give
//! F + R. A link is the difference between two hops.

use crate::statistics::median;

/// Points of a slope at least.
const LEAST_POINTS: usize = 4;

/// A value, and how far it may be off upwards and downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    below: f64,
    above: f64,
}

impl Estimate {
    const ZERO: Estimate = Estimate { value: 0.0, below: 0.0, above: 0.0 };

    fn new(value: f64, error: f64) -> Estimate {
        Estimate { value, below: error, above: error }
    }

    pub(crate) fn low(self) -> f64 {
        self.value - self.below
    }

    pub(crate) fn high(self) -> f64 {
        self.value + self.above
    }

    fn minus(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value - other.value,
            below: self.below + other.above,
            above: self.above + other.below,
        }
    }
}

/// What a byte takes to a hop, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slopes {
    /// On the way there.
    there: Option<Estimate>,
    /// There and back.
    both: Option<Estimate>,
}

/// What a byte takes on a link, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinkStep {
    pub(crate) value: Estimate,
    pub(crate) assumes_equal_directions: bool,
}

impl Slopes {
    /// At this host.
    pub(crate) const ORIGIN: Slopes = Slopes { there: Some(Estimate::ZERO), both: Some(Estimate::ZERO) };

    /// Of probes' bytes, their replies' bytes and the smallest round-trip times, ns, which are exact to `resolution_ns`.
    pub(crate) fn of(points: &[(u32, u32, f64)], resolution_ns: f64) -> Slopes {
        let part = |key: &dyn Fn(&(u32, u32, f64)) -> i64| {
            let most = most_frequent(points.iter().map(key))?;
            let part: Vec<(f64, f64)> = points
                .iter()
                .filter(|point| key(point) == most)
                .map(|(bytes, _, ns)| (f64::from(*bytes), *ns))
                .collect();
            slope(&part, resolution_ns)
        };
        Slopes {
            there: part(&|(_, reply, _)| i64::from(*reply)),
            both: part(&|(bytes, reply, _)| i64::from(*reply) - i64::from(*bytes)),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.there.is_some() || self.both.is_some()
    }

    /// What a byte takes from the hop of `before` to this one; `None` where that is less than can be told.
    pub(crate) fn step_from(&self, before: &Slopes) -> Option<LinkStep> {
        let there = self.there.zip(before.there).map(|(here, before)| here.minus(before));
        let both = self.both.zip(before.both).map(|(here, before)| here.minus(before));
        let half = both.filter(|both| both.low() > 0.0).map(|both| Estimate {
            value: both.value / 2.0,
            below: both.below / 2.0,
            above: both.above / 2.0,
        });
        let half = match (half, there) {
            // The directions differ, or the way there is known as well.
            (Some(half), Some(there)) if half.high() < there.low() || half.low() > there.high() => None,
            (Some(half), Some(there)) if there.above <= half.above => None,
            (half, _) => half,
        };
        if let (Some(half), Some(both)) = (half, both) {
            // All of it may be the way there, or none.
            let least = there.map_or(0.0, |there| there.low().max(0.0)).min(half.low());
            let most = there.map_or(f64::INFINITY, Estimate::high).min(both.high()).max(half.high());
            let value = Estimate { below: half.value - least, above: most - half.value, ..half };
            return Some(LinkStep { value, assumes_equal_directions: true });
        }
        let there = there.filter(|there| there.low() > 0.0)?;
        Some(LinkStep { value: there, assumes_equal_directions: false })
    }
}

fn most_frequent(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut sorted: Vec<i64> = values.collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).max_by_key(|chunk| chunk.len()).map(|chunk| chunk[0])
}

/// The median of the slopes between all pairs (Theil 1950, Sen 1968), which times that never were undisturbed hardly move.
fn slope(points: &[(f64, f64)], resolution_ns: f64) -> Option<Estimate> {
    if points.len() < LEAST_POINTS {
        return None;
    }
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    let slope = median(&slopes)?;
    let remainders: Vec<f64> = points.iter().map(|p| p.1 - slope * p.0).collect();
    let middle = median(&remainders)?;
    let off = median(&remainders.iter().map(|ns| (ns - middle).abs()).collect::<Vec<_>>())?;
    let span = points.last()?.0 - points.first()?.0;
    Some(Estimate::new(slope, 2.0 * (off + resolution_ns) / span))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips over a link there of `there` ns a byte, and `back`, with replies of this size.
    fn slopes(sizes: &[u32], reply: impl Fn(u32) -> u32, there: f64, back: f64) -> Slopes {
        let points: Vec<(u32, u32, f64)> = sizes
            .iter()
            .map(|bytes| {
                let reply = reply(*bytes);
                (*bytes, reply, 5e6 + f64::from(*bytes) * there + f64::from(reply) * back)
            })
            .collect();
        Slopes::of(&points, 100.0)
    }

    const SIZES: [u32; 12] = [64, 300, 500, 700, 900, 1100, 1240, 1290, 1340, 1400, 1450, 1500];

    fn step(reply: impl Fn(u32) -> u32, there: f64, back: f64) -> LinkStep {
        slopes(&SIZES, reply, there, back).step_from(&Slopes::ORIGIN).unwrap()
    }

    #[test]
    fn a_reply_of_one_size_shows_the_way_there_alone() {
        let found = step(|_| 56, 80.0, 800.0);
        assert!(!found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_reply_that_quotes_all_shows_both_ways() {
        let found = step(|bytes| bytes + 48, 80.0, 80.0);
        assert!(found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
        // The way back is ten times slower: not to be seen, so the interval holds it.
        let found = step(|bytes| bytes + 48, 80.0, 800.0);
        assert!(found.value.low() <= 80.0 && found.value.high() >= 80.0, "{found:?}");
    }

    #[test]
    fn replies_of_1280_bytes_at_most_tell_the_directions_apart() {
        let found = step(|bytes| (bytes + 48).min(1280), 80.0, 800.0);
        assert!(!found.assumes_equal_directions, "{found:?}");
        assert!((found.value.value - 80.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_link_behind_a_router_of_another_kind_is_not_known() {
        let near = slopes(&SIZES, |_| 56, 80.0, 80.0);
        let far = slopes(&SIZES, |bytes| bytes + 48, 160.0, 160.0);
        assert_eq!(far.step_from(&near), None);
    }
}
