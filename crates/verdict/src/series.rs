//! A counter over time that can be read at any instant, and means of samples.

use crate::HostLoad;

/// Rates are means over this many round trips, because a flow that a window limits sends in bursts.
pub(crate) const RATE_ROUND_TRIPS: i64 = 4;

/// A counter that only grows, sampled at increasing times.
#[derive(Debug, Default)]
pub(crate) struct Cumulative {
    times_us: Vec<i64>,
    values: Vec<f64>,
    /// For each sample: the time of the first sample with its value.
    unchanged_since_us: Vec<i64>,
}

impl HostLoad {
    /// The time busy, as a counter.
    pub(crate) fn series(&self) -> Cumulative {
        let mut series = Cumulative::default();
        self.busy_us.iter().for_each(|(time_us, busy_us)| series.push(*time_us, *busy_us));
        series
    }
}

impl Cumulative {
    /// Adds a sample; samples that are not later than the last are ignored.
    pub(crate) fn push(&mut self, time_us: i64, value: f64) {
        if self.times_us.last().is_none_or(|last| time_us > *last) {
            let is_unchanged = self.values.last() == Some(&value);
            let since = self.unchanged_since_us.last().copied().filter(|_| is_unchanged);
            self.unchanged_since_us.push(since.unwrap_or(time_us));
            self.times_us.push(time_us);
            self.values.push(value);
        }
    }

    /// The counter at `time_us`, interpolated; outside the sampled time the nearest end.
    pub(crate) fn at(&self, time_us: i64) -> f64 {
        let after = self.times_us.partition_point(|t| *t <= time_us);
        match (after.checked_sub(1), self.times_us.get(after)) {
            (None, _) => self.values.first().copied().unwrap_or(0.0),
            (Some(before), None) => self.values[before],
            (Some(before), Some(next)) => {
                let (from, to) = (self.times_us[before], *next);
                let share = (time_us - from) as f64 / (to - from) as f64;
                self.values[before] + (self.values[after] - self.values[before]) * share
            }
        }
    }

    /// The time of the sample since which the counter has the value of the last sample at or before
    /// `time_us`; `None` outside the sampled time.
    pub(crate) fn unchanged_since(&self, time_us: i64) -> Option<i64> {
        let last = self.times_us.partition_point(|t| *t <= time_us).checked_sub(1)?;
        let is_sampled = self.times_us.last().is_some_and(|end| time_us <= *end);
        is_sampled.then(|| self.unchanged_since_us[last])
    }

    /// Mean growth per second between two instants, within the sampled time; `None` where they have none of
    /// it.
    pub(crate) fn rate(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let from = from_us.max(*self.times_us.first()?);
        let to = to_us.min(*self.times_us.last()?);
        (to > from).then(|| (self.at(to) - self.at(from)) / ((to - from) as f64 * 1e-6))
    }

    /// The first and the last sampled time.
    pub(crate) fn span_us(&self) -> Option<(i64, i64)> {
        Some((*self.times_us.first()?, *self.times_us.last()?))
    }
}

/// The mean of the values; `None` if there are none.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_interpolated_and_not_extrapolated() {
        let mut counter = Cumulative::default();
        assert_eq!(counter.rate(0, 10), None);
        counter.push(1_000_000, 10.0);
        counter.push(3_000_000, 30.0);
        counter.push(3_000_000, 99.0);
        assert_eq!((counter.at(0), counter.at(2_000_000), counter.at(9_000_000)), (10.0, 20.0, 30.0));
        assert_eq!(counter.rate(0, 2_000_000), Some(10.0));
        assert_eq!(counter.rate(4_000_000, 5_000_000), None);
        counter.push(4_000_000, 30.0);
        assert_eq!(counter.unchanged_since(4_000_000), Some(3_000_000));
        assert_eq!(counter.unchanged_since(2_000_000), Some(1_000_000));
        assert_eq!((counter.unchanged_since(0), counter.unchanged_since(9_000_000)), (None, None));
    }
}
