//! The emulator's clock: the time since a run's start, less that for which the emulator stood still.
//!
//! When a machine's hypervisor, or work in its kernel that cannot be interrupted, stops the emulator for some milliseconds,
//! packets fall due meanwhile. Delivered all at once they would make a burst of ACKs, and that a burst of data, which fills
//! short queues: losses that no network made. So what was on the way goes on as if nothing had happened, at its proper
//! distances; round trips during a stall are longer by it. A run goes by this clock altogether: its rows, when its flows begin
//! and end, and what udp flows send. A stall then takes nothing from a goodput.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use scenario::Link;
use units::{BitRate, Time};

use crate::sys;

/// A turn of the emulator that takes so much longer than planned was interrupted, ns.
const STALL: u64 = 300_000;
/// The same where a link is faster than [`FAST`]: there many turns are long because there is much to do. What they held up
/// is caught up with, or the links' rates would suffer.
const STALL_WHEN_FAST: u64 = 2_000_000;
const FAST: BitRate = BitRate(1_000_000_000);

/// Time for which the thread did not run although it wanted to: the machine was stopped, or others had it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stalls {
    /// All of them together, nanoseconds.
    pub(crate) total: u64,
    /// The longest.
    pub(crate) longest: u64,
}

/// A run's time for those who do not drive it. It may go back by a stall that the driver has only just noticed.
#[derive(Debug, Clone)]
pub(crate) struct RunTime {
    /// CLOCK_MONOTONIC at the run's start.
    start: Time,
    /// All stalls so far together, nanoseconds.
    stalled: Arc<AtomicU64>,
}

impl RunTime {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        RunTime { start: sys::monotonic(), stalled: Arc::default() }
    }

    /// CLOCK_MONOTONIC at the run's start.
    pub(crate) fn start(&self) -> Time {
        self.start
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
        Time(monotonic.0.saturating_sub(self.start.0 + self.stalled.load(Ordering::Relaxed)))
    }
}

/// A clock that stops when its reader does.
#[derive(Debug)]
pub(crate) struct Clock {
    time: RunTime,
    last: Time,
    /// Longer is a stall, ns.
    patience: u64,
    pub(crate) stalls: Stalls,
}

impl Clock {
    /// The clock that makes `time`; `links`: what it is to carry.
    pub(crate) fn new(time: RunTime, links: &[Link]) -> Self {
        let last = time.now();
        let pipes = links.iter().flat_map(|link| [&link.forward, &link.backward]);
        let fastest = pipes.filter_map(|pipe| pipe.rate.mean()).max();
        let fast = fastest.is_none_or(|rate| rate > FAST);
        Clock { time, last, patience: if fast { STALL_WHEN_FAST } else { STALL }, stalls: Stalls::default() }
    }

    /// What it tells others.
    pub(crate) fn time(&self) -> RunTime {
        self.time.clone()
    }

    /// The time, after the reader meant to wait for at most so many nanoseconds since it last read the clock.
    pub(crate) fn after_waiting(&mut self, planned: u64) -> Time {
        self.read(sys::monotonic(), planned)
    }

    fn read(&mut self, monotonic: Time, planned: u64) -> Time {
        let over = self.time.at(monotonic).0.saturating_sub(self.last.0 + planned);
        if over > self.patience {
            self.stalls.total += over;
            self.time.stalled.store(self.stalls.total, Ordering::Relaxed);
            self.stalls.longest = self.stalls.longest.max(over);
        }
        self.last = self.time.at(monotonic);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_planned_does_not_count() {
        let ms = |ms: u64| Time(ms * 1_000_000);
        let time = RunTime { start: ms(0), stalled: Arc::default() };
        let mut clock =
            Clock { time: time.clone(), last: ms(0), patience: ms(2).0, stalls: Stalls::default() };
        assert_eq!(clock.read(ms(20), ms(20).0), ms(20));
        assert_eq!(clock.stalls.total, 0, "as planned");
        assert_eq!(clock.read(ms(290), ms(20).0), ms(40));
        assert_eq!(clock.read(ms(300), 0), ms(40));
        assert_eq!(time.at(ms(300)), ms(40), "others see it too");
        assert_eq!((clock.stalls.total, clock.stalls.longest), (ms(260).0, ms(250).0));
        assert_eq!(clock.read(Time(300_100_000), 0), Time(40_100_000), "a little late is no stall");
    }
}
