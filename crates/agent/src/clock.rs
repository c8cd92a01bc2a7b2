//! The two clocks of a point, as the operating system provides them.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use reservation::Now;
use units::Time;

/// The error that the kernel reports for an unsynchronized clock (NTP_PHASE_LIMIT).
const UNKNOWN_ERROR: Time = Time::from_secs(16);

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
        let time =
            |duration: std::time::Duration| Time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let utc = time(os::realtime());
        Now {
            steady: time(os::boottime()),
            utc: Time(utc.as_nanos().saturating_add_signed(self.offset_ns.load(Ordering::Relaxed))),
            error: self.error.unwrap_or_else(|| os::clock_error().map_or(UNKNOWN_ERROR, time)),
        }
    }
}
