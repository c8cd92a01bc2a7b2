//! The emulator's clock: the time since a run's start, less that for which the emulator stood still.
//!
//! When a machine's hypervisor, or work in its kernel that cannot be interrupted, stops the emulator for some milliseconds,
//! packets fall due meanwhile. Delivered all at once they would make a burst of ACKs, and that a burst of data, which fills
//! short queues: losses that no network made. So what was on the way goes on as if nothing had happened, at its proper
//! distances; round trips during a stall are longer by it.

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

/// A clock that stops when its reader does.
#[derive(Debug)]
pub(crate) struct Clock {
    /// CLOCK_MONOTONIC of time 0, later by all stalls.
    start: Time,
    last: Time,
    /// Longer is a stall, ns.
    patience: u64,
    pub(crate) stalls: Stalls,
}

impl Clock {
    /// `start`: CLOCK_MONOTONIC at time 0; `links`: what it is to carry.
    pub(crate) fn new(start: Time, links: &[Link]) -> Self {
        let last = Time(sys::monotonic().0.saturating_sub(start.0));
        let pipes = links.iter().flat_map(|link| [&link.forward, &link.backward]);
        let fastest = pipes.filter_map(|pipe| pipe.rate.mean()).max();
        let fast = fastest.is_none_or(|rate| rate > FAST);
        Clock { start, last, patience: if fast { STALL_WHEN_FAST } else { STALL }, stalls: Stalls::default() }
    }

    /// The time, after the reader meant to wait for at most so many nanoseconds since it last read the clock.
    pub(crate) fn after_waiting(&mut self, planned: u64) -> Time {
        self.read(sys::monotonic(), planned)
    }

    fn read(&mut self, monotonic: Time, planned: u64) -> Time {
        let now = monotonic.0.saturating_sub(self.start.0);
        let over = now.saturating_sub(self.last.0 + planned);
        if over > self.patience {
            self.start.0 += over;
            self.stalls.total += over;
            self.stalls.longest = self.stalls.longest.max(over);
        }
        self.last = Time(monotonic.0.saturating_sub(self.start.0));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_planned_does_not_count() {
        let ms = |ms: u64| Time(ms * 1_000_000);
        let mut clock = Clock { start: ms(0), last: ms(0), patience: ms(2).0, stalls: Stalls::default() };
        assert_eq!(clock.read(ms(20), ms(20).0), ms(20));
        assert_eq!(clock.stalls.total, 0, "as planned");
        assert_eq!(clock.read(ms(290), ms(20).0), ms(40));
        assert_eq!(clock.read(ms(300), 0), ms(40));
        assert_eq!((clock.stalls.total, clock.stalls.longest), (ms(260).0, ms(250).0));
        assert_eq!(clock.read(Time(300_100_000), 0), Time(40_100_000), "a little late is no stall");
    }
}
