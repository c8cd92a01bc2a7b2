//! Axes: round ticks, SI prefixes, and the units of columns.

use crate::number::{group, prefix};

/// Steps between ticks of a value axis, times a power of ten.
const VALUE_STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];
/// Steps between ticks of the time axis, times a power of ten.
const TIME_STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Minimum number of ticks of an axis: a single tick shows no scale.
const MIN_TICKS: usize = 2;

/// A quantity's base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    BitRate,
    Bytes,
    Seconds,
    Count,
    /// A number that may have fractions.
    Share,
}

impl Unit {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Unit::BitRate => "b/s",
            Unit::Bytes => "B",
            Unit::Seconds => "s",
            Unit::Count | Unit::Share => "",
        }
    }

    /// The unit of a figure of a run: `bit/s`, `B` or `s`. Figures in other units get no prefix.
    pub(crate) fn of_figure(unit: &str) -> Self {
        match unit {
            "bit/s" => Unit::BitRate,
            "B" => Unit::Bytes,
            "s" => Unit::Seconds,
            _ => Unit::Share,
        }
    }

    /// The unit of a column, from its name's suffix.
    pub(crate) fn of_column(name: &str) -> Self {
        if name.ends_with("_bps") {
            Unit::BitRate
        } else if name.ends_with("_us") {
            Unit::Seconds
        } else if name.ends_with("_bytes") || name.starts_with("bytes_") {
            Unit::Bytes
        } else {
            Unit::Count
        }
    }

    /// The factor from a column's integer to its base unit.
    pub(crate) fn column_factor(name: &str) -> f64 {
        if name.ends_with("_us") { 1e-6 } else { 1.0 }
    }
}

/// A value axis: its range, ticks and unit.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) ticks: Vec<Tick>,
    /// The unit with its prefix, as in `Gb/s`; empty for counts.
    pub(crate) unit: String,
}

/// A tick and its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) text: String,
}

impl Axis {
    /// An axis for values from `low` to `high`, with about `target` ticks. It begins at 0 unless the values
    /// are far from it in comparison with their spread.
    pub(crate) fn of_values(low: f64, high: f64, unit: Unit, target: usize) -> Self {
        let (low, high) =
            if low.is_finite() && high.is_finite() { (low.min(high), high.max(low)) } else { (0.0, 1.0) };
        if low == 0.0 && high == 0.0 {
            return Self::with_step(0.0, 1.0, 1.0, Unit::Share).in_unit(unit);
        }
        let from_zero = (0.0..0.6 * high).contains(&low);
        let (min, max) = if from_zero || high <= 0.0 {
            let max = if high > 0.0 { high * 1.06 } else { 1.0 };
            // Ticks of counts are whole numbers, and an axis needs two ticks.
            (low.min(0.0), if unit == Unit::Count { max.max(1.0) } else { max })
        } else {
            // The range is at least a tenth of the largest value, so that noise does not fill the panel.
            let spread = (high - low).max(0.1 * high);
            ((high + low - 1.2 * spread) / 2.0, (high + low + 1.2 * spread) / 2.0)
        };
        let target = target.max(MIN_TICKS) as f64;
        let step = match unit {
            // Not 2.5.
            Unit::Count => nice_step((max - min) / target, &VALUE_STEPS).max(1.0).floor(),
            _ => nice_step((max - min) / target, &VALUE_STEPS),
        };
        let (min, max) =
            if from_zero { (min, max) } else { ((min / step).floor() * step, (max / step).ceil() * step) };
        Self::with_step(min, max, step, unit)
    }

    /// The time axis from 0 to `end_s`.
    pub(crate) fn of_time(end_s: f64, target: usize) -> Self {
        let end = if end_s.is_finite() && end_s > 0.0 { end_s } else { 1.0 };
        let step = time_step(0.0, end, target);
        let mut axis = Self::with_step(0.0, end, step, Unit::Seconds);
        if end >= 1.0 {
            // Seconds without a prefix above one second.
            axis.ticks = ticks(0.0, end, step, 1.0);
            axis.unit = "s".to_owned();
        }
        axis
    }

