//! The emulator's clock: the time since a run's start, less its emulator's stalls.
//!
//! When a machine's hypervisor, or work in its kernel that cannot be interrupted, stops the emulator for some milliseconds,
//! packets fall due meanwhile. Delivered all at once they would make a burst of ACKs, and that a burst of data, which fills
//! short queues: losses that no network made. So what was on the way goes on as if nothing had happened, at its proper
//! distances; round trips during a stall are longer by it. A run goes by this clock altogether: its rows, when its flows begin
//! and end, and what udp flows send. A stall then takes nothing from a goodput.
//!
//! In virtual time nothing stalls, and reading the clock costs a system call that is dear in User-Mode Linux. There the driver
//! computes the time from how long it waited: computing takes none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scenario::Link;
use units::{BitRate, Time};

use crate::{stalls::Stalls, sys};

/// A turn of the emulator that takes so much longer than planned was interrupted, ns.
const STALL: u64 = 300_000;
/// The same where a link is faster than [`FAST`]: there many turns are long because there is much to do. What they held up
/// is caught up with, or the links' rates would suffer.
const STALL_WHEN_FAST: u64 = 2_000_000;
const FAST: BitRate = BitRate(1_000_000_000);
const SECOND: u64 = 1_000_000_000;

/// A run's time for those who do not drive it. It may go back by a stall that the driver has only just noticed.
#[derive(Debug, Clone)]
pub(crate) struct RunTime {
    /// CLOCK_MONOTONIC at the run's start.
    start: Arc<AtomicU64>,
    /// All stalls so far together, nanoseconds.
    stalled: Arc<AtomicU64>,
    mode: TimeMode,
}

impl RunTime {
    /// Begins now; or anew when the emulator's thread runs, see [`Clock::start`].
    pub(crate) fn begin(mode: TimeMode) -> Self {
        RunTime { start: Arc::new(AtomicU64::new(sys::monotonic().0)), stalled: Arc::default(), mode }
    }

    /// How it passes.
    pub(crate) fn mode(&self) -> TimeMode {
        self.mode
    }

    /// How long it is until `at`, a time since the run's start.
    pub(crate) fn until(&self, at: Time) -> Duration {
        let monotonic = self.start().0 + self.stalled.load(Ordering::Relaxed) + at.0;
        Duration::from_nanos(monotonic.saturating_sub(sys::monotonic().0))
    }

    /// CLOCK_MONOTONIC at the run's start.
    pub(crate) fn start(&self) -> Time {
        Time(self.start.load(Ordering::Relaxed))
    }

    /// Time since the run's start, less all stalls.
    pub(crate) fn now(&self) -> Time {
        self.at(sys::monotonic())
    }

    /// All stalls so far together, nanoseconds, for a clock of one's own.
    pub(crate) fn stalled(&self) -> Arc<AtomicU64> {
        self.stalled.clone()
    }

    fn at(&self, monotonic: Time) -> Time {
        Time(monotonic.0.saturating_sub(self.start().0 + self.stalled.load(Ordering::Relaxed)))
    }
}

/// How time passes for a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeMode {
    /// As on the wall: threads compete for processors, and computing takes time.
    #[default]
    Real,
    /// As in User-Mode Linux with `time-travel=inf-cpu`: computing takes no time, and the time jumps to the next timer.
    Virtual,
}

/// The driver's clock. In real time it stops when its reader does.
#[derive(Debug)]
pub(crate) struct Clock {
    time: RunTime,
    last: Time,
    /// Reading the clock takes virtual time: 256 ns in a kernel that `longfat kernel build` did not make
    /// (arch/um/kernel/time.c, timer_read). Then waits take longer than planned.
    reading_takes_time: bool,
    /// Longer is a stall, ns.
    patience: u64,
    /// For how long it stopped in all, ns.
    stopped: u64,
    /// Why: when its reader did not run.
    pub(crate) stalls: Stalls,
}

impl Clock {
    /// The clock that makes `time`; `links`: what it is to carry.
    pub(crate) fn new(time: RunTime, links: &[Link]) -> Self {
        let last = time.now();
        let pipes = links.iter().flat_map(|link| [&link.forward, &link.backward]);
        let fastest = pipes.filter_map(|pipe| pipe.rate.mean()).max();
        let fast = fastest.is_none_or(|rate| rate > FAST);
        Clock {
            time,
            last,
            reading_takes_time: false,
            patience: if fast { STALL_WHEN_FAST } else { STALL },
            stopped: 0,
            stalls: Stalls::default(),
        }
    }

