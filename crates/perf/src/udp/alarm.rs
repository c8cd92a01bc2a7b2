//! Waits until an exact instant: sleeps until shortly before, and watches the clock for the rest.
//!
//! A sleep ends late, by how much depends on the machine and its load. The rest that is left to watching is what 19 of 20 of the
//! last sleeps kept to, so that not much more than needed is burnt, or a tenth of the wait, which costs little. (SO_TXTIME would do without, but only where the device's queueing
//! discipline is fq or etf.)

use super::sys;
use crate::Stop;

/// The rest is never shorter than this and never longer than that, ns.
const LEAST_REST: u64 = 5_000;
const MOST_REST: u64 = 250_000;
/// The share of a wait that may be watched in any case: one of so many.
const WATCHED: u64 = 10;
/// A shorter sleep is not worth its two switches, ns.
const LEAST_SLEEP: u64 = 5_000;
/// How soon a stop is seen, ns.
const MOST_SLEEP: u64 = 20_000_000;
/// What a rest that was too short grows by, and one that sufficed shrinks by, ns: they balance where one of 20 is too short. A
/// sleep that ended very late, as others had the processor, counts no more than any.
const GROWTH: u64 = 1_900;
const SHRINKING: u64 = 100;
/// What the rest shrinks by where it is longer than the wait and nothing is learnt, ns: so that a sleep is tried again.
const FORGETTING: u64 = 20;

/// How much of its waits a sender spends on watching the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watch {
    /// As much as it takes, all of it where datagrams follow each other faster than sleeps end: then it takes a whole processor.
    #[default]
    AsNeeded,
    /// At most a tenth: some 50 us late, but others on the same processor run on, and a busy machine lets it run when it wakes.
    Little,
    /// Nothing: sleeps end exactly, as in virtual time, where watching the clock would stop it.
    Never,
}

/// Waits for one instant after the other.
#[derive(Debug)]
pub(crate) struct Alarm {
    watch: Watch,
    rest: u64,
}

impl Alarm {
    pub(crate) fn new(watch: Watch) -> Self {
        sys::sleep_exactly();
        Alarm { watch, rest: MOST_REST / 2 }
    }

    /// Waits until CLOCK_MONOTONIC says `due` or `stop` is set; returns what the clock says then, ns. Does not wait where that
    /// is over.
    pub(crate) fn wait(&mut self, due: u64, stop: &Stop) -> u64 {
        let mut now = sys::monotonic_ns();
        let watched = (due.saturating_sub(now) / WATCHED).min(MOST_REST);
        let (rest, least_sleep) = match self.watch {
            Watch::AsNeeded => (self.rest.max(watched), LEAST_SLEEP),
            Watch::Little => (watched, 0),
            Watch::Never => (0, 0),
        };
        if now + rest + least_sleep >= due {
            self.rest = (self.rest - FORGETTING).max(LEAST_REST);
        }
        while now + rest + least_sleep < due && !stop.is_set() {
            let until = (due - rest).min(now + MOST_SLEEP);
            sys::sleep_until(until);
            now = sys::monotonic_ns();
            self.learn(now.saturating_sub(until));
        }
        while now < due && !stop.is_set() {
            std::hint::spin_loop();
            now = sys::monotonic_ns();
        }
        now
    }

    /// A sleep ended so late, ns.
    fn learn(&mut self, late: u64) {
        let rest = if late > self.rest { self.rest + GROWTH } else { self.rest - SHRINKING };
        self.rest = rest.clamp(LEAST_REST, MOST_REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_early() {
        for watch in [Watch::AsNeeded, Watch::Little] {
            let (stop, mut alarm) = (Stop::default(), Alarm::new(watch));
            let start = sys::monotonic_ns();
            for due in (1..=200).map(|i| start + i * 500_000) {
                assert!(alarm.wait(due, &stop) >= due);
            }
            stop.set();
            assert!(alarm.wait(u64::MAX / 2, &stop) < start + 10_000_000_000, "a stop ends it");
        }
    }

    #[test]
    fn the_rest_follows_what_sleeps_show() {
        let mut alarm = Alarm { watch: Watch::AsNeeded, rest: LEAST_REST };
        // Evenly from 0 to 100 us late, and each hundredth by 10 ms.
        (0..10_000u64).for_each(|i| alarm.learn(if i % 100 == 0 { 10_000_000 } else { i * 7_919 % 100_000 }));
        assert!((88_000..102_000).contains(&alarm.rest), "{}", alarm.rest);
        (0..2_000).for_each(|_| alarm.learn(1_000));
        assert_eq!(alarm.rest, LEAST_REST);
        (0..200).for_each(|_| alarm.learn(1_000_000));
        assert_eq!(alarm.rest, MOST_REST);
        // Waits too short to sleep teach nothing, but are not watched for ever.
        let stop = Stop::default();
        alarm.wait(sys::monotonic_ns() + 1_000, &stop);
        assert_eq!(alarm.rest, MOST_REST - FORGETTING);
    }
}
