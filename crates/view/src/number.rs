//! Formats figures: with three or four significant digits, SI prefixes, and a space before the unit.
//!
//! Texts and reports have rates and sizes in the units of [`use_units`]; pictures always in bits per second
//! and decimal bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// SI prefixes from micro up, with their factors.
const PREFIXES: [(f64, &str); 7] =
    [(1e-6, "\u{b5}"), (1e-3, "m"), (1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

/// Binary prefixes of sizes, with their factors.
const BINARY_PREFIXES: [(f64, &str); 5] =
    [(1.0, ""), (1024.0, "Ki"), (1_048_576.0, "Mi"), (1_073_741_824.0, "Gi"), (1_099_511_627_776.0, "Ti")];

/// The unit of rates in texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateUnit {
    /// Bits per second, as in `9.56 Gb/s`.
    #[default]
    Bits,
    /// Bytes per second, as in `1.20 GB/s`.
    Bytes,
}

/// The unit of sizes in texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SizeUnit {
    /// Powers of 1000, as in `26.2 MB`.
    #[default]
    Decimal,
    /// Powers of 1024, as in `25.0 MiB`.
    Binary,
}

/// The units of texts.
static UNITS: OnceLock<(RateUnit, SizeUnit)> = OnceLock::new();

/// Sets the units of [`rate()`] and [`bytes()`] for the whole program. Must be called once, before a text is
/// formatted.
pub fn use_units(rates: RateUnit, sizes: SizeUnit) {
    // A second call would have no effect.
    let _ = UNITS.set((rates, sizes));
}

fn units() -> (RateUnit, SizeUnit) {
    UNITS.get().copied().unwrap_or_default()
}

impl FromStr for RateUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bits" => Ok(RateUnit::Bits),
            "bytes" => Ok(RateUnit::Bytes),
            _ => Err(format!("unknown unit of rates {text:?}; there are bits and bytes")),
        }
    }
}

impl fmt::Display for RateUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == RateUnit::Bits { "bits" } else { "bytes" })
    }
}

impl FromStr for SizeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "decimal" => Ok(SizeUnit::Decimal),
            "binary" => Ok(SizeUnit::Binary),
            _ => Err(format!("unknown unit of sizes {text:?}; there are decimal and binary")),
        }
    }
}

impl fmt::Display for SizeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == SizeUnit::Decimal { "decimal" } else { "binary" })
    }
}

/// A rate given in bit/s, as in `9.56 Gb/s`.
pub fn rate(bits_per_second: f64) -> String {
    rate_in(bits_per_second, units().0)
}

/// A size in bytes, as in `26.2 MB` (1 MB is a million bytes).
pub fn bytes(bytes: f64) -> String {
    bytes_in(bytes, units().1)
}

/// A rate given in bit/s in this unit.
pub(crate) fn rate_in(bits_per_second: f64, unit: RateUnit) -> String {
    match unit {
        RateUnit::Bits => with_prefix(bits_per_second, "b/s", 3, 1.0),
        RateUnit::Bytes => with_prefix(bits_per_second / 8.0, "B/s", 3, 1.0),
    }
}

/// A size in bytes in this unit.
pub(crate) fn bytes_in(bytes: f64, unit: SizeUnit) -> String {
    if unit == SizeUnit::Decimal || bytes == 0.0 {
        return with_prefix(bytes, "B", 3, 1.0);
    }
    let fits = |(factor, _): &&(f64, &str)| bytes.abs() >= factor * 0.9995;
    let (factor, name) = BINARY_PREFIXES.iter().rev().find(fits).unwrap_or(&BINARY_PREFIXES[0]);
    let value = bytes / factor;
    // Up to 1023 KiB have four digits.
    let digits = if value.abs() >= 999.5 { 4 } else { 3 };
    format!("{} {name}B", significant(value, digits))
}

/// A time in seconds, as in `20.04 ms`.
pub fn seconds(seconds: f64) -> String {
    if seconds.abs() >= 1.0 {
        return format!("{} s", significant(seconds, 4));
    }
    with_prefix(seconds, "s", 4, 1e-6)
}

/// A time in microseconds, as in `20.04 ms`.
pub fn micros(us: f64) -> String {
    seconds(us / 1e6)
}

