//! The two clocks of a point, as the operating system has them.

use reservation::Now;
use units::Time;

/// The error that the kernel reports for a clock that nothing synchronizes (NTP_PHASE_LIMIT).
const UNKNOWN_ERROR: Time = Time::from_secs(16);

/// Reads the clocks; `error`: that of UTC, instead of the kernel's estimate.
pub(crate) fn now(error: Option<Time>) -> Now {
    let time = |duration: std::time::Duration| Time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    Now {
        steady: time(os::boottime()),
        utc: time(os::realtime()),
        error: error.unwrap_or_else(|| os::clock_error().map_or(UNKNOWN_ERROR, time)),
    }
}