    /// How its time passes.
    pub(crate) fn mode(&self) -> TimeMode {
        self.time.mode
    }

    /// What it tells others.
    pub(crate) fn time(&self) -> RunTime {
        self.time.clone()
    }

    /// Begins the run's time: a busy machine takes tens of milliseconds until a new thread runs, which is no stall of the run.
    ///
    /// Virtual time begins at the next whole second but one, so that every run begins at the same phase of the kernel's ticks.
    pub(crate) fn start(&mut self) {
        let now = sys::monotonic();
        self.reading_takes_time = self.time.mode == TimeMode::Virtual && sys::monotonic() > now;
        self.start_at(match self.time.mode {
            TimeMode::Real => now,
            TimeMode::Virtual => Time((now.0 / SECOND + 2) * SECOND),
        });
    }

    fn start_at(&mut self, monotonic: Time) {
        self.time.start.store(monotonic.0, Ordering::Relaxed);
        self.last = Time(0);
    }

    /// The time.
    pub(crate) fn now(&mut self) -> Time {
        match self.time.mode {
            TimeMode::Real => self.read(sys::monotonic(), 0),
            TimeMode::Virtual => self.last,
        }
    }

    /// The time, after the reader meant to wait for at most `planned` nanoseconds since it last read the clock. `remaining` is
    /// how much of that it did not wait, as the kernel reports it.
    pub(crate) fn after_waiting(&mut self, planned: u64, remaining: u64) -> Time {
        match self.time.mode {
            TimeMode::Real => self.read(sys::monotonic(), planned),
            TimeMode::Virtual if self.reading_takes_time => {
                self.last = self.time.now();
                self.last
            }
            TimeMode::Virtual => {
                self.last = Time(self.last.0 + planned.saturating_sub(remaining));
                self.last
            }
        }
    }

    /// Compares virtual time with the kernel's; returns by how much the driver had lagged behind, nanoseconds.
    pub(crate) fn synchronize(&mut self) -> u64 {
        if self.time.mode == TimeMode::Real {
            return 0;
        }
        let lag = self.time.at(sys::monotonic()).0.saturating_sub(self.last.0);
        self.last = Time(self.last.0 + lag);
        lag
    }

    fn read(&mut self, monotonic: Time, planned: u64) -> Time {
        let over = self.time.at(monotonic).0.saturating_sub(self.last.0 + planned);
        if over > self.patience {
            self.stalls.add(Time(self.last.0 + planned), over);
            self.stopped += over;
            self.time.stalled.store(self.stopped, Ordering::Relaxed);
        }
        self.last = self.time.at(monotonic);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::Stall;

    /// A clock at 0 to which 2 ms are a stall.
    fn clock(time: &RunTime) -> Clock {
        Clock {
            time: time.clone(),
            last: Time(0),
            reading_takes_time: false,
            patience: 2_000_000,
            stopped: 0,
            stalls: Stalls::default(),
        }
    }

    #[test]
    fn what_was_not_planned_does_not_count() {
        let ms = |ms: u64| Time(ms * 1_000_000);
        let time = RunTime { start: Arc::default(), stalled: Arc::default(), mode: TimeMode::Real };
        let mut clock = clock(&time);
        assert_eq!(clock.read(ms(20), ms(20).0), ms(20));
        assert_eq!(clock.stalls.total, 0, "as planned");
        assert_eq!(clock.read(ms(290), ms(20).0), ms(40));
        assert_eq!(clock.read(ms(300), 0), ms(40));
        assert_eq!(time.at(ms(300)), ms(40), "others see it too");
        assert_eq!((clock.stalls.total, clock.stalls.longest), (ms(260).0, ms(250).0));
        assert_eq!(
            clock.stalls.kept[0],
            Stall { at: ms(40), length: ms(250).0 },
            "it begins where the clock stopped"
        );
        assert_eq!(clock.read(Time(300_100_000), 0), Time(40_100_000), "a little late is no stall");
    }

    #[test]
    fn a_thread_that_starts_late_did_not_stall() {
        let ms = |ms: u64| Time(ms * 1_000_000);
        let time = RunTime { start: Arc::default(), stalled: Arc::default(), mode: TimeMode::Real };
        let mut clock = clock(&time);
        clock.start_at(ms(80));
        assert_eq!((clock.read(ms(81), 0), clock.stalls.count), (ms(1), 0));
        assert_eq!((time.start(), time.at(ms(90))), (ms(80), ms(10)), "others' time begins with it");
    }
}
