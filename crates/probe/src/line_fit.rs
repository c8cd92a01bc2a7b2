//! Weighted least squares: a line through points with known errors, and the confidence intervals of its slope
//! and intercept.
//!
//! The scatter of the points about the line and their own errors are two estimates of the same thing; the
//! larger of them determines the intervals.

use crate::result::Interval;

/// Two-sided 95 % quantiles of Student's t-distribution, by degrees of freedom from 1.
const STUDENT_95: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
/// The 97.5 % quantile of the normal distribution, for many degrees of freedom.
const NORMAL_95: f64 = 1.96;

/// A point of a line, with the standard error of its height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePoint {
    /// Abscissa.
    pub x: f64,
    /// Height.
    pub y: f64,
    /// Standard error of the height; positive.
    pub error: f64,
}

/// A fitted line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineFit {
    /// Slope, with its 95 % confidence interval.
    pub slope: Interval,
    /// Height at x = 0, with its 95 % confidence interval.
    pub intercept: Interval,
    /// Sum of the squared residuals, each divided by its error, per degree of freedom: about 1 for points on
    /// a line.
    pub reduced_chi_square: f64,
}

impl LineFit {
    /// Fits a line; `None` for fewer than three different x, or values that are not finite.
    pub fn of(points: &[LinePoint]) -> Option<LineFit> {
        let is_usable =
            |p: &LinePoint| p.x.is_finite() && p.y.is_finite() && p.error.is_finite() && p.error > 0.0;
        let mut different: Vec<f64> = points.iter().map(|p| p.x).collect();
        different.sort_by(f64::total_cmp);
        different.dedup();
        if different.len() < 3 || !points.iter().all(is_usable) {
            return None;
        }
        let weight = |p: &LinePoint| 1.0 / (p.error * p.error);
        let sum =
            |value: &dyn Fn(&LinePoint) -> f64| points.iter().map(|p| weight(p) * value(p)).sum::<f64>();
        let total = sum(&|_| 1.0);
        let (mean_x, mean_y) = (sum(&|p| p.x) / total, sum(&|p| p.y) / total);
        let square_x = sum(&|p| (p.x - mean_x).powi(2));
        let slope = sum(&|p| (p.x - mean_x) * (p.y - mean_y)) / square_x;
        let intercept = mean_y - slope * mean_x;
        let freedom = points.len() - 2;
        let reduced_chi_square = sum(&|p| (p.y - intercept - slope * p.x).powi(2)) / freedom as f64;
        let scale =
            reduced_chi_square.sqrt().max(1.0) * STUDENT_95.get(freedom - 1).copied().unwrap_or(NORMAL_95);
        let around = |value: f64, error: f64| Interval { low: value - error, value, high: value + error };
        let fit = LineFit {
            slope: around(slope, scale / square_x.sqrt()),
            intercept: around(intercept, scale * (1.0 / total + mean_x * mean_x / square_x).sqrt()),
            reduced_chi_square,
        };
        (slope.is_finite() && intercept.is_finite() && scale.is_finite()).then_some(fit)
    }

    /// The line's height at `x`.
    pub fn height(&self, x: f64) -> f64 {
        self.intercept.value + self.slope.value * x
    }
}

#[cfg(test)]
mod tests {
    use datagrams::Draws;
    use proptest::prelude::*;

    use super::*;

    fn points(values: &[(f64, f64)], error: f64) -> Vec<LinePoint> {
        values.iter().map(|(x, y)| LinePoint { x: *x, y: *y, error }).collect()
    }

    /// The example of Bevington and Robinson, Data Reduction and Error Analysis, with equal errors: the slope
    /// and intercept are those of ordinary least squares.
    #[test]
    fn equal_errors_give_ordinary_least_squares() {
        let fit = LineFit::of(&points(&[(1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (4.0, 6.0)], 0.1)).unwrap();
        assert!((fit.slope.value - 1.4).abs() < 1e-9 && (fit.intercept.value - 0.5).abs() < 1e-9, "{fit:?}");
        // Residuals 0.1, -0.3, 0.3, -0.1: chi square is 20, for two degrees of freedom.
        assert!((fit.reduced_chi_square - 10.0).abs() < 1e-6, "{fit:?}");
        // Standard error of the slope 0.1 / sqrt(5), times sqrt(10), times 4.303.
        assert!((fit.slope.high - fit.slope.value - 0.608_5).abs() < 1e-3, "{fit:?}");
    }

    #[test]
    fn a_point_with_a_large_error_counts_little() {
        let mut all = points(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 9.0)], 0.01);
        all[3].error = 100.0;
        let fit = LineFit::of(&all).unwrap();
        assert!((fit.slope.value - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.height(10.0) - 10.0).abs() < 0.01, "{fit:?}");
    }

    #[test]
    fn points_at_two_abscissas_are_rejected() {
        assert_eq!(LineFit::of(&points(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 1.0)), None);
        assert_eq!(LineFit::of(&points(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0)], 1.0)), None);
        assert_eq!(LineFit::of(&points(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], 0.0)), None);
    }

    /// The true slope lies within the interval in about 95 of 100 cases.
    #[test]
    fn the_interval_contains_the_true_slope() {
        let mut draws = Draws::new(5, 5);
        // The sum of twelve uniform numbers is nearly normal, with a variance of 1.
        let mut normal =
            || (0..12).map(|_| draws.below(1 << 30) as f64 / (1u64 << 30) as f64).sum::<f64>() - 6.0;
        let mut covered = 0;
        for _ in 0..1000 {
            let all: Vec<LinePoint> = (1..=6)
                .map(|k| {
                    let x = f64::from(k) * 250.0;
                    LinePoint { x, y: 1.1 + 0.08 * x + 0.5 * normal(), error: 0.5 }
                })
                .collect();
            let slope = LineFit::of(&all).unwrap().slope;
            covered += usize::from(slope.low <= 0.08 && 0.08 <= slope.high);
        }
        assert!((940..=1000).contains(&covered), "{covered}");
    }

    proptest! {
        /// Points on a line give that line, for arbitrary errors.
        #[test]
        fn exact_points_give_their_line(
            slope in -100.0f64..100.0, intercept in -1000.0f64..1000.0, first in 0.0f64..100.0,
            steps in prop::collection::vec((1.0f64..100.0, 0.01f64..10.0), 3..20),
        ) {
            let mut x = first;
            let all: Vec<LinePoint> = steps
                .iter()
                .map(|(step, error)| {
                    x += step;
                    LinePoint { x, y: intercept + slope * x, error: *error }
                })
                .collect();
            let fit = LineFit::of(&all).unwrap();
            prop_assert!((fit.slope.value - slope).abs() < 1e-6, "{:?}", fit);
            prop_assert!((fit.intercept.value - intercept).abs() < 1e-4, "{:?}", fit);
            prop_assert!(fit.slope.low <= fit.slope.value && fit.slope.value <= fit.slope.high);
        }

        /// Arbitrary numbers are fitted or rejected.
        #[test]
        fn arbitrary_points_do_not_panic(all in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..12)) {
            let all: Vec<LinePoint> = all.iter().map(|(x, y, error)| LinePoint { x: *x, y: *y, error: *error }).collect();
            if let Some(fit) = LineFit::of(&all) {
                prop_assert!(fit.slope.value.is_finite() && fit.intercept.value.is_finite());
            }
        }
    }
}
