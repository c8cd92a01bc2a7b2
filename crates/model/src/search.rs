//! The search for unknowns with which a result matches best: a grid over the whole range, then smaller and
//! smaller steps around the best point. Deterministic, and in rounds whose points can be evaluated in
//! parallel.
//!
//! A pattern search (R. Hooke, T. Jeeves, J. ACM 8, 1961) from the best point of a grid. It needs no
//! gradient: simulations with few losses do not have one.

/// Points of the grid per unknown, by the number of unknowns.
const GRID_POINTS: [usize; 3] = [9, 5, 3];
/// Smallest step, as a share of the range.
const MIN_STEP: f64 = 0.002;
/// A range over more than this factor is searched on a logarithmic scale.
const LOGARITHMIC_ABOVE_RATIO: f64 = 4.0;

/// The range in which an unknown is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchRange {
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
}

impl SearchRange {
    /// True if the scale is logarithmic: a range above zero that spans more than a factor of 4.
    pub fn is_logarithmic(self) -> bool {
        self.low > 0.0 && self.high / self.low > LOGARITHMIC_ABOVE_RATIO
    }

    /// The value at a share of the way from low to high.
    fn at(self, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        match self.is_logarithmic() {
            true => self.low * libm::exp(share * libm::log(self.high / self.low)),
            false => self.low + share * (self.high - self.low),
        }
    }
}

/// A point and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// A value of each unknown.
    pub point: Vec<f64>,
    /// Difference from the target; infinite if unknown.
    pub cost: f64,
}

/// Evaluates at most `max_trials` points, in rounds, and returns them in order.
///
/// `snap` rounds a point to valid values. `costs` evaluates all points of a round.
///
/// # Errors
/// The first error of `costs`.
pub fn search<E>(
    ranges: &[SearchRange],
    max_trials: usize,
    snap: impl Fn(Vec<f64>) -> Vec<f64>,
    mut costs: impl FnMut(&[Vec<f64>]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Trial>, E> {
    let mut tried: Vec<(Vec<f64>, Trial)> = Vec::new();
    // At most two thirds of the trials, so that some remain for refinement.
    let mut points_per_side = GRID_POINTS[ranges.len().clamp(1, GRID_POINTS.len()) - 1];
    while points_per_side > 2
        && points_per_side.saturating_pow(ranges.len() as u32) > max_trials.max(1) * 2 / 3
    {
        points_per_side -= 1;
    }
    let mut step = 1.0 / (points_per_side - 1) as f64;
    let mut round = grid(&vec![(0..points_per_side).map(|i| i as f64 * step).collect(); ranges.len()]);
    while tried.len() < max_trials && step >= MIN_STEP {
        let value = |shares: &Vec<f64>| snap(ranges.iter().zip(shares).map(|(r, s)| r.at(*s)).collect());
        let mut new: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
        for shares in &round {
            let point = value(shares);
            let known = tried.iter().any(|(_, t)| t.point == point) || new.iter().any(|(_, p)| *p == point);
            if !known && tried.len() + new.len() < max_trials {
                new.push((shares.clone(), point));
            }
        }
        let points: Vec<Vec<f64>> = new.iter().map(|(_, point)| point.clone()).collect();
        let found = if points.is_empty() { Vec::new() } else { costs(&points)? };
        tried.extend(
            new.into_iter().zip(found).map(|((shares, point), cost)| (shares, Trial { point, cost })),
        );
        let Some((best, _)) = tried.iter().min_by(|a, b| a.1.cost.total_cmp(&b.1.cost)) else { break };
        step /= 2.0;
        let around = |share: &f64| [share - step, *share, share + step].map(|s| s.clamp(0.0, 1.0)).to_vec();
        round = grid(&best.iter().map(around).collect::<Vec<_>>());
    }
    Ok(tried.into_iter().map(|(_, tried)| tried).collect())
}

/// All combinations of the sides' values; the last side changes fastest.
fn grid(sides: &[Vec<f64>]) -> Vec<Vec<f64>> {
    sides.iter().fold(vec![Vec::new()], |points, side| {
        let with = |point: &Vec<f64>, value: &f64| [point.as_slice(), &[*value]].concat();
        points.iter().flat_map(|point| side.iter().map(move |value| with(point, value))).collect()
    })
}

/// The root of the mean square; infinite for an empty slice.
pub fn root_mean_square(values: &[f64]) -> f64 {
    match values {
        [] => f64::INFINITY,
        values => libm::sqrt(values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(tried: &[Trial]) -> &Trial {
        tried.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).unwrap()
    }

    fn run(ranges: &[SearchRange], max_runs: usize, cost: impl Fn(&[f64]) -> f64) -> Vec<Trial> {
        search(ranges, max_runs, |p| p, |round| Ok::<_, ()>(round.iter().map(|p| cost(p)).collect())).unwrap()
    }

    #[test]
    fn one_unknown_over_decades() {
        let range = SearchRange { low: 10.0, high: 10_000.0 };
        let tried = run(&[range], 25, |p| libm::fabs(libm::log(p[0] / 137.0)));
        assert!((best(&tried).point[0] / 137.0 - 1.0).abs() < 0.02, "{:?}", best(&tried));
        assert!(tried.len() <= 25);
        assert_eq!(tried, run(&[range], 25, |p| libm::fabs(libm::log(p[0] / 137.0))));
    }

    #[test]
    fn two_unknowns() {
        let ranges = [SearchRange { low: 10.0, high: 1000.0 }, SearchRange { low: 0.0, high: 3.0 }];
        let cost = |p: &[f64]| {
            let (a, b) = (libm::log(p[0] / 70.0), p[1] - 2.2);
            libm::sqrt(a * a + b * b + 0.5 * a * b)
        };
        let tried = run(&ranges, 70, cost);
        let found = best(&tried);
        assert!(
            (found.point[0] / 70.0 - 1.0).abs() < 0.05 && (found.point[1] - 2.2).abs() < 0.05,
            "{found:?}"
        );
    }

    #[test]
    fn points_that_snap_to_the_same_values_are_tried_once() {
        let snap = |p: Vec<f64>| p.into_iter().map(|x| x.round()).collect::<Vec<f64>>();
        let costs = |round: &[Vec<f64>]| Ok::<_, ()>(round.iter().map(|p| (p[0] - 7.0).abs()).collect());
        let tried = search(&[SearchRange { low: 1.0, high: 12.0 }], 100, snap, costs).unwrap();
        let mut seen: Vec<i64> = tried.iter().map(|t| t.point[0] as i64).collect();
        seen.sort_unstable();
        let count = seen.len();
        seen.dedup();
        assert_eq!((seen.len(), best(&tried).point[0]), (count, 7.0));
    }

    #[test]
    fn the_maximum_number_of_trials_holds_and_the_best_point_may_be_at_an_end() {
        for max_trials in [0, 1, 2, 5] {
            assert!(run(&[SearchRange { low: 1.0, high: 100.0 }], max_trials, |p| p[0]).len() <= max_trials);
        }
        assert_eq!(best(&run(&[SearchRange { low: 1.0, high: 100.0 }], 12, |p| p[0])).point[0], 1.0);
        assert_eq!(
            search(&[SearchRange { low: 1.0, high: 2.0 }], 9, |p| p, |_| Err("broken")),
            Err("broken")
        );
    }

    #[test]
    fn root_mean_squares() {
        assert!((root_mean_square(&[0.1, -0.1]) - 0.1).abs() < 1e-12);
        assert_eq!(root_mean_square(&[]), f64::INFINITY);
    }
}
