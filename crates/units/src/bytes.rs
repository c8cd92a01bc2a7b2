//! A number of bytes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    ParseError,
    decimal::{self, Decimal, QuantityKind},
    print::{exact, group_digits, write_scaled},
};

/// A number of bytes.
///
/// Prints in decimal units, or in binary units if that is shorter (`25 MB`, `16 MiB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const KIND: QuantityKind = QuantityKind {
    what: "size",
    example: "25MB or 25MiB",
    largest: "18446744073709551615 B",
    smallest: "1 B",
};

const DECIMAL: [(&str, u64); 5] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

const BINARY: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// The number as `f64`.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The number of bits, as `f64`, because eight times the bytes may not fit a `u64`.
    pub fn bits_f64(self) -> f64 {
        self.0 as f64 * 8.0
    }

    /// The sum, or the largest value if it does not fit.
    pub fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = exact(self.0, &BINARY);
        let units = if binary.len() < exact(self.0, &DECIMAL).len() { &BINARY } else { &DECIMAL };
        write_scaled(f, self.0, units)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(input: &str) -> Result<Self, ParseError> {
        let (number, unit) = decimal::split(input, KIND)?;
        match unit_size(unit) {
            Some(size) => number.times(size, input, KIND).map(Bytes),
            None => Err(unit_error(input.trim(), &number, unit)),
        }
    }
}

fn unit_size(unit: &str) -> Option<u64> {
    if matches!(unit, "byte" | "bytes") {
        return Some(1);
    }
    DECIMAL.iter().chain(&BINARY).find(|(name, _)| *name == unit).map(|(_, size)| *size)
}

/// The error for `unit`, which [`unit_size`] does not know.
fn unit_error(input: &str, number: &Decimal, unit: &str) -> ParseError {
    let n = &number.text;
    if unit.is_empty() {
        return ParseError::NoUnit {
            input: input.into(),
            hint: format!("{n}B for bytes, or {n}kB, {n}KiB, {n}MB, {n}MiB"),
        };
    }
    let mut letters = unit.chars();
    let prefix = letters.next().map(|c| c.to_ascii_uppercase()).and_then(|c| "KMGT".find(c));
    let after_prefix = letters.as_str();
    let Some(prefix) = prefix else { return unknown(unit) };
    let (decimal, decimal_size) = DECIMAL[3 - prefix];
    let (binary, binary_size) = BINARY[3 - prefix];
    let spelled = |name: &str, size: u64| match number.times(size, input, KIND) {
        Ok(bytes) => format!("{n} {name} = {} bytes", group_digits(bytes)),
        Err(_) => format!("{n} {name}"),
    };
    let ambiguous =
        |first: String, second: String| ParseError::Ambiguous { input: input.into(), first, second };
    match after_prefix {
        // 25M, 25m, 16k
        "" => ambiguous(spelled(decimal, decimal_size), spelled(binary, binary_size)),
        // 16KB: used for both 1000 and 1024
        "B" if unit == "KB" => ambiguous(spelled("kB", 1_000), spelled("KiB", 1_024)),
        // 25mb, 25Mb
        "b" => {
            // As `Display` prints it: a number with commas would not be accepted.
            let bits = number.times(decimal_size, input, KIND).map(|bits| Bytes(bits / 8).to_string());
            let bits = bits.unwrap_or_else(|_| "a number of bytes".into());
            ambiguous(format!("{n} {decimal} (if you mean bytes)"), format!("{bits} (if you mean bits)"))
        }
        _ => unknown(unit),
    }
}

