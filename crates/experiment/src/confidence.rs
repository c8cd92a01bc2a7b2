//! Confidence intervals of means of a few figures.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the two-sided interval.
const CONFIDENCE: f64 = 0.95;

/// Half the width of the confidence interval around `mean`, the mean of `figures`: t s / sqrt(n), with
/// Student's t for n - 1 degrees of freedom. `None` for fewer than two figures.
pub fn half_width(figures: &[f64], mean: f64) -> Option<f64> {
    let degrees = figures.len().checked_sub(1).filter(|degrees| *degrees > 0)? as f64;
    let variance = figures.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / degrees;
    let t = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf((1.0 + CONFIDENCE) / 2.0);
    Some(t * (variance / figures.len() as f64).sqrt())
}
