//! A span of time in nanoseconds.

use std::{
    fmt,
    ops::{Add, AddAssign, Div, Mul, Rem},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{
    ParseError,
    decimal::{self, QuantityKind},
    print::write_scaled,
};

/// A span of time in nanoseconds: a delay, an interval, a round-trip time. Points in time are
/// [`Instant`](crate::Instant)s.
///
/// Sums and products saturate at [`Time::MAX`]. Subtraction has no operator, because the caller must choose
/// the meaning of a negative result: [`Time::minus`] (impossible), [`Time::saturating_sub`] (zero) or
/// [`Time::checked_sub`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

const KIND: QuantityKind = QuantityKind {
    what: "time",
    example: "20ms",
    largest: "18446744073709551615 ns (584 years)",
    smallest: "1 ns",
};

const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl Time {
    /// The empty span.
    pub const ZERO: Time = Time(0);
    /// The longest span, 584 years.
    pub const MAX: Time = Time(u64::MAX);

    /// Converts from nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Converts from microseconds; [`Time::MAX`] if it does not fit.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros.saturating_mul(1_000))
    }

    /// Converts from milliseconds; [`Time::MAX`] if it does not fit.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Converts from seconds; [`Time::MAX`] if it does not fit.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// Converts from a duration; [`Time::MAX`] if it does not fit.
    pub fn from_duration(duration: std::time::Duration) -> Time {
        Time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts from seconds, rounded to the nearest nanosecond. Negative values and NaN give zero, too large
    /// ones [`Time::MAX`].
    pub fn from_secs_f64(secs: f64) -> Time {
        Time((secs * 1e9).round() as u64)
    }

    /// Converts from nanoseconds, rounded to the nearest. Negative values and NaN give zero, too large ones
    /// [`Time::MAX`].
    pub fn from_nanos_f64(nanos: f64) -> Time {
        Time(nanos.round() as u64)
    }

    /// Seconds.
    #[inline]
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

    /// Nanoseconds as a float.
    #[inline]
    pub fn as_nanos_f64(self) -> f64 {
        self.0 as f64
    }

    /// Whole milliseconds, rounded down.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole microseconds, rounded down.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Converts to a duration.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }

    /// The difference between two spans, whichever is longer.
    #[inline]
    pub const fn abs_diff(self, other: Time) -> Time {
        Time(self.0.abs_diff(other.0))
    }

    /// How much longer this span is than `shorter`.
    ///
    /// `shorter` must not be longer than this span: debug builds panic, release builds wrap around (one
    /// subtraction, for the packet path). Use [`Time::saturating_sub`] or [`Time::checked_sub`] if that is
    /// not certain.
    #[inline]
    pub const fn minus(self, shorter: Time) -> Time {
        Time(self.0 - shorter.0)
    }

    /// The sum; `None` if it does not fit.
    #[inline]
    pub fn checked_add(self, other: Time) -> Option<Time> {
        self.0.checked_add(other.0).map(Time)
    }

    /// The difference; `None` if `other` is larger.
    #[inline]
    pub fn checked_sub(self, other: Time) -> Option<Time> {
        self.0.checked_sub(other.0).map(Time)
    }

    /// `count` times this span; `None` if it does not fit.
    #[inline]
    pub fn checked_mul(self, count: u64) -> Option<Time> {
        self.0.checked_mul(count).map(Time)
    }

    /// The sum, or [`Time::MAX`].
    #[inline]
    pub fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if `other` is larger.
    #[inline]
    pub fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// `count` times this span, or [`Time::MAX`].
    #[inline]
    pub fn saturating_mul(self, count: u64) -> Time {
        Time(self.0.saturating_mul(count))
    }
}

/// Saturates at [`Time::MAX`].
impl Add for Time {
    type Output = Time;

    #[inline]
    fn add(self, other: Time) -> Time {
        self.saturating_add(other)
    }
}

/// Saturates at [`Time::MAX`].
impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

/// Saturates at [`Time::MAX`].
impl Mul<u64> for Time {
    type Output = Time;

    #[inline]
    fn mul(self, count: u64) -> Time {
        self.saturating_mul(count)
    }
}

/// Rounds down. Panics if `count` is zero.
impl Div<u64> for Time {
    type Output = Time;

    #[inline]
    fn div(self, count: u64) -> Time {
        Time(self.0 / count)
    }
}

/// The number of whole spans that fit. Panics if `span` is zero.
impl Div for Time {
    type Output = u64;

    #[inline]
    fn div(self, span: Time) -> u64 {
        self.0 / span.0
    }
}

/// The remainder after all whole spans. Panics if `span` is zero.
impl Rem for Time {
    type Output = Time;

    #[inline]
    fn rem(self, span: Time) -> Time {
        Time(self.0 % span.0)
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
            // ASCII, the micro sign, and the Greek letter mu.
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
    fn rejects() {
        assert_eq!("20".parse::<Time>().unwrap_err().to_string(), "`20` has no unit; write 20ms or 20s");
        assert_eq!(
            "5m".parse::<Time>().unwrap_err().to_string(),
            "`5m` is ambiguous; write 5min (minutes) or 5ms (milliseconds)"
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
        assert_eq!((Time(2_999_999).as_millis(), Time(2_999).as_micros()), (2, 2));
        assert_eq!(Time::from_nanos_f64(1.5), Time(2));
    }

    #[test]
    fn computes() {
        let (short, long) = (Time::from_millis(3), Time::from_millis(10));
        assert_eq!((short.abs_diff(long), long.minus(short)), (Time::from_millis(7), Time::from_millis(7)));
        assert_eq!((short * 4, long / 4), (Time::from_millis(12), Time::from_micros(2_500)));
        assert_eq!((long / short, long % short), (3, Time::from_millis(1)));
        assert_eq!((Time::MAX * 2, Time::MAX.checked_mul(2)), (Time::MAX, None));
        assert!(long < Time::MAX);
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
