//! The emulator's clock: the time since a run's start, minus the emulator's stalls.
//!
//! When the hypervisor, or uninterruptible work in the kernel, stops the emulator for some milliseconds,
//! packets fall due meanwhile. Delivered together they would form a burst of ACKs. It would trigger a burst
//! of data that overflows short queues: losses that the emulated network did not cause. Therefore the clock
//! stops during a stall, and packets in flight continue with their original spacing; round trips during a
//! stall take longer by its length. The whole run uses this clock: the times of its rows, the start and end
//! of its flows, and the schedule of udp flows. A stall therefore does not reduce goodput.
//!
//! In virtual time nothing stalls, and reading the clock costs a system call, which is expensive in User-Mode
//! Linux. There the driver computes the time from how long it waited, because computing takes no virtual
//! time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scenario::Link;
use units::{BitRate, Instant, Time};

use crate::{stalls::Stalls, sys};

/// An iteration of the emulator that takes this much longer than planned is a stall, ns.
const STALL_NS: u64 = 300_000;
/// [`STALL_NS`] if a link is faster than [`FAST_LINK`]: then many iterations are long because of load. The
/// emulator catches up after those; stopping the clock for them would reduce the links' rates.
const STALL_ON_FAST_LINKS_NS: u64 = 2_000_000;
const FAST_LINK: BitRate = BitRate(1_000_000_000);
const SECOND_NS: u64 = 1_000_000_000;

/// A run's time for threads other than the driver. It decreases when the driver detects a stall, by the
/// stall's length.
#[derive(Debug, Clone)]
pub(crate) struct RunTime {
    /// CLOCK_MONOTONIC at the run's start.
    start: Arc<AtomicU64>,
    /// Total length of all stalls so far, ns.
    stalled: Arc<AtomicU64>,
    mode: TimeMode,
}

impl RunTime {
    /// Starts the run's time now; it restarts when the emulator's thread runs, see [`Clock::start`].
    pub(crate) fn begin(mode: TimeMode) -> Self {
        RunTime {
            start: Arc::new(AtomicU64::new(sys::monotonic().as_nanos())),
            stalled: Arc::default(),
            mode,
        }
    }

    /// Whether time is real or virtual.
    pub(crate) fn mode(&self) -> TimeMode {
        self.mode
    }

    /// Time remaining until `at`, a time since the run's start.
    pub(crate) fn until(&self, at: Instant) -> Duration {
        let monotonic = self.start().as_nanos() + self.stalled.load(Ordering::Relaxed) + at.as_nanos();
        Duration::from_nanos(monotonic.saturating_sub(sys::monotonic().as_nanos()))
    }

    /// CLOCK_MONOTONIC at the run's start.
    pub(crate) fn start(&self) -> Instant {
        Instant::from_nanos(self.start.load(Ordering::Relaxed))
    }

    /// Time since the run's start, minus all stalls.
    pub(crate) fn now(&self) -> Instant {
        self.at(sys::monotonic())
    }

    /// The shared counter of all stalls so far, ns, for callers that have their own clock.
    pub(crate) fn stalled(&self) -> Arc<AtomicU64> {
        self.stalled.clone()
    }

    fn at(&self, monotonic: Instant) -> Instant {
        Instant::from_nanos(
            monotonic
                .as_nanos()
                .saturating_sub(self.start().as_nanos() + self.stalled.load(Ordering::Relaxed)),
        )
    }
}

/// How time passes for a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeMode {
    /// Real time: threads compete for processors, and computing takes time.
    #[default]
    Real,
    /// Virtual time, as in User-Mode Linux with `time-travel=inf-cpu`: computing takes no time, and the clock
    /// jumps to the next timer.
    Virtual,
}

/// The driver's clock. In real time it stops while the driver stalls.
#[derive(Debug)]
pub(crate) struct Clock {
    time: RunTime,
    last: Instant,
    /// Reading the clock takes virtual time: 256 ns in a kernel that `longfat kernel build` did not make
    /// (arch/um/kernel/time.c, timer_read). Then waits take longer than planned.
    reading_takes_time: bool,
    /// Delays longer than this are stalls, ns.
    stall_threshold: u64,
    /// Total time for which the clock stopped, ns.
    stopped: u64,
    /// The stalls for which it stopped.
    pub(crate) stalls: Stalls,
}

impl Clock {
    /// A clock that advances `time`, for an emulator of `links`.
    pub(crate) fn new(time: RunTime, links: &[Link]) -> Self {
        let last = time.now();
        let pipes = links.iter().flat_map(|link| [&link.forward, &link.backward]);
        let fastest = pipes.filter_map(|pipe| pipe.rate.mean()).max();
        let fast = fastest.is_none_or(|rate| rate > FAST_LINK);
        Clock {
            time,
            last,
            reading_takes_time: false,
            stall_threshold: if fast { STALL_ON_FAST_LINKS_NS } else { STALL_NS },
            stopped: 0,
            stalls: Stalls::default(),
        }
    }

