//! Instants and spans in nanoseconds with 32 binary fraction bits.
//!
//! At 3 Gb/s a byte does not take a whole number of picoseconds. With 32 fraction bits the rate's relative
//! error is below 1e-8 at 100 Gb/s and below 1e-9 at 10 Gb/s, the same on every machine.

use std::ops::{Add, Mul};

use units::{BitRate, Instant, Time};

const FRACTION_BITS: u32 = 32;

/// Nanoseconds times 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Fixed(u128);

impl Fixed {
    pub(crate) const ZERO: Fixed = Fixed(0);

    /// The transmission time of one byte at `rate`, rounded up so that no link is faster than its rate. A
    /// rate of 0 counts as 1 bit/s.
    pub(crate) fn per_byte(rate: BitRate) -> Fixed {
        Fixed((8_000_000_000u128 << FRACTION_BITS).div_ceil(u128::from(rate.0.max(1))))
    }

    /// Rounds an instant up to a whole nanosecond, so that nothing leaves early.
    pub(crate) fn ceil(self) -> Instant {
        Instant::from_nanos(self.ceil_nanos())
    }

    /// Rounds a span up to a whole nanosecond.
    pub(crate) fn ceil_span(self) -> Time {
        Time::from_nanos(self.ceil_nanos())
    }

    fn ceil_nanos(self) -> u64 {
        u64::try_from((self.0 + ((1 << FRACTION_BITS) - 1)) >> FRACTION_BITS).unwrap_or(u64::MAX)
    }

    pub(crate) fn saturating_sub(self, other: Fixed) -> Fixed {
        Fixed(self.0.saturating_sub(other.0))
    }

    pub(crate) fn div(self, by: u32) -> Fixed {
        Fixed(self.0 / u128::from(by))
    }

    /// The number of whole `step`s that fit; `u64::MAX` if `step` is zero.
    pub(crate) fn count(self, step: Fixed) -> u64 {
        self.0.checked_div(step.0).and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX)
    }

    /// The number of `step`s that cover this span; 0 if `step` is zero.
    pub(crate) fn count_up(self, step: Fixed) -> u64 {
        if step.0 == 0 { 0 } else { u64::try_from(self.0.div_ceil(step.0)).unwrap_or(u64::MAX) }
    }

    /// Converts from nanoseconds; negative values and NaN give zero.
    pub(crate) fn from_nanos_f64(nanos: f64) -> Fixed {
        Fixed((nanos * (1u64 << FRACTION_BITS) as f64) as u128)
    }

    /// Nanoseconds times 2^32.
    pub(crate) fn raw(self) -> u128 {
        self.0
    }

    /// Converts from nanoseconds times 2^32.
    pub(crate) fn from_raw(raw: u128) -> Fixed {
        Fixed(raw)
    }

    pub(crate) fn as_secs_f64(self) -> f64 {
        self.as_nanos_f64() * 1e-9
    }

    pub(crate) fn as_nanos_f64(self) -> f64 {
        // Most spans fit into 64 bits, which one instruction converts.
        let raw = u64::try_from(self.0).map_or_else(|_| self.0 as f64, |raw| raw as f64);
        raw / (1u64 << FRACTION_BITS) as f64
    }
}

impl From<Instant> for Fixed {
    fn from(instant: Instant) -> Self {
        Fixed(u128::from(instant.as_nanos()) << FRACTION_BITS)
    }
}

impl From<Time> for Fixed {
    fn from(span: Time) -> Self {
        Fixed(u128::from(span.as_nanos()) << FRACTION_BITS)
    }
}

impl Add for Fixed {
    type Output = Fixed;
    fn add(self, other: Fixed) -> Fixed {
        Fixed(self.0 + other.0)
    }
}

impl Mul<u64> for Fixed {
    type Output = Fixed;
    fn mul(self, by: u64) -> Fixed {
        Fixed(self.0 * u128::from(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_per_byte_matches_the_rate() {
        let byte = Fixed::per_byte(BitRate(10_000_000_000));
        let ten_seconds = (byte * 12_500_000_000).ceil_span().as_nanos();
        assert!((10_000_000_000..=10_000_000_004).contains(&ten_seconds), "{ten_seconds}");
        let odd = Fixed::per_byte(BitRate(3_000_000_000));
        let ten_seconds = (odd * 3_750_000_000).as_nanos_f64();
        assert!((ten_seconds / 1e10 - 1.0).abs() < 1e-9, "{ten_seconds}");
    }

    #[test]
    fn ceil_rounds_up() {
        assert_eq!((Fixed::per_byte(BitRate(10_000_000_000)) * 1).ceil_span(), Time::from_nanos(1));
        assert_eq!(Fixed::from(Instant::from_nanos(7)).ceil(), Instant::from_nanos(7));
    }
}
