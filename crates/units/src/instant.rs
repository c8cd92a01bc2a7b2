//! An instant: nanoseconds since the origin of a clock, for example the run's start.

use std::{
    fmt,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

use crate::Time;

/// An instant in nanoseconds since the origin of its clock. In a run the origin is the run's start; clocks of
/// measurement points have others, such as 1970.
///
/// Instants of different clocks must not be mixed; the type does not prevent it. The sum of an instant and a
/// [`Time`] is an instant and saturates at [`Instant::NEVER`]; two instants have no sum. Subtraction has no
/// operator, because the caller must choose the meaning of a negative result: [`Instant::since`]
/// (impossible), [`Instant::saturating_since`] (zero) or [`Instant::checked_since`].
///
/// ```
/// use units::{Instant, Time};
///
/// let sent = Instant::from_millis(100);
/// let acknowledged = sent + Time::from_millis(20);
/// assert_eq!(acknowledged.since(sent), Time::from_millis(20));
/// assert_eq!(sent.checked_since(acknowledged), None);
/// ```
///
/// ```compile_fail
/// use units::Instant;
///
/// let sum = Instant::ZERO + Instant::ZERO;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin: in a run its start.
    pub const ZERO: Instant = Instant(0);
    /// An instant after every event: the due time of a timer that is not set.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// The instant `micros` microseconds after the origin; [`Instant::NEVER`] if it does not fit.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros.saturating_mul(1_000))
    }

    /// The instant `millis` milliseconds after the origin; [`Instant::NEVER`] if it does not fit.
    pub const fn from_millis(millis: u64) -> Instant {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// The instant `secs` seconds after the origin; [`Instant::NEVER`] if it does not fit.
    pub const fn from_secs(secs: u64) -> Instant {
        Instant(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the origin, rounded down.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the origin, rounded down.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds since the origin.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.since_origin().as_secs_f64()
    }

    /// The span from the origin to this instant.
    #[inline]
    pub const fn since_origin(self) -> Time {
        Time::from_nanos(self.0)
    }

    /// The span from `earlier` to this instant.
    ///
    /// `earlier` must not be later than this instant: debug builds panic, release builds wrap around (one
    /// subtraction, for the packet path). Use [`Instant::saturating_since`] or [`Instant::checked_since`] if
    /// the order is not certain.
    #[inline]
    pub const fn since(self, earlier: Instant) -> Time {
        Time::from_nanos(self.0 - earlier.0)
    }

    /// The span from `earlier` to this instant; `None` if `earlier` is later.
    #[inline]
    pub fn checked_since(self, earlier: Instant) -> Option<Time> {
        self.0.checked_sub(earlier.0).map(Time::from_nanos)
    }

    /// The span from `earlier` to this instant, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Instant) -> Time {
        Time::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The span between two instants, whichever is later.
    #[inline]
    pub const fn abs_diff(self, other: Instant) -> Time {
        Time::from_nanos(self.0.abs_diff(other.0))
    }

    /// The instant `span` later.
    ///
    /// The result must fit: debug builds panic, release builds wrap around. Use `+`, which saturates, outside
    /// of the packet path.
    #[inline]
    pub const fn later_by(self, span: Time) -> Instant {
        Instant(self.0 + span.as_nanos())
    }

    /// The instant `span` earlier.
    ///
    /// The result must not be before the origin: debug builds panic, release builds wrap around. Use
    /// [`Instant::saturating_sub`] or [`Instant::checked_sub`] if that is not certain.
    #[inline]
    pub const fn earlier_by(self, span: Time) -> Instant {
        Instant(self.0 - span.as_nanos())
    }

    /// The instant `span` later; `None` if it does not fit.
    #[inline]
    pub fn checked_add(self, span: Time) -> Option<Instant> {
        self.0.checked_add(span.as_nanos()).map(Instant)
    }

    /// The instant `span` earlier; `None` if that is before the origin.
    #[inline]
    pub fn checked_sub(self, span: Time) -> Option<Instant> {
        self.0.checked_sub(span.as_nanos()).map(Instant)
    }

    /// The instant `span` later, or [`Instant::NEVER`].
    #[inline]
    pub const fn saturating_add(self, span: Time) -> Instant {
        Instant(self.0.saturating_add(span.as_nanos()))
    }

    /// The instant `span` earlier, or the origin.
    #[inline]
    pub const fn saturating_sub(self, span: Time) -> Instant {
        Instant(self.0.saturating_sub(span.as_nanos()))
    }

    /// The first multiple of `interval` after this instant, or [`Instant::NEVER`]: the next tick of a
    /// periodic timer. An `interval` of zero counts as 1 ns.
    pub fn next_tick(self, interval: Time) -> Instant {
        let interval = interval.as_nanos().max(1);
        Instant((self.0 / interval + 1).saturating_mul(interval))
    }
}

/// Saturates at [`Instant::NEVER`].
impl Add<Time> for Instant {
    type Output = Instant;

    #[inline]
    fn add(self, span: Time) -> Instant {
        self.saturating_add(span)
    }
}

/// Saturates at [`Instant::NEVER`].
impl AddAssign<Time> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Time) {
        *self = *self + span;
    }
}

