//! The two clocks of a point, as the operating system provides them, and whether UTC is reliable enough to
//! decide which results are old enough to remove.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use reservation::Now;
use units::{Instant, Time};

/// The error that the kernel reports for an unsynchronized clock (NTP_PHASE_LIMIT).
const UNKNOWN_ERROR: Time = Time::from_secs(16);

/// A step forward by more than this may be a mistake.
const LARGE_STEP: Time = Time::from_secs(3600);
/// Time after a large step forward in which nothing is removed: users may notice a wrong clock.
const DOUBT: Time = Time::from_secs(86_400);

/// The source of a point's UTC.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// The error of UTC, instead of the kernel's estimate.
    pub error: Option<Time>,
    /// An offset that is added to UTC, ns; tests use it to step the clock of one agent.
    pub offset_ns: Arc<AtomicI64>,
}

impl Clock {
    /// Reads both clocks.
    pub(crate) fn now(&self) -> Now {
        let [steady, utc] =
            [os::boottime(), os::realtime()].map(|time| Instant::ZERO + Time::from_duration(time));
        Now {
            steady,
            utc: Instant::from_nanos(
                utc.as_nanos().saturating_add_signed(self.offset_ns.load(Ordering::Relaxed)),
            ),
            error: self.error.unwrap_or_else(|| os::clock_error().map_or(UNKNOWN_ERROR, Time::from_duration)),
        }
    }

    /// Whether something synchronizes UTC: the kernel has an estimate of its error, or the configuration
    /// states it.
    pub(crate) fn is_synchronized(&self) -> bool {
        self.error.is_some()
            || os::clock_error().is_ok_and(|error| Time::from_duration(error) < UNKNOWN_ERROR)
    }
}

/// Whether results may be removed because they are old: a clock that is wrong would destroy the archive.
#[derive(Debug)]
pub(crate) struct RemovalGuard {
    last: Now,
    /// Until this time of the steady clock nothing is removed.
    doubt_until: Instant,
}

impl RemovalGuard {
    /// `newest_us`: the start of the newest known test, microseconds since 1970. The clock may have been
    /// stepped while the agent did not run.
    pub fn new(now: Now, newest_us: Option<i64>) -> Self {
        let newest = newest_us.map(|us| Instant::from_micros(u64::try_from(us).unwrap_or(0)));
        let is_doubtful = newest.is_some_and(|newest| now.utc > newest + LARGE_STEP);
        let doubt_until = if is_doubtful { now.steady + DOUBT } else { Instant::ZERO };
        RemovalGuard { last: now, doubt_until }
    }

    /// Reads the clocks.
    pub fn observe(&mut self, now: Now) {
        let expected = self.last.utc + now.steady.saturating_since(self.last.steady);
        if now.utc > expected + LARGE_STEP {
            tracing::warn!("UTC was stepped forward by more than an hour: no results are removed for a day");
            self.doubt_until = now.steady + DOUBT;
        }
        self.last = now;
    }

    /// Whether UTC has been reliable for long enough.
    pub fn permits(&self, now: Now) -> bool {
        now.steady >= self.doubt_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(steady_s: u64, utc_s: u64) -> Now {
        let [steady, utc] = [steady_s, utc_s].map(Instant::from_secs);
        Now { steady, utc, error: Time::ZERO }
    }

    #[test]
    fn a_large_step_forward_protects_old_results_for_a_day() {
        let mut guard = RemovalGuard::new(now(100, 1_800_000_000), Some(1_799_999_000_000_000));
        assert!(guard.permits(now(100, 1_800_000_000)));
        // Elapsed time, a small step, and steps back do not delay the removal.
        for (steady, utc) in [(100_100, 1_800_100_000), (100_101, 1_800_103_000), (100_102, 1_700_000_000)] {
            guard.observe(now(steady, utc));
            assert!(guard.permits(now(steady, utc)), "{utc}");
        }
        // The correction is a step forward too.
        let wrong = now(100_103, 1_900_000_000);
        guard.observe(wrong);
        assert!(!guard.permits(wrong));
        guard.observe(now(150_000, 1_800_149_900));
        assert!(!guard.permits(now(100_102 + 86_400, 1_800_000_000)));
        assert!(guard.permits(now(100_103 + 86_400, 1_800_000_000)));
    }

    #[test]
    fn a_step_while_the_agent_was_stopped_is_detected() {
        let guard = RemovalGuard::new(now(100, 1_900_000_000), Some(1_800_000_000_000_000));
        assert!(!guard.permits(now(101, 1_900_000_001)) && guard.permits(now(86_500, 1_900_086_400)));
        assert!(RemovalGuard::new(now(100, 1_900_000_000), None).permits(now(100, 1_900_000_000)));
    }
}
