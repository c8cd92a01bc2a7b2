//! A time in nanoseconds: an instant since the run's start, or a span.

use std::{
    fmt,
    ops::{Add, AddAssign},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{
    ParseError,
    decimal::{self, Kind},
    print::write_scaled,
};

/// A time in nanoseconds: an instant since the run's start, or a span.
///
/// Addition stops at [`Time::MAX`], which stands for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

const KIND: Kind =
    Kind { what: "time", example: "20ms", largest: "18446744073709551615 ns (584 years)", smallest: "1 ns" };

const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl Time {
    /// The run's start, or no time at all.
    pub const ZERO: Time = Time(0);
    /// The end of all times: never.
    pub const MAX: Time = Time(u64::MAX);

    /// From nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// From microseconds; [`Time::MAX`] where it does not fit.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros.saturating_mul(1_000))
    }

    /// From milliseconds; [`Time::MAX`] where it does not fit.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// From seconds; [`Time::MAX`] where it does not fit.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// From seconds, to the nearest nanosecond. Negative and NaN give zero, too large gives [`Time::MAX`].
    pub fn from_secs_f64(secs: f64) -> Time {
        Time((secs * 1e9).round() as u64)
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Microseconds.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The sum; `None` where it does not fit.
    pub fn checked_add(self, other: Time) -> Option<Time> {
        self.0.checked_add(other.0).map(Time)
    }

    /// The difference; `None` where `other` is larger.
    pub fn checked_sub(self, other: Time) -> Option<Time> {
        self.0.checked_sub(other.0).map(Time)
    }

    /// The sum, or [`Time::MAX`].
    pub fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// `count` times this span, or [`Time::MAX`].
    pub fn saturating_mul(self, count: u64) -> Time {
        Time(self.0.saturating_mul(count))
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        self.saturating_add(other)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write_scaled(f, 0, &[("s", 1)]);
        }
        write_scaled(f, self.0, &UNITS)
    }
}

impl FromStr for Time {
    type Err = ParseError;

    fn from_str(input: &str) -> Result<Self, ParseError> {
        let (number, unit) = decimal::split(input, KIND)?;
        let n = &number.text;
        let size = match unit {
            "ns" => 1,
            // Micro sign, Greek mu, and the letter that replaces them.
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => {
                return Err(ParseError::NoUnit {
                    input: input.trim().into(),
                    hint: format!("{n}ms or {n}s"),
                });
            }
            "m" => {
                let (first, second) = (format!("{n}min (minutes)"), format!("{n}ms (milliseconds)"));
                return Err(ParseError::Ambiguous { input: input.trim().into(), first, second });
            }
            _ => {
                let hint = "ns, us, ms, s, min or h".into();
                return Err(ParseError::UnknownUnit { unit: unit.into(), what: "time", hint });
            }
        };
        number.times(size, input, KIND).map(Time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts() {
        for (text, nanos) in [
            ("20ms", 20_000_000),
            ("20 ms", 20_000_000),
            ("0.5ms", 500_000),
            ("150us", 150_000),
            ("150µs", 150_000),
            ("150\u{3bc}s", 150_000),
            ("7ns", 7),
            ("20s", 20_000_000_000),
            ("2min", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0s", 0),
            ("1_000 ms", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Time(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses() {
        assert_eq!("20".parse::<Time>().unwrap_err().to_string(), "`20` has no unit; write 20ms or 20s");
        assert_eq!(
            "5m".parse::<Time>().unwrap_err().to_string(),
            "`5m` has two readings; write 5min (minutes) or 5ms (milliseconds)"
        );
        for unknown in ["5 days", "5MS", "5S", "5M", "5gbit"] {
            assert!(matches!(unknown.parse::<Time>(), Err(ParseError::UnknownUnit { .. })), "{unknown}");
        }
        assert!(matches!("-20ms".parse::<Time>(), Err(ParseError::Negative { .. })));
        assert!(matches!("0.1ns".parse::<Time>(), Err(ParseError::TooSmall { .. })));
        assert!(matches!("1e10h".parse::<Time>(), Err(ParseError::TooLarge { .. })));
        assert!(matches!("nan s".parse::<Time>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("".parse::<Time>(), Err(ParseError::Empty { .. })));
    }

    #[test]
    fn prints() {
        assert_eq!(Time::from_millis(20).to_string(), "20 ms");
        assert_eq!(Time(20_092_000).to_string(), "20.092 ms");
        assert_eq!(Time::from_secs(90).to_string(), "90 s");
        assert_eq!(Time::from_micros(150).to_string(), "150 us");
        assert_eq!(Time::ZERO.to_string(), "0 s");
        assert_eq!(format!("{:.1}", Time(999_990)), "1.0 ms");
    }

    #[test]
    fn converts() {
        assert_eq!(Time::from_secs_f64(0.02), Time::from_millis(20));
        assert_eq!(Time::from_secs_f64(-1.0), Time::ZERO);
        assert_eq!(Time::from_secs_f64(f64::NAN), Time::ZERO);
        assert_eq!(Time::from_secs_f64(1e30), Time::MAX);
        assert_eq!(Time::from_millis(20).as_secs_f64(), 0.02);
        assert_eq!(Time::MAX + Time(1), Time::MAX);
        assert_eq!(Time(1).saturating_sub(Time(2)), Time::ZERO);
        assert_eq!(Time(1).checked_sub(Time(2)), None);
        assert_eq!(Time::MAX.checked_add(Time(1)), None);
    }

    proptest! {
        #[test]
        fn display_parses_back(value: u64) {
            prop_assert_eq!(Time(value).to_string().parse(), Ok(Time(value)));
        }

        #[test]
        fn small_times_parse_back(value in 0_u64..10_000_000) {
            prop_assert_eq!(Time(value).to_string().parse(), Ok(Time(value)));
        }

        #[test]
        fn never_panics(text in "[0-9]{1,3}\\PC{0,6}") {
            let _ = text.parse::<Time>();
        }
    }
}
