//! A source's times as times of this machine: they begin when it does, so that no lateness adds up.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use datagrams::Source;

use super::{
    SendEnd,
    alarm::{Alarm, Watch},
    sender::claim,
    sys,
};
use crate::Stop;

/// When the datagrams of a source are due.
#[derive(Debug)]
pub(super) struct Schedule<'a> {
    source: Source,
    left: Option<&'a AtomicU64>,
    most_late: Duration,
    alarm: Alarm,
    /// The source's time 0 on CLOCK_MONOTONIC, ns; later by what was given up, and by pauses.
    start: u64,
    /// For how long what is sent to has stood still so far, ns.
    paused: &'a AtomicU64,
    /// So much of that is in `start`.
    heeded: u64,
}

/// Datagrams that are due, all of the same length but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) count: usize,
    /// Bytes of all but the last.
    pub(super) block: usize,
    /// Bytes of the last.
    pub(super) last: usize,
}

impl<'a> Schedule<'a> {
    /// Begins now.
    pub(super) fn new(
        source: Source,
        left: Option<&'a AtomicU64>,
        most_late: Duration,
        watch: Watch,
        paused: &'a AtomicU64,
    ) -> Self {
        let (start, heeded) = (sys::monotonic_ns(), paused.load(Ordering::Relaxed));
        Schedule { source, left, most_late, alarm: Alarm::new(watch), start, paused, heeded }
    }

    /// Waits until something is due: at most `room` datagrams. `None` where all are sent, or `stop` is set.
    pub(super) fn wait(&mut self, room: usize, stop: &Stop, end: &mut SendEnd) -> Option<Due> {
        let (due, now) = loop {
            let due = self.start.saturating_add(self.source.next()?.0);
            let now = self.alarm.wait(due, stop);
            if stop.is_set() {
                return None;
            }
            if !self.heed_pauses() {
                break (due, now);
            }
        };
        let late = Duration::from_nanos(now - due);
        let excess = late.saturating_sub(self.most_late);
        self.start += excess.as_nanos() as u64;
        end.late.saturating_record(late.as_nanos() as u64);
        end.given_up += excess;
        let block = self.source.payload() as usize;
        let mut due = Due { count: 0, block, last: block };
        while due.count < room && self.is_due(now) && claim(self.left, 1) == 1 {
            due.last = self.source.take().1 as usize;
            due.count += 1;
        }
        (due.count > 0).then_some(due)
    }

    /// Moves what is still to come by the pauses since the last call; true where there were some.
    fn heed_pauses(&mut self) -> bool {
        let paused = self.paused.load(Ordering::Relaxed);
        self.start += paused - self.heeded;
        std::mem::replace(&mut self.heeded, paused) != paused
    }

    fn is_due(&self, now: u64) -> bool {
        self.source.next().is_some_and(|at| self.start.saturating_add(at.0) <= now)
    }
}

#[cfg(test)]
mod tests {
    use datagrams::{Draws, SourcePlan};
    use units::{BitRate, Bytes, Time};

    use super::*;

    fn schedule(most_late: Duration) -> Schedule<'static> {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        pausing(most_late, &NEVER)
    }

    fn pausing(most_late: Duration, paused: &AtomicU64) -> Schedule<'_> {
        // Ten datagrams of 1000 bytes, the last of 500, each millisecond.
        let plan = SourcePlan {
            rate: BitRate(8_000_000),
            payload: 1000,
            size: Some(Bytes(9500)),
            ..SourcePlan::default()
        };
        let source = Source::new(&plan, Draws::new(0, 0), Time(0));
        Schedule::new(source, None, most_late, Watch::Little, paused)
    }

    #[test]
    fn what_is_late_goes_at_once_as_far_as_there_is_room() {
        let (mut schedule, mut end, stop) =
            (schedule(Duration::from_secs(3600)), SendEnd::new(), Stop::default());
        schedule.start -= 1_000_000_000;
        assert_eq!(schedule.wait(4, &stop, &mut end), Some(Due { count: 4, block: 1000, last: 1000 }));
        assert_eq!(schedule.wait(64, &stop, &mut end), Some(Due { count: 6, block: 1000, last: 500 }));
        assert_eq!(schedule.wait(64, &stop, &mut end), None);
        assert!(end.late.min() >= 980_000_000 && end.given_up.is_zero(), "{end:?}");
    }

    #[test]
    fn what_is_too_late_is_given_up_and_the_rest_moves() {
        let (mut schedule, mut end, stop) =
            (schedule(Duration::from_millis(2)), SendEnd::new(), Stop::default());
        schedule.start -= 1_000_000_000;
        // Now, 1 ms and 2 ms ago; all others are still to come.
        assert_eq!(schedule.wait(64, &stop, &mut end).map(|due| due.count), Some(3));
        assert!(end.given_up >= Duration::from_millis(997), "{end:?}");
        stop.set();
        assert_eq!(schedule.wait(64, &stop, &mut end), None);
    }

    #[test]
    fn a_pause_puts_all_that_is_to_come_off() {
        let (paused, mut end, stop) = (AtomicU64::new(70_000_000_000), SendEnd::new(), Stop::default());
        let mut schedule = pausing(Duration::from_secs(3600), &paused);
        schedule.start -= 1_000_000_000;
        paused.fetch_add(996_500_000, Ordering::Relaxed);
        // All were due, until what they go to stood still: now only those of the first 3.5 ms and a little are.
        let late = schedule.wait(64, &stop, &mut end).map(|due| due.count);
        assert!(late.is_some_and(|count| count >= 4), "{late:?}");
        assert!(end.late.max() < 900_000_000, "{end:?}");
    }
}
