//! Waits until an exact instant: sleeps until shortly before, then spins on the clock.
//!
//! A sleep ends late; by how much depends on the machine and its load. The spin time is the lateness that 19
//! of the last 20 sleeps did not exceed, so that little processor time is wasted; or a tenth of the wait if
//! that is longer, which costs little. (SO_TXTIME would need no spinning, but requires that the device's
//! queueing discipline is fq or etf.)

use crate::Stop;

/// Limits of the spin time, ns.
const MIN_SPIN_NS: u64 = 5_000;
const MAX_SPIN_NS: u64 = 250_000;
/// The part of a wait that may always be spent spinning: 1 / this.
const SPIN_DIVISOR: u64 = 10;
/// A shorter sleep is not worth its two context switches, ns.
const MIN_SLEEP_NS: u64 = 5_000;
/// Maximum time until a stop takes effect, ns.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// How much the spin time grows after a sleep that ended later, and shrinks after one that did not, ns: they
/// balance if 1 of 20 sleeps ends later. A sleep that ended very late, because other threads had the
/// processor, has no more weight than any other.
const GROWTH_NS: u64 = 1_900;
const SHRINK_NS: u64 = 100;
/// How much the spin time shrinks when it is longer than the wait and no sleep is observed, ns: so that a
/// sleep is tried again.
const DECAY_NS: u64 = 20;

/// The share of its waits that a sender spends spinning on the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpinPolicy {
    /// As much as the precision requires. If datagrams are due at shorter intervals than a sleep lasts, the
    /// sender never sleeps and uses a whole processor.
    #[default]
    AsNeeded,
    /// At most a tenth of the waits: datagrams are some 50 us late, but other threads on the same processor
    /// can run, and the scheduler of a busy machine runs the sender when it wakes up.
    Limited,
    /// No spinning. For virtual time, in which sleeps end exactly and spinning would stop the clock.
    Never,
}

/// Waits for one instant after another.
#[derive(Debug)]
pub struct PreciseTimer {
    policy: SpinPolicy,
    spin: u64,
}

impl PreciseTimer {
    /// Creates a timer; also makes this thread's sleeps exact.
    pub fn new(spin_policy: SpinPolicy) -> Self {
        os::reduce_timer_slack();
        PreciseTimer { policy: spin_policy, spin: MAX_SPIN_NS / 2 }
    }

    /// Waits until CLOCK_MONOTONIC reaches `due` or `stop` is set; returns the clock's time, ns. Does not
    /// wait if `due` is in the past.
    pub fn wait(&mut self, due: u64, stop: &Stop) -> u64 {
        let mut now = os::monotonic_ns();
        let affordable = (due.saturating_sub(now) / SPIN_DIVISOR).min(MAX_SPIN_NS);
        let (spin, min_sleep) = match self.policy {
            SpinPolicy::AsNeeded => (self.spin.max(affordable), MIN_SLEEP_NS),
            SpinPolicy::Limited => (affordable, 0),
            SpinPolicy::Never => (0, 0),
        };
        if now + spin + min_sleep >= due {
            self.spin = (self.spin - DECAY_NS).max(MIN_SPIN_NS);
        }
        while now + spin + min_sleep < due && !stop.is_set() {
            let until = (due - spin).min(now + MAX_SLEEP_NS);
            os::sleep_until(until);
            now = os::monotonic_ns();
            self.learn(now.saturating_sub(until));
        }
        while now < due && !stop.is_set() {
            std::hint::spin_loop();
            now = os::monotonic_ns();
        }
        now
    }

    /// Adapts the spin time to a sleep that ended `late` ns late.
    fn learn(&mut self, late: u64) {
        let spin = if late > self.spin { self.spin + GROWTH_NS } else { self.spin - SHRINK_NS };
        self.spin = spin.clamp(MIN_SPIN_NS, MAX_SPIN_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_ends_early() {
        for watch in [SpinPolicy::AsNeeded, SpinPolicy::Limited] {
            let (stop, mut timer) = (Stop::default(), PreciseTimer::new(watch));
            let start = os::monotonic_ns();
            for due in (1..=200).map(|i| start + i * 500_000) {
                assert!(timer.wait(due, &stop) >= due);
            }
            stop.set();
            assert!(timer.wait(u64::MAX / 2, &stop) < start + 10_000_000_000, "a stop ends it");
        }
    }

    #[test]
    fn the_spin_time_follows_the_lateness_of_sleeps() {
        let mut timer = PreciseTimer { policy: SpinPolicy::AsNeeded, spin: MIN_SPIN_NS };
        // Evenly distributed from 0 to 100 us late, and 1 of 100 by 10 ms.
        (0..10_000u64).for_each(|i| timer.learn(if i % 100 == 0 { 10_000_000 } else { i * 7_919 % 100_000 }));
        assert!((88_000..102_000).contains(&timer.spin), "{}", timer.spin);
        (0..2_000).for_each(|_| timer.learn(1_000));
        assert_eq!(timer.spin, MIN_SPIN_NS);
        (0..200).for_each(|_| timer.learn(1_000_000));
        assert_eq!(timer.spin, MAX_SPIN_NS);
        // Waits too short to sleep give no observation, but the spin time still shrinks.
        let stop = Stop::default();
        timer.wait(os::monotonic_ns() + 1_000, &stop);
        assert_eq!(timer.spin, MAX_SPIN_NS - DECAY_NS);
    }
}
