//! A number of TCP segments (or packets).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    Bytes, ParseError,
    decimal::{self, QuantityKind},
};

/// A number of TCP segments, or of packets where each carries one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Segments(pub u64);

const KIND: QuantityKind = QuantityKind {
    what: "number of segments",
    example: "100p or 100 segments",
    largest: "18446744073709551615",
    smallest: "1",
};

impl Segments {
    /// The number as `f64`.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The number of bytes that they carry at `mss` bytes each, or the largest value if it does not fit.
    pub fn bytes(self, mss: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(mss.0))
    }

    /// The number of segments of `mss` bytes that carry `bytes`; zero if `mss` is zero.
    pub fn holding(bytes: Bytes, mss: Bytes) -> Segments {
        if mss.0 == 0 { Segments(0) } else { Segments(bytes.0.div_ceil(mss.0)) }
    }
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} segment{}", self.0, if self.0 == 1 { "" } else { "s" }))
    }
}

impl FromStr for Segments {
    type Err = ParseError;

    fn from_str(input: &str) -> Result<Self, ParseError> {
        let (number, unit) = decimal::split(input, KIND)?;
        match unit {
            "" | "p" | "packet" | "packets" | "seg" | "segs" | "segment" | "segments" => {}
            _ => {
                let hint = format!("{}p or {} segments", number.text, number.text);
                return Err(ParseError::UnknownUnit { unit: unit.into(), what: KIND.what, hint });
            }
        }
        number.times(1, input, KIND).map(Segments)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_and_rejects() {
        for text in ["100", "100p", "100 packets", "100 segments", "1e2"] {
            assert_eq!(text.parse(), Ok(Segments(100)), "{text}");
        }
        assert!(matches!("100kB".parse::<Segments>(), Err(ParseError::UnknownUnit { .. })));
        assert!(matches!("-1p".parse::<Segments>(), Err(ParseError::Negative { .. })));
        assert!(matches!("p".parse::<Segments>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("0.2p".parse::<Segments>(), Err(ParseError::TooSmall { .. })));
    }

    #[test]
    fn converts() {
        assert_eq!(Segments(3).bytes(Bytes(1_448)), Bytes(4_344));
        assert_eq!(Segments::holding(Bytes(4_345), Bytes(1_448)), Segments(4));
        assert_eq!(Segments::holding(Bytes(1), Bytes(0)), Segments(0));
    }

    proptest! {
        #[test]
        fn display_parses_back(value: u64) {
            prop_assert_eq!(Segments(value).to_string().parse(), Ok(Segments(value)));
        }
    }
}
