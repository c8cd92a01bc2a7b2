//! Quantiles, box figures and empirical distribution functions of a few or many values.

/// Values are at most this many interquartile ranges beyond the quartiles, else they are outliers (J. Tukey,
/// "Exploratory data analysis", 1977).
const WHISKER_RANGES: f64 = 1.5;

/// The figures of a box plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxFigures {
    /// Number of values.
    pub count: usize,
    /// The smallest value.
    pub min: f64,
    /// The smallest value that is at most 1.5 interquartile ranges below the lower quartile.
    pub low_whisker: f64,
    /// The lower quartile.
    pub lower_quartile: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub upper_quartile: f64,
    /// The largest value that is at most 1.5 interquartile ranges above the upper quartile.
    pub high_whisker: f64,
    /// The largest value.
    pub max: f64,
}

impl BoxFigures {
    /// The figures of values in ascending order; `None` if there are none.
    pub(crate) fn of(sorted: &[f64]) -> Option<Self> {
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(|share| quantile(sorted, share));
        let reach = WHISKER_RANGES * (upper - lower);
        // With few values, a quartile can lie beyond every value that is not an outlier.
        let low = sorted.iter().copied().find(|value| *value >= lower - reach).unwrap_or(min);
        let high = sorted.iter().rev().copied().find(|value| *value <= upper + reach).unwrap_or(max);
        Some(BoxFigures {
            count: sorted.len(),
            min,
            low_whisker: low.min(lower),
            lower_quartile: lower,
            median,
            upper_quartile: upper,
            high_whisker: high.max(upper),
            max,
        })
    }

    /// Whether a value is beyond the whiskers.
    pub(crate) fn is_outlier(&self, value: f64) -> bool {
        value < self.low_whisker || value > self.high_whisker
    }
}

/// The quantile at `share` (0 to 1) of values in ascending order, by linear interpolation between order
/// statistics: type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), the default of R
/// and NumPy. 0 without values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// The empirical distribution function of values in ascending order: each distinct value with the share of
/// values that do not exceed it.
pub(crate) fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (index, value) in sorted.iter().enumerate() {
        let share = (index + 1) as f64 / sorted.len() as f64;
        match steps.last_mut() {
            Some(last) if last.0 == *value => last.1 = share,
            _ => steps.push((*value, share)),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_match_numpy() {
        // numpy.percentile([15, 20, 35, 40, 50], [25, 40, 50, 75, 99]) = [20, 29, 35, 40, 49.6]
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        let found = [0.25, 0.4, 0.5, 0.75, 0.99].map(|share| quantile(&values, share));
        for (found, expected) in found.into_iter().zip([20.0, 29.0, 35.0, 40.0, 49.6]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        // numpy.percentile([1, 2, 3, 10], [25, 75]) = [1.75, 4.75]
        assert_eq!(
            (quantile(&[1.0, 2.0, 3.0, 10.0], 0.25), quantile(&[1.0, 2.0, 3.0, 10.0], 0.75)),
            (1.75, 4.75)
        );
        assert_eq!((quantile(&[7.0], 0.3), quantile(&[], 0.5)), (7.0, 0.0));
    }

    #[test]
    fn a_value_far_from_the_quartiles_is_an_outlier() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 20.0];
        let figures = BoxFigures::of(&values).unwrap();
        // Quartiles 2.75 and 6.25: whiskers reach to -2.5 and 11.5, where the outermost values within are 1
        // and 7.
        assert_eq!((figures.lower_quartile, figures.median, figures.upper_quartile), (2.75, 4.5, 6.25));
        assert_eq!((figures.low_whisker, figures.high_whisker, figures.max), (1.0, 7.0, 20.0));
        assert!(figures.is_outlier(20.0) && !figures.is_outlier(7.0) && !figures.is_outlier(1.0));
        assert_eq!(BoxFigures::of(&[]), None);
    }

    #[test]
    fn equal_values_form_one_step() {
        assert_eq!(steps(&[1.0, 1.0, 2.0, 5.0]), [(1.0, 0.5), (2.0, 0.75), (5.0, 1.0)]);
    }

    proptest! {
        #[test]
        fn box_figures_are_ordered_and_the_box_has_half_of_the_values(
            mut values in proptest::collection::vec(-1e6..1e6f64, 1..60),
        ) {
            values.sort_by(f64::total_cmp);
            let f = BoxFigures::of(&values).unwrap();
            let quartiles = [f.lower_quartile, f.median, f.upper_quartile];
            let order = [&[f.min, f.low_whisker][..], &quartiles, &[f.high_whisker, f.max]].concat();
            prop_assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{order:?}");
            let inside = values.iter().filter(|v| (f.lower_quartile..=f.upper_quartile).contains(*v)).count();
            prop_assert!(2 * inside + 4 >= values.len(), "{inside} of {}", values.len());
            let steps = steps(&values);
            prop_assert_eq!(steps.last().unwrap().1, 1.0);
            prop_assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        }
    }
}