    /// Whether time is real or virtual.
    pub(crate) fn mode(&self) -> TimeMode {
        self.time.mode
    }

    /// The run's time, for other threads.
    pub(crate) fn time(&self) -> RunTime {
        self.time.clone()
    }

    /// Whether reading the clock takes virtual time; known from [`Self::start`] on.
    pub(crate) fn reading_takes_time(&self) -> bool {
        self.reading_takes_time
    }

    /// Starts the run's time: a busy machine takes tens of milliseconds until a new thread runs, which is not
    /// a stall of the run.
    ///
    /// Virtual time starts at the second whole second from now, so that every run starts at the same phase of
    /// the kernel's ticks.
    pub(crate) fn start(&mut self) {
        let now = sys::monotonic();
        self.reading_takes_time = self.time.mode == TimeMode::Virtual && sys::monotonic() > now;
        self.start_at(match self.time.mode {
            TimeMode::Real => now,
            TimeMode::Virtual => Instant::from_nanos((now.as_nanos() / SECOND_NS + 2) * SECOND_NS),
        });
    }

    fn start_at(&mut self, monotonic: Instant) {
        self.time.start.store(monotonic.as_nanos(), Ordering::Relaxed);
        self.last = Instant::ZERO;
    }

    /// The current time of the run.
    pub(crate) fn now(&mut self) -> Instant {
        match self.time.mode {
            TimeMode::Real => self.read(sys::monotonic(), 0),
            TimeMode::Virtual => self.last,
        }
    }

    /// The time after a wait of at most `planned` nanoseconds since the last reading. `remaining` is
    /// the part of this time for which, as the kernel reports, it did not wait.
    pub(crate) fn after_waiting(&mut self, planned: u64, remaining: u64) -> Instant {
        match self.time.mode {
            TimeMode::Real => self.read(sys::monotonic(), planned),
            TimeMode::Virtual if self.reading_takes_time => {
                self.last = self.time.now();
                self.last
            }
            TimeMode::Virtual => {
                self.last = self.last.later_by(Time::from_nanos(planned.saturating_sub(remaining)));
                self.last
            }
        }
    }

    /// Sets virtual time to the kernel's; returns the driver's lag behind it, ns.
    pub(crate) fn synchronize(&mut self) -> u64 {
        if self.time.mode == TimeMode::Real {
            return 0;
        }
        let lag = self.time.at(sys::monotonic()).saturating_since(self.last).as_nanos();
        self.last = self.last.later_by(Time::from_nanos(lag));
        lag
    }

    fn read(&mut self, monotonic: Instant, planned: u64) -> Instant {
        let expected = self.last.later_by(Time::from_nanos(planned));
        let over = self.time.at(monotonic).saturating_since(expected).as_nanos();
        if over > self.stall_threshold {
            self.stalls.add(expected, over);
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

    /// A clock at 0 with a stall threshold of 2 ms.
    fn clock(time: &RunTime) -> Clock {
        Clock {
            time: time.clone(),
            last: Instant::ZERO,
            reading_takes_time: false,
            stall_threshold: 2_000_000,
            stopped: 0,
            stalls: Stalls::default(),
        }
    }

    #[test]
    fn the_clock_stops_during_stalls() {
        let ms = Instant::from_millis;
        let time = RunTime { start: Arc::default(), stalled: Arc::default(), mode: TimeMode::Real };
        let mut clock = clock(&time);
        assert_eq!(clock.read(ms(20), ms(20).as_nanos()), ms(20));
        assert_eq!(clock.stalls.total, 0, "as planned");
        assert_eq!(clock.read(ms(290), ms(20).as_nanos()), ms(40));
        assert_eq!(clock.read(ms(300), 0), ms(40));
        assert_eq!(time.at(ms(300)), ms(40), "it stops for other threads too");
        assert_eq!((clock.stalls.total, clock.stalls.longest), (ms(260).as_nanos(), ms(250).as_nanos()));
        assert_eq!(
            clock.stalls.stored[0],
            Stall { at: ms(40), length: ms(250).as_nanos() },
            "it starts where the clock stopped"
        );
        assert_eq!(
            clock.read(Instant::from_nanos(300_100_000), 0),
            Instant::from_nanos(40_100_000),
            "a short delay is not a stall"
        );
    }

    #[test]
    fn a_late_start_of_the_thread_is_not_a_stall() {
        let ms = Instant::from_millis;
        let time = RunTime { start: Arc::default(), stalled: Arc::default(), mode: TimeMode::Real };
        let mut clock = clock(&time);
        clock.start_at(ms(80));
        assert_eq!((clock.read(ms(81), 0), clock.stalls.count), (ms(1), 0));
        assert_eq!((time.start(), time.at(ms(90))), (ms(80), ms(10)), "other threads' time starts with it");
    }
}
