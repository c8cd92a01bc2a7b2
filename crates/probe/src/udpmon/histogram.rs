//! Histograms of times with bins of one width.

use serde::Serialize;

use crate::statistics::quantile;

/// Number of bins.
const BINS: usize = 60;
/// The share of the values at each end that may lie outside the bins.
const TAIL: f64 = 0.01;
/// Multiples of a power of ten that are widths of bins.
const WIDTHS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// Minimum width of a bin, microseconds: finer than any timestamp of software.
const MIN_WIDTH_US: f64 = 0.1;

/// The number of times in each bin. The bins, `below` and `above` together count every value once.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Histogram {
    /// Lower end of the first bin, microseconds.
    pub first_us: f64,
    /// Width of each bin, microseconds.
    pub bin_us: f64,
    /// Number of values in each bin.
    pub counts: Vec<u64>,
    /// Number of values below the first bin.
    pub below: u64,
    /// Number of values at or above the end of the last bin.
    pub above: u64,
}

impl Histogram {
    /// A histogram of `values_us`, microseconds, with at most 60 bins of a round width. Its bins cover the
    /// values from the 1st to the 99th percentile at least.
    pub fn of(values_us: &[f64]) -> Histogram {
        let (Some(low), Some(high)) = (quantile(values_us, TAIL), quantile(values_us, 1.0 - TAIL)) else {
            return Histogram::default();
        };
        // One bin less than the maximum, because the ends are aligned to multiples of the width.
        let bin_us = round_up((high - low) / (BINS - 1) as f64).max(MIN_WIDTH_US);
        let first = (low / bin_us).floor();
        let bins = ((high / bin_us).floor() - first) as usize + 1;
        let counts = vec![0; bins.min(BINS)];
        Histogram { first_us: first * bin_us, bin_us, counts, below: 0, above: 0 }.with_values(values_us)
    }

    /// A histogram of other values in the bins of this one.
    pub fn with_values(&self, values_us: &[f64]) -> Histogram {
        let mut histogram = Histogram { counts: vec![0; self.counts.len()], below: 0, above: 0, ..*self };
        let first = (self.first_us / self.bin_us).round();
        for value in values_us {
            let at = (value / self.bin_us).floor() - first;
            if at < 0.0 {
                histogram.below += 1;
            } else {
                match histogram.counts.get_mut(at as usize) {
                    Some(count) => *count += 1,
                    None => histogram.above += 1,
                }
            }
        }
        histogram
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.below + self.above + self.counts.iter().sum::<u64>()
    }

    /// The middle of each bin, microseconds, and its share of all values.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let total = self.total().max(1) as f64;
        let middle = |index: usize| self.first_us + (index as f64 + 0.5) * self.bin_us;
        self.counts.iter().enumerate().map(move |(index, count)| (middle(index), *count as f64 / total))
    }
}

/// The smallest 1, 2 or 5 times a power of ten that is at least `value`; 0 if there is none.
fn round_up(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    WIDTHS.into_iter().map(|multiple| multiple * power).find(|width| *width >= value).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_have_round_widths_and_begin_at_multiples() {
        let histogram = Histogram::of(&[-3.0, -1.0, 0.0, 0.5, 0.5, 9.0, 100.0]);
        assert_eq!((histogram.bin_us, histogram.first_us, histogram.total()), (2.0, -4.0, 7));
        assert_eq!(histogram.counts[..3], [1, 1, 3]);
        assert_eq!(Histogram::of(&[]), Histogram::default());
        let one = Histogram::of(&[7.0, 7.0]);
        assert_eq!((one.counts.clone(), one.total()), (vec![2], 2));
    }

    proptest! {
        /// Every value is counted once, and few lie outside the bins.
        #[test]
        fn each_value_is_counted_once(values in prop::collection::vec(-1e6f64..1e6, 0..300)) {
            let histogram = Histogram::of(&values);
            prop_assert_eq!(histogram.total(), values.len() as u64);
            prop_assert!(histogram.counts.len() <= BINS);
            prop_assert!((histogram.below + histogram.above) as f64 <= 0.04 * values.len() as f64 + 2.0);
        }
    }
}
