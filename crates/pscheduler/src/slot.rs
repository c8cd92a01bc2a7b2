//! The slot of a run: waits for its start, and ends the test at its end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::documents::Schedule;

/// Time before the end of the slot at which the test ends: the result must be on standard output before
/// pScheduler ends the tool.
const BEFORE_THE_END: Duration = Duration::from_secs(1);
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits for the start of the slot, and sets the returned flag at its end or with `stop`.
pub(crate) fn begin(schedule: &Schedule, stop: &Arc<AtomicBool>) -> Arc<AtomicBool> {
    let until_start = schedule.start.duration_since(jiff::Timestamp::now());
    let late = Duration::try_from(-until_start).unwrap_or_default();
    let start = Instant::now() + Duration::try_from(until_start).unwrap_or_default();
    while Instant::now() < start && !stop.load(Ordering::Acquire) {
        thread::sleep(start.saturating_duration_since(Instant::now()).min(STOP_CHECK_INTERVAL));
    }
    let end = start + schedule.duration.0.saturating_sub(BEFORE_THE_END).saturating_sub(late);
    let is_over = Arc::new(AtomicBool::new(stop.load(Ordering::Acquire)));
    let (watched, set) = (Arc::clone(stop), Arc::clone(&is_over));
    // This thread ends with the program.
    thread::spawn(move || {
        while Instant::now() < end && !watched.load(Ordering::Acquire) {
            thread::sleep(STOP_CHECK_INTERVAL);
        }
        set.store(true, Ordering::Release);
    });
    is_over
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::duration::IsoDuration;

    #[test]
    fn a_run_waits_for_its_start_and_ends_with_its_slot() {
        let schedule = |start_ms: i64, length_ms: u64| Schedule {
            start: Timestamp::now() + SignedDuration::from_millis(start_ms),
            duration: IsoDuration(Duration::from_millis(length_ms)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let begun = Instant::now();
        let open = begin(&schedule(300, 3_600_000), &stop);
        assert!(begun.elapsed() >= Duration::from_millis(290));
        assert!(!open.load(Ordering::Acquire));
        // A slot in the past.
        let passed = begin(&schedule(-10_000, 5000), &stop);
        let wait = Instant::now();
        while !passed.load(Ordering::Acquire) {
            assert!(wait.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
        assert!(!open.load(Ordering::Acquire));
        stop.store(true, Ordering::Release);
        while !open.load(Ordering::Acquire) {
            assert!(wait.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
    }
}
