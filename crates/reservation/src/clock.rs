//! The two clocks of a point.

use units::Time;

/// The current time by both clocks of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// A clock that is never stepped (CLOCK_BOOTTIME), from any origin. Timeouts and running tests are
    /// measured by it.
    pub steady: Time,
    /// UTC since the Unix epoch, the time scale of slots; it may be stepped.
    pub utc: Time,
    /// Largest estimated error of `utc` (adjtimex's `maxerror`).
    pub error: Time,
}

impl Now {
    /// When `utc` is reached by the steady clock, if no clock is stepped.
    pub fn steady_at(&self, utc: Time) -> Time {
        self.steady + utc.saturating_sub(self.utc)
    }
}