    /// The time axis from `from_s` to `to_s`.
    pub(crate) fn of_span(from_s: f64, to_s: f64, target: usize) -> Self {
        if from_s <= 0.0 || to_s <= from_s {
            return Self::of_time(to_s, target);
        }
        let step = time_step(from_s, to_s, target);
        let ticks = ticks(from_s, to_s, step, 1.0);
        Axis { min: from_s, max: to_s, ticks, unit: "s".to_owned() }
    }

    fn with_step(min: f64, max: f64, step: f64, unit: Unit) -> Self {
        let (factor, name) = match unit {
            Unit::Count | Unit::Share => (1.0, ""),
            Unit::Seconds => prefix(max.abs().max(min.abs()).min(1.0), 1e-6),
            Unit::BitRate | Unit::Bytes => prefix(max.abs().max(min.abs()), 1.0),
        };
        Axis { min, max, ticks: ticks(min, max, step, factor), unit: format!("{name}{}", unit.symbol()) }
    }

    fn in_unit(self, unit: Unit) -> Self {
        Axis { unit: unit.symbol().to_owned(), ..self }
    }

    /// The relative position of `value`: 0 at the axis's beginning, 1 at its end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        (value - self.min) / (self.max - self.min)
    }
}

fn ticks(min: f64, max: f64, step: f64, factor: f64) -> Vec<Tick> {
    let shown = step / factor;
    let is_whole = |decimals: &i32| {
        let scaled = shown * 10f64.powi(*decimals);
        (scaled - scaled.round()).abs() < 1e-6 && scaled.round() >= 1.0
    };
    let decimals = (0..9).find(is_whole).unwrap_or(9) as usize;
    tick_range(min, max, step)
        .take(100)
        .map(|n| {
            let value = n as f64 * step;
            Tick { value, text: tick_text(value / factor, decimals) }
        })
        .collect()
}

fn tick_text(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", if value == 0.0 { 0.0 } else { value });
    if decimals > 0 || value < 10_000.0 { text } else { group(&text) }
}

/// The step of a time axis: the largest with about `target` ticks, and with [`MIN_TICKS`] in any case.
fn time_step(from_s: f64, to_s: f64, target: usize) -> f64 {
    let mut step = nice_step((to_s - from_s) / target.max(1) as f64, &TIME_STEPS);
    // In a span as long as two steps, each half has a tick.
    while step > (to_s - from_s) / MIN_TICKS as f64 && tick_range(from_s, to_s, step).count() < MIN_TICKS {
        step = nice_below(step * 0.99);
    }
    step
}

/// The ticks from `min` to `max`, in steps from 0.
fn tick_range(min: f64, max: f64, step: f64) -> std::ops::RangeInclusive<i64> {
    (min / step - 1e-9).ceil() as i64..=(max / step + 1e-9).floor() as i64
}

