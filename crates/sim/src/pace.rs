//! The pace of an application that reads or writes at a limited rate. Its total number of bytes never exceeds
//! the rate times the time since it started.
//!
//! The lab's applications follow the same rule: they wait until the bytes of 5 ms are due, and do not wait
//! when they are behind schedule.

use units::{BitRate, Instant, Time};

/// Interval at which a paced application acts.
const TICK_NS: u64 = 5_000_000;

/// Spreads bytes evenly over virtual time.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    rate: BitRate,
    start: Instant,
    done: u64,
}

impl Pace {
    pub(crate) fn new(rate: BitRate, start: Instant) -> Self {
        Pace { rate, start, done: 0 }
    }

    /// The number of bytes that may be processed at `now`, at most `max`. `Err` is the time at which the
    /// bytes of a tick will be due.
    // Not inlined: its divisions would take registers from the code of applications without a pace.
    #[inline(never)]
    pub(crate) fn allowed(&self, now: Instant, max: u64) -> Result<u64, Instant> {
        let bytes = |ns: u64| u128::from(self.rate.0) * u128::from(ns) / 8_000_000_000;
        let wanted = bytes(TICK_NS).clamp(1, u128::from(max)) as u64;
        let due = bytes(now.saturating_since(self.start).as_nanos()).saturating_sub(u128::from(self.done));
        if due >= u128::from(wanted) {
            return Ok(due.min(u128::from(max)) as u64);
        }
        let target = u128::from(self.done + wanted) * 8_000_000_000;
        let after = target.div_ceil(u128::from(self.rate.0.max(1)));
        Err(self.start + Time::from_nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }

    /// Counts processed bytes.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.done += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_time_at_which_enough_bytes_are_due() {
        let mut pace = Pace::new(BitRate(80_000_000), Instant::from_nanos(1_000));
        let at = pace.allowed(Instant::from_nanos(1_000), 65_536).unwrap_err();
        // 10 MB/s: 50,000 B are due after 5 ms.
        assert_eq!(at, Instant::from_nanos(5_001_000));
        assert_eq!(pace.allowed(at, 65_536), Ok(50_000));
        pace.spend(50_000);
        assert_eq!(pace.allowed(at, 65_536), Err(Instant::from_nanos(10_001_000)));
        assert_eq!(
            pace.allowed(Instant::from_nanos(1_000_001_000), 65_536),
            Ok(65_536),
            "behind schedule: at most `max` at a time"
        );
    }
}