/// A time in microseconds with three digits, as in `20.0 ms`.
pub fn rounded_micros(us: f64) -> String {
    if us.abs() >= 1e6 {
        format!("{} s", significant(us / 1e6, 3))
    } else {
        with_prefix(us / 1e6, "s", 3, 1e-6)
    }
}

/// A share of 1, as in `97 %`; small shares have a decimal.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 {
        return "<0.1 %".to_owned();
    }
    // 99.9 % must not become 100 %.
    let needs_decimal = (percent > 0.0 && percent < 9.95) || (percent > 99.0 && percent < 99.95);
    if needs_decimal { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A whole number in groups of three, as in `12,345`.
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

/// Puts commas into a string of digits.
pub(crate) fn group(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The factor and prefix with which `magnitude` has one to three digits before the point.
pub(crate) fn prefix(magnitude: f64, smallest: f64) -> (f64, &'static str) {
    let usable = PREFIXES.iter().filter(|(factor, _)| *factor >= smallest);
    // Slightly below the limit, so that a value that rounds to 1000 takes the next prefix.
    usable
        .clone()
        .rev()
        .find(|(factor, _)| magnitude.abs() >= factor * 0.9995)
        .or(usable.clone().next())
        .copied()
        .unwrap_or((1.0, ""))
}

fn with_prefix(value: f64, unit: &str, digits: usize, smallest: f64) -> String {
    if value == 0.0 {
        return format!("0 {unit}");
    }
    let (factor, name) = prefix(value, smallest);
    format!("{} {name}{unit}", significant(value / factor, digits))
}

/// `value` with `digits` significant digits, without exponent notation.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Exponent notation rounds first, so that 9.9996 counts as 10.00 and not as 10.000.
    let scientific = format!("{value:.*e}", digits.max(1) - 1);
    let exponent: i32 = scientific.split('e').nth(1).and_then(|e| e.parse().ok()).unwrap_or(0);
    let decimals = (digits as i32 - 1 - exponent).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_prefixes_and_significant_digits() {
        assert_eq!(rate(9.5634e9), "9.56 Gb/s");
        assert_eq!(rate(999.9e6), "1.00 Gb/s");
        assert_eq!(rate(0.0), "0 b/s");
        assert_eq!(rate(12.0), "12.0 b/s");
        assert_eq!(bytes(26_214_400.0), "26.2 MB");
        assert_eq!(bytes(1448.0), "1.45 kB");
        assert_eq!(micros(20_040.0), "20.04 ms");
        assert_eq!(micros(41.0), "41.00 \u{b5}s");
        assert_eq!(seconds(21.3), "21.30 s");
        assert_eq!(seconds(7000.0), "7000 s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }

    #[test]
    fn other_units_have_their_own_prefixes() {
        assert_eq!(rate_in(9.5634e9, RateUnit::Bytes), "1.20 GB/s");
        assert_eq!(rate_in(0.0, RateUnit::Bytes), "0 B/s");
        for (size, text) in [
            (26_214_400.0, "25.0 MiB"),
            (1448.0, "1.41 KiB"),
            (1023.0 * 1024.0, "1023 KiB"),
            (1024.0 * 1024.0, "1.00 MiB"),
            (1000.0, "1000 B"),
            (0.0, "0 B"),
        ] {
            assert_eq!(bytes_in(size, SizeUnit::Binary), text);
        }
        assert_eq!("bytes".parse(), Ok(RateUnit::Bytes));
        assert_eq!("binary".parse(), Ok(SizeUnit::Binary));
        assert!("mb".parse::<SizeUnit>().is_err() && "mb".parse::<RateUnit>().is_err());
    }

    #[test]
    fn shares_are_not_rounded_to_0_or_100_per_cent() {
        assert_eq!(share(0.97), "97 %");
        assert_eq!(share(0.999), "99.9 %");
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(0.0001), "<0.1 %");
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.0168), "1.7 %");
    }

    #[test]
    fn rounding_up_keeps_the_number_of_digits() {
        assert_eq!(significant(9.9996, 4), "10.00");
        assert_eq!(significant(0.99996, 4), "1.000");
        assert_eq!(significant(-12.345, 3), "-12.3");
        assert_eq!(significant(f64::NAN, 3), "\u{2013}");
    }
}