/// The smallest product of one of `multiples` and a power of ten that is at least `rough`.
fn nice_step(rough: f64, multiples: &[f64]) -> f64 {
    if !(rough.is_finite() && rough > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = multiples.iter().find(|m| *m * power >= rough * 0.999_999);
    step.unwrap_or(&10.0) * power
}

/// The largest of 1, 2, 5 times a power of ten that is at most `rough`.
pub(crate) fn nice_below(rough: f64) -> f64 {
    let power = 10f64.powf((rough * 1.000_001).log10().floor());
    let step = TIME_STEPS.iter().rev().find(|m| *m * power <= rough * 1.000_001);
    step.unwrap_or(&1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn rates_get_an_si_prefix() {
        let axis = Axis::of_values(0.0, 9.56e9, Unit::BitRate, 5);
        assert_eq!((axis.unit.as_str(), texts(&axis)), ("Gb/s", vec!["0.0", "2.5", "5.0", "7.5", "10.0"]));
        let axis = Axis::of_values(0.0, 4.2e9, Unit::BitRate, 5);
        assert_eq!(texts(&axis), ["0", "1", "2", "3", "4"]);
        let axis = Axis::of_values(0.0, 80e6, Unit::Bytes, 5);
        assert_eq!((axis.unit.as_str(), texts(&axis)), ("MB", vec!["0", "20", "40", "60", "80"]));
    }

    #[test]
    fn counts_have_whole_steps_and_zero_alone_has_two_ticks() {
        assert_eq!(texts(&Axis::of_values(0.0, 1.0, Unit::Count, 5)), ["0", "1"]);
        assert_eq!(texts(&Axis::of_values(0.0, 0.3, Unit::Count, 5)), ["0", "1"]);
        assert_eq!(texts(&Axis::of_values(0.0, 11.0, Unit::Count, 5)), ["0", "2", "4", "6", "8", "10"]);
        let zero = Axis::of_values(0.0, 0.0, Unit::Bytes, 5);
        assert_eq!((zero.unit.as_str(), texts(&zero)), ("B", vec!["0", "1"]));
    }

    /// A low panel has space for one step only.
    #[test]
    fn a_low_axis_has_two_ticks() {
        assert_eq!(texts(&Axis::of_values(0.0, 9.56e9, Unit::BitRate, 1)), ["0", "10"]);
        assert_eq!(texts(&Axis::of_time(1.9, 1)), ["0", "1"]);
        assert_eq!(texts(&Axis::of_span(4.5, 5.5, 1)), ["4.5", "5.0", "5.5"]);
    }

    #[test]
    fn values_far_from_zero_get_their_own_range() {
        let axis = Axis::of_values(0.02004, 0.0203, Unit::Seconds, 5);
        assert_eq!(axis.unit, "ms");
        assert!(axis.min > 0.018 && axis.max < 0.023 && axis.min < 0.02004 && axis.max > 0.0203, "{axis:?}");
        assert!(axis.ticks.len() >= 3);
    }

    #[test]
    fn times_are_in_seconds_without_a_prefix() {
        assert_eq!(
            texts(&Axis::of_time(7000.0, 10)),
            ["0", "1000", "2000", "3000", "4000", "5000", "6000", "7000"]
        );
        assert_eq!(Axis::of_time(7000.0, 10).unit, "s");
        assert_eq!(Axis::of_time(0.2, 10).unit, "ms");
        assert_eq!(texts(&Axis::of_time(1.0, 5)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn steps_are_round_numbers() {
        assert_eq!(nice_step(0.3, &TIME_STEPS), 0.5);
        assert_eq!(nice_step(0.3, &VALUE_STEPS), 0.5);
        assert_eq!(nice_step(2.1, &VALUE_STEPS), 2.5);
        assert_eq!(nice_step(6.0, &VALUE_STEPS), 10.0);
        assert_eq!(nice_below(0.13), 0.1);
        assert_eq!(nice_below(35.0), 20.0);
        assert_eq!(nice_below(0.1), 0.1);
    }

    proptest! {
        #[test]
        fn arbitrary_values_give_a_usable_axis(low in -1e18..1e18f64, spread in 0.0..1e18f64, target in 1usize..12) {
            for unit in [Unit::BitRate, Unit::Bytes, Unit::Seconds, Unit::Count, Unit::Share] {
                let axis = Axis::of_values(low, low + spread, unit, target);
                prop_assert!(axis.min < axis.max);
                prop_assert!(axis.min <= low && axis.max >= low + spread);
                prop_assert!((MIN_TICKS..=40).contains(&axis.ticks.len()), "{:?}", axis);
            }
        }

        #[test]
        fn arbitrary_time_spans_give_a_usable_axis(from in 0.0..1e5f64, length in 1e-3..1e5f64, target in 1usize..12) {
            for axis in [Axis::of_time(length, target), Axis::of_span(from, from + length, target)] {
                prop_assert!((MIN_TICKS..=40).contains(&axis.ticks.len()), "{:?}", axis);
            }
        }
    }
}
