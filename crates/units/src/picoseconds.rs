//! A span in picoseconds: the processor time that one byte costs is less than a nanosecond.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    ParseError,
    decimal::{self, QuantityKind},
    print::write_scaled,
};

/// A span in picoseconds. `"0.15ns"` and `"4us"` parse exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picoseconds(pub u64);

const KIND: QuantityKind =
    QuantityKind { what: "time", example: "4us", largest: "18446744 s (213 days)", smallest: "1 ps" };

const UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];

impl Picoseconds {
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl FromStr for Picoseconds {
    type Err = ParseError;

    fn from_str(input: &str) -> Result<Self, ParseError> {
        let (number, unit) = decimal::split(input, KIND)?;
        let unit = if unit == "µs" || unit == "μs" { "us" } else { unit };
        match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, size)) => number.times(*size, input, KIND).map(Picoseconds),
            // `Time` parses minutes and hours, and its errors name missing and unknown units.
            None => {
                let nanoseconds = input.parse::<crate::Time>()?.as_nanos();
                nanoseconds.checked_mul(1000).map(Picoseconds).ok_or_else(|| ParseError::TooLarge {
                    input: input.trim().into(),
                    what: KIND.what,
                    limit: KIND.largest,
                })
            }
        }
    }
}

impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &UNITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_nanosecond_are_exact() {
        for (text, ps) in [("0.15ns", 150), ("4us", 4_000_000), ("1.5 ns", 1_500), ("0s", 0), ("7ps", 7)] {
            let parsed: Picoseconds = text.parse().unwrap();
            assert_eq!(parsed, Picoseconds(ps), "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        assert_eq!("2h".parse(), Ok(Picoseconds(7_200_000_000_000_000)));
        assert!(matches!("6000h".parse::<Picoseconds>(), Err(ParseError::TooLarge { .. })), "250 days");
        assert!("4".parse::<Picoseconds>().unwrap_err().to_string().contains('4'));
        assert!("4 parsec".parse::<Picoseconds>().is_err());
        assert!("0.1ps".parse::<Picoseconds>().is_err());
    }
}
