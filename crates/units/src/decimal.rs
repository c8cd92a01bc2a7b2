//! Exact decimal numbers: digits with a point and an exponent are parsed to an integer times a power of ten.
//!
//! Exact, so that `0.1 ms` is 100,000 ns: a binary fraction would round it.

use crate::ParseError;

/// Texts about a quantity for error messages.
#[derive(Clone, Copy)]
pub(crate) struct QuantityKind {
    /// `rate`, `size`, `time`.
    pub what: &'static str,
    /// An accepted spelling.
    pub example: &'static str,
    /// The largest value, as text.
    pub largest: &'static str,
    /// The smallest value above zero, as text.
    pub smallest: &'static str,
}

/// `mantissa` times ten to the `exponent`, and the original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: u128,
    exponent: i32,
    /// The number as written.
    pub text: String,
}

/// Splits `input` into its number and its unit, which may be empty.
pub(crate) fn split(input: &str, kind: QuantityKind) -> Result<(Decimal, &str), ParseError> {
    let trimmed = input.trim();
    if trimmed.is_empty() {
        return Err(ParseError::Empty { what: kind.what, example: kind.example });
    }
    if trimmed.starts_with(['-', '\u{2212}']) {
        return Err(ParseError::Negative { input: trimmed.into(), what: kind.what, example: kind.example });
    }
    let end = number_end(trimmed);
    let (number, unit) = trimmed.split_at(end);
    if unit.starts_with(',') {
        return Err(ParseError::Comma { input: trimmed.into() });
    }
    let not_a_number = || ParseError::NotANumber { input: trimmed.into(), example: kind.example };
    let decimal = parse_number(number).ok_or_else(not_a_number)?.ok_or_else(|| too_large(trimmed, kind))?;
    Ok((decimal, unit.trim_start()))
}

/// The end of the number at the start of `text`: digits, underscores, points, and an exponent if digits
/// follow the `e`.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits_end = |from: usize| {
        let length = bytes[from..].iter().position(|b| !(b.is_ascii_digit() || matches!(b, b'_' | b'.')));
        length.map_or(bytes.len(), |n| from + n)
    };
    let end = digits_end(0);
    if end == 0 || !matches!(bytes.get(end), Some(b'e' | b'E')) {
        return end;
    }
    let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
    match bytes.get(end + 1 + sign) {
        Some(b) if b.is_ascii_digit() => digits_end(end + 1 + sign),
        _ => end,
    }
}

/// Parses digits and exponent. Outer `None`: not a number. Inner `None`: a number with too many digits.
fn parse_number(number: &str) -> Option<Option<Decimal>> {
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let well_formed = |part: &str| !part.starts_with('_') && !part.ends_with('_') && !part.contains('.');
    if !well_formed(whole) || !well_formed(fraction) || !digits.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let mut mantissa: u128 = 0;
    for digit in whole.chars().chain(fraction.chars()).filter_map(|c| c.to_digit(10)) {
        let Some(next) = mantissa.checked_mul(10).and_then(|m| m.checked_add(digit.into())) else {
            return Some(None);
        };
        mantissa = next;
    }
    let decimals = fraction.chars().filter(char::is_ascii_digit).count();
    let exponent = exponent.saturating_sub(i32::try_from(decimals).unwrap_or(i32::MAX));
    Some(Some(Decimal { mantissa, exponent, text: number.to_string() }))
}

impl Decimal {
    /// The value times `unit` (the unit's size in base units), rounded to the nearest base unit.
    ///
    /// Fails for a value above zero and below one base unit, which would silently become zero.
    pub fn times(&self, unit: u64, input: &str, kind: QuantityKind) -> Result<u64, ParseError> {
        if self.mantissa == 0 {
            return Ok(0);
        }
        let large = || too_large(input, kind);
        let scaled = self.mantissa.checked_mul(unit.into()).ok_or_else(large)?;
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        let value = if self.exponent >= 0 {
            power.and_then(|p| scaled.checked_mul(p)).ok_or_else(large)?
        } else {
            match power {
                Some(p) if scaled >= p => scaled / p + u128::from(scaled % p >= p - p / 2),
                _ => {
                    let input = input.trim().to_string();
                    return Err(ParseError::TooSmall { input, what: kind.what, limit: kind.smallest });
                }
            }
        };
        u64::try_from(value).map_err(|_| large())
    }
}

fn too_large(input: &str, kind: QuantityKind) -> ParseError {
    ParseError::TooLarge { input: input.trim().into(), what: kind.what, limit: kind.largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: QuantityKind = QuantityKind { what: "thing", example: "1x", largest: "2^64", smallest: "1" };

    fn value(input: &str, unit: u64) -> Result<u64, ParseError> {
        split(input, KIND).and_then(|(d, _)| d.times(unit, input, KIND))
    }

    #[test]
    fn reads_decimals_exactly() {
        assert_eq!(value("0.1", 1_000_000), Ok(100_000));
        assert_eq!(value("25_000_000", 1), Ok(25_000_000));
        assert_eq!(value("2.50", 1_000), Ok(2_500));
        assert_eq!(value("10e9", 1), Ok(10_000_000_000));
        assert_eq!(value("1.5E3", 2), Ok(3_000));
        assert_eq!(value("25e-1", 10), Ok(25));
        assert_eq!(value("0.000", 7), Ok(0));
        assert_eq!(value(".5", 10), Ok(5));
        assert_eq!(value("5.", 10), Ok(50));
        assert_eq!(value("18446744073709551615", 1), Ok(u64::MAX));
    }

    #[test]
    fn rounds_to_the_nearest() {
        assert_eq!(value("1.4", 1), Ok(1));
        assert_eq!(value("1.5", 1), Ok(2));
        assert_eq!(value("1.1", 1 << 20), Ok(1_153_434)); // 1153433.6
    }

    #[test]
    fn rejects_other_text_and_values_that_do_not_fit() {
        for bad in ["x", ".", "1.2.3", "_1", "1_", "1_.5", "nan", "inf", "+1"] {
            assert!(matches!(value(bad, 1), Err(ParseError::NotANumber { .. })), "{bad}");
        }
        for large in ["18446744073709551616", "1e30", "1e999", "9".repeat(60).as_str()] {
            assert!(matches!(value(large, 1), Err(ParseError::TooLarge { .. })), "{large}");
        }
        for small in ["0.5", "1e-40", "1e-400"] {
            assert!(matches!(value(small, 1), Err(ParseError::TooSmall { .. })), "{small}");
        }
        assert!(matches!(value("1e99999999999", 1), Err(ParseError::NotANumber { .. })));
        assert!(matches!(value("-3", 1), Err(ParseError::Negative { .. })));
        assert!(matches!(value("2,5", 1), Err(ParseError::Comma { .. })));
        assert!(matches!(value("  ", 1), Err(ParseError::Empty { .. })));
    }

    #[test]
    fn returns_the_unit() {
        assert_eq!(split("10 Gb/s", KIND).unwrap().1, "Gb/s");
        assert_eq!(split("1EB", KIND).unwrap().1, "EB");
        assert_eq!(split("2.5e3ms", KIND).unwrap().1, "ms");
    }
}