fn unknown(unit: &str) -> ParseError {
    ParseError::UnknownUnit {
        unit: unit.into(),
        what: "size",
        hint: "B, kB, MB, GB, TB (1000) or KiB, MiB, GiB, TiB (1024)".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts() {
        for (text, bytes) in [
            ("25MB", 25_000_000),
            ("25 MB", 25_000_000),
            ("25MiB", 26_214_400),
            ("16 KiB", 16_384),
            ("16kB", 16_000),
            ("1.5GB", 1_500_000_000),
            ("2GiB", 2_147_483_648),
            ("1TB", 1_000_000_000_000),
            ("1TiB", 1_099_511_627_776),
            ("25_000_000B", 25_000_000),
            ("1 byte", 1),
            ("56 bytes", 56),
            ("0B", 0),
            ("18446744073709551615B", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn rejects_ambiguous_units() {
        for (text, first, second) in [
            ("25M", "25 MB = 25,000,000 bytes", "25 MiB = 26,214,400 bytes"),
            ("25m", "25 MB = 25,000,000 bytes", "25 MiB = 26,214,400 bytes"),
            ("16k", "16 kB = 16,000 bytes", "16 KiB = 16,384 bytes"),
            ("16K", "16 kB = 16,000 bytes", "16 KiB = 16,384 bytes"),
            ("1g", "1 GB = 1,000,000,000 bytes", "1 GiB = 1,073,741,824 bytes"),
            ("16KB", "16 kB = 16,000 bytes", "16 KiB = 16,384 bytes"),
            ("25mb", "25 MB (if you mean bytes)", "3.125 MB (if you mean bits)"),
            ("25Mb", "25 MB (if you mean bytes)", "3.125 MB (if you mean bits)"),
            ("8kb", "8 kB (if you mean bytes)", "1 kB (if you mean bits)"),
        ] {
            let expected =
                ParseError::Ambiguous { input: text.into(), first: first.into(), second: second.into() };
            assert_eq!(text.parse::<Bytes>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn rejects_everything_else() {
        assert_eq!(
            "25000000".parse::<Bytes>().unwrap_err().to_string(),
            "`25000000` has no unit; write 25000000B for bytes, or 25000000kB, 25000000KiB, 25000000MB, 25000000MiB"
        );
        for unknown in ["25mB", "25mib", "25MIB", "25Mbit", "100p", "25MB/s", "3x", "25b", "5é"] {
            assert!(matches!(unknown.parse::<Bytes>(), Err(ParseError::UnknownUnit { .. })), "{unknown}");
        }
        assert!(matches!("-1B".parse::<Bytes>(), Err(ParseError::Negative { .. })));
        assert!(matches!("2,5MB".parse::<Bytes>(), Err(ParseError::Comma { .. })));
        assert!(matches!("0.5B".parse::<Bytes>(), Err(ParseError::TooSmall { .. })));
        assert!(matches!("20000000TB".parse::<Bytes>(), Err(ParseError::TooLarge { .. })));
        assert!(matches!("NaN MB".parse::<Bytes>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("".parse::<Bytes>(), Err(ParseError::Empty { .. })));
    }

    #[test]
    fn prints() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 kB"),
            (1_024, "1 KiB"),
            (25_000_000, "25 MB"),
            (26_214_400, "25 MiB"),
            (62_500_001, "62.500001 MB"),
            (16_777_216, "16 MiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(format!("{:.1}", Bytes(62_512_345)), "62.5 MB");
        assert_eq!(format!("{:.1}", Bytes(999_999_999)), "1.0 GB");
        assert_eq!(format!("{:>8}|{:<8}|", Bytes(25_000_000), Bytes(25_000_000)), "   25 MB|25 MB   |");
    }

    #[test]
    fn is_a_bare_number_in_json() {
        assert_eq!(serde_json::to_string(&Bytes(5)).unwrap(), "5");
        assert_eq!(serde_json::from_str::<Bytes>("5").unwrap(), Bytes(5));
    }

    proptest! {
        #[test]
        fn display_parses_back(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        }

        #[test]
        fn whole_units_parse_back(count in 0_u64..1_000_000, unit in 0_usize..5) {
            for size in [DECIMAL[unit].1, BINARY[unit].1] {
                prop_assert_eq!(Bytes(count * size).to_string().parse(), Ok(Bytes(count * size)));
            }
        }

        #[test]
        fn never_panics(text in "\\PC{0,12}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
