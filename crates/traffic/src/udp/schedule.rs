//! Maps a source's times to this machine's clock. All times count from the stream's start, so that lateness
//! does not accumulate.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use datagrams::DatagramSource;

use super::{
    precise_timer::{PreciseTimer, SpinPolicy},
    send_summary::{SendSummary, claim},
};
use crate::Stop;

/// When the datagrams of a source are due.
#[derive(Debug)]
pub(super) struct Schedule<'a> {
    source: DatagramSource,
    remaining: Option<&'a AtomicU64>,
    max_lateness: Duration,
    timer: PreciseTimer,
    /// The source's time 0 on CLOCK_MONOTONIC, ns; skipped time and pauses move it later.
    start: u64,
    /// Total time that the destination has been paused, ns.
    paused: &'a AtomicU64,
    /// The part of `paused` that `start` already includes, ns.
    applied_pauses: u64,
}

/// Datagrams that are due, all of the same length except the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) count: usize,
    /// Bytes of each except the last.
    pub(super) block: usize,
    /// Bytes of the last.
    pub(super) last: usize,
}

impl<'a> Schedule<'a> {
    /// Starts now.
    pub(super) fn new(
        source: DatagramSource,
        remaining: Option<&'a AtomicU64>,
        max_lateness: Duration,
        spin: SpinPolicy,
        paused: &'a AtomicU64,
    ) -> Self {
        let (start, applied_pauses) = (os::monotonic_ns(), paused.load(Ordering::Relaxed));
        Schedule {
            source,
            remaining,
            max_lateness,
            timer: PreciseTimer::new(spin),
            start,
            paused,
            applied_pauses,
        }
    }

    /// Waits until datagrams are due, and returns at most `capacity` of them. `None` if all are sent, or
    /// `stop` is set.
    pub(super) fn wait(&mut self, capacity: usize, stop: &Stop, summary: &mut SendSummary) -> Option<Due> {
        let (due, now) = loop {
            let due = self.start.saturating_add(self.source.next()?.as_nanos());
            let now = self.timer.wait(due, stop);
            if stop.is_set() {
                return None;
            }
            if !self.apply_pauses() {
                break (due, now);
            }
        };
        let late = Duration::from_nanos(now - due);
        let excess = late.saturating_sub(self.max_lateness);
        self.start += excess.as_nanos() as u64;
        summary.late.saturating_record(late.as_nanos() as u64);
        summary.skipped += excess;
        let block = self.source.payload() as usize;
        let mut due = Due { count: 0, block, last: block };
        while due.count < capacity && self.is_due(now) && claim(self.remaining, 1) == 1 {
            due.last = self.source.take().1 as usize;
            due.count += 1;
        }
        (due.count > 0).then_some(due)
    }

    /// Moves the schedule by the pauses since the last call; true if there were any.
    fn apply_pauses(&mut self) -> bool {
        let paused = self.paused.load(Ordering::Relaxed);
        self.start += paused - self.applied_pauses;
        std::mem::replace(&mut self.applied_pauses, paused) != paused
    }

    fn is_due(&self, now: u64) -> bool {
        self.source.next().is_some_and(|at| self.start.saturating_add(at.as_nanos()) <= now)
    }
}

#[cfg(test)]
mod tests {
    use datagrams::{Draws, SourcePlan};
    use units::{BitRate, Bytes, Instant};

    use super::*;

    fn schedule(max_lateness: Duration) -> Schedule<'static> {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        pausing(max_lateness, &NEVER)
    }

    fn pausing(max_lateness: Duration, paused: &AtomicU64) -> Schedule<'_> {
        // Ten datagrams of 1000 bytes, the last of 500, each millisecond.
        let plan = SourcePlan {
            rate: BitRate(8_000_000),
            payload: 1000,
            size: Some(Bytes(9500)),
            ..SourcePlan::default()
        };
        let source = DatagramSource::new(&plan, Draws::new(0, 0), Instant::ZERO);
        Schedule::new(source, None, max_lateness, SpinPolicy::Limited, paused)
    }

    #[test]
    fn late_datagrams_are_sent_immediately_up_to_the_capacity() {
        let (mut schedule, mut summary, stop) =
            (schedule(Duration::from_secs(3600)), SendSummary::new(), Stop::default());
        schedule.start -= 1_000_000_000;
        assert_eq!(schedule.wait(4, &stop, &mut summary), Some(Due { count: 4, block: 1000, last: 1000 }));
        assert_eq!(schedule.wait(64, &stop, &mut summary), Some(Due { count: 6, block: 1000, last: 500 }));
        assert_eq!(schedule.wait(64, &stop, &mut summary), None);
        assert!(summary.late.min() >= 980_000_000 && summary.skipped.is_zero(), "{summary:?}");
    }

    #[test]
    fn time_beyond_the_maximum_lateness_is_skipped() {
        let (mut schedule, mut summary, stop) =
            (schedule(Duration::from_millis(2)), SendSummary::new(), Stop::default());
        schedule.start -= 1_000_000_000;
        // Only the datagrams due now, 1 ms ago and 2 ms ago are sent; all others are due later.
        assert_eq!(schedule.wait(64, &stop, &mut summary).map(|due| due.count), Some(3));
        assert!(summary.skipped >= Duration::from_millis(997), "{summary:?}");
        stop.set();
        assert_eq!(schedule.wait(64, &stop, &mut summary), None);
    }

    #[test]
    fn a_pause_delays_all_later_datagrams() {
        let (paused, mut summary, stop) =
            (AtomicU64::new(70_000_000_000), SendSummary::new(), Stop::default());
        let mut schedule = pausing(Duration::from_secs(3600), &paused);
        schedule.start -= 1_000_000_000;
        paused.fetch_add(996_500_000, Ordering::Relaxed);
        // All datagrams were due before the pause. After it, only those of the first 3.5 ms, and of slightly
        // more, are due.
        let late = schedule.wait(64, &stop, &mut summary).map(|due| due.count);
        assert!(late.is_some_and(|count| count >= 4), "{late:?}");
        assert!(summary.late.max() < 900_000_000, "{summary:?}");
    }
}