/// Prints the time since the origin as [`Time`] does.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.since_origin().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn computes() {
        let (early, late) = (Instant::from_millis(3), Instant::from_millis(10));
        let span = Time::from_millis(7);
        assert_eq!((late.since(early), late.abs_diff(early), early.abs_diff(late)), (span, span, span));
        assert_eq!((late.checked_since(early), early.checked_since(late)), (Some(span), None));
        assert_eq!((late.saturating_since(early), early.saturating_since(late)), (span, Time::ZERO));
        assert_eq!((early.later_by(span), late.earlier_by(span)), (late, early));
        assert_eq!((early + span, early.checked_add(span)), (late, Some(late)));
        assert_eq!((late.checked_sub(span), early.checked_sub(span)), (Some(early), None));
        assert_eq!((late.saturating_sub(span), early.saturating_sub(span)), (early, Instant::ZERO));
        assert!(late < Instant::NEVER);
    }

    #[test]
    fn sums_saturate() {
        let mut at = Instant::NEVER.earlier_by(Time::from_nanos(1));
        assert_eq!(at.checked_add(Time::from_nanos(2)), None);
        at += Time::from_nanos(2);
        assert_eq!(at, Instant::NEVER);
        assert_eq!(Instant::from_secs(u64::MAX), Instant::NEVER);
    }

    #[test]
    #[should_panic(expected = "overflow")]
    #[cfg(debug_assertions)]
    fn a_later_instant_has_no_span_to_an_earlier_one() {
        let (early, late) = std::hint::black_box((Instant::from_nanos(1), Instant::from_nanos(2)));
        let _ = early.since(late);
    }

    #[test]
    fn finds_the_next_tick() {
        let (at, interval) = (Instant::from_nanos, Time::from_nanos(3));
        assert_eq!((at(6).next_tick(interval), at(7).next_tick(interval)), (at(9), at(9)));
        assert_eq!(at(7).next_tick(Time::ZERO), at(8));
        assert_eq!(at(u64::MAX - 1).next_tick(Time::from_secs(1)), Instant::NEVER);
    }

    #[test]
    fn converts() {
        let at = Instant::from_micros(2_999);
        assert_eq!((at.as_nanos(), at.as_micros(), at.as_millis()), (2_999_000, 2_999, 2));
        assert_eq!((at.as_secs_f64(), at.since_origin()), (0.002_999, Time::from_micros(2_999)));
        assert_eq!(format!("{at} {at:.1}"), "2.999 ms 3.0 ms");
    }

    proptest! {
        #[test]
        fn a_span_after_an_instant_is_found_again(start in 0..u64::MAX / 2, span in 0..u64::MAX / 2) {
            let (start, span) = (Instant::from_nanos(start), Time::from_nanos(span));
            let end = start + span;
            prop_assert_eq!((end, end.since(start)), (start.later_by(span), span));
            prop_assert_eq!((end.earlier_by(span), end.saturating_sub(span)), (start, start));
        }
    }
}
