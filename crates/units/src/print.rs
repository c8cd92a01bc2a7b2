//! Prints a quantity in the largest unit that fits: exactly, or rounded if the format has a precision.

use std::fmt;

/// Writes `value` in the largest of `units` that is not above it. `units` are name and size, largest first;
/// the last has size 1.
///
/// Without a precision (`{}`) the text is exact; with one (`{:.2}`) it is rounded half up.
pub(crate) fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let text = match f.precision() {
        None => exact(value, units),
        Some(places) => rounded(value, units, places),
    };
    // `Formatter::pad` would truncate the text at the precision, so this function pads to the width.
    let width = f.width().unwrap_or(0);
    match f.align() {
        Some(fmt::Alignment::Right) => write!(f, "{text:>width$}"),
        Some(fmt::Alignment::Center) => write!(f, "{text:^width$}"),
        _ => write!(f, "{text:<width$}"),
    }
}

/// `value` in the largest of `units` that is not above it, with all digits.
pub(crate) fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let (name, size) = units[largest_unit(value, units)];
    let whole = value / size;
    let mut fraction = String::new();
    let mut remainder = u128::from(value % size);
    while remainder > 0 {
        remainder *= 10;
        fraction.push(char::from(b'0' + (remainder / u128::from(size)) as u8));
        remainder %= u128::from(size);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction} {name}")
}

fn rounded(value: u64, units: &[(&str, u64)], places: usize) -> String {
    let mut index = largest_unit(value, units);
    // The base unit has no fraction.
    if units[index].1 == 1 {
        return exact(value, units);
    }
    let text = |index: usize| format!("{:.places$}", value as f64 / units[index].1 as f64);
    // 999.999 MB with one decimal is 1.0 GB, not 1000.0 MB.
    if index > 0
        && text(index).parse::<f64>().is_ok_and(|v| v * units[index].1 as f64 >= units[index - 1].1 as f64)
    {
        index -= 1;
    }
    format!("{} {}", text(index), units[index].0)
}

fn largest_unit(value: u64, units: &[(&str, u64)]) -> usize {
    units.iter().position(|(_, size)| value >= *size).unwrap_or(units.len() - 1)
}

/// Formats `1234567` as `1,234,567`.
pub fn group_digits(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// The nearest whole number with three significant digits, for figures in text; 0 for negative values.
pub fn three_digits(value: f64) -> u64 {
    if value < 1000.0 {
        return value.max(0.0).round() as u64;
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    ((value / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_000), "1,000");
        assert_eq!(group_digits(26_214_400), "26,214,400");
    }

    #[test]
    fn rounds_to_three_digits() {
        assert_eq!(
            [13_298_432.0, 999.6, 0.4, -5.0, 12_345.0].map(three_digits),
            [13_300_000, 1000, 0, 0, 12_300]
        );
    }
}
