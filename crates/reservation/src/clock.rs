//! The two clocks of a point.

use units::{Instant, Time};

/// The current time by both clocks of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// A clock that is never stepped (CLOCK_BOOTTIME), from any origin. Timeouts and running tests are
    /// measured by it.
    pub steady: Instant,
    /// UTC since the Unix epoch, the time scale of slots; it may be stepped.
    pub utc: Instant,
    /// Largest estimated error of `utc` (adjtimex's `maxerror`).
    pub error: Time,
}

impl Now {
    /// When `utc` is reached by the steady clock, if no clock is stepped.
    pub fn steady_at(&self, utc: Instant) -> Instant {
        self.steady + utc.saturating_since(self.utc)
    }
}
