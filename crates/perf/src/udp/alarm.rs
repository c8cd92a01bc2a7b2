//! Waits until an exact instant: sleeps until shortly before, and watches the clock for the rest.
//!
//! A sleep ends late, by how much depends on the machine and its load. The rest that is left to watching follows what the last
//! sleeps showed, so that nothing more than needed is burnt. (SO_TXTIME would do without, but only where the device's queueing
//! discipline is fq or etf.)

use super::sys;
use crate::Stop;

/// The rest is never shorter than this and never longer than that, ns.
const LEAST_REST: u64 = 5_000;
const MOST_REST: u64 = 150_000;
/// A shorter sleep is not worth its two switches, ns.
const LEAST_SLEEP: u64 = 5_000;
/// How soon a stop is seen, ns.
const MOST_SLEEP: u64 = 20_000_000;
/// A rest that sufficed shrinks by this share at each sleep: a hundred sleeps halve it.
const SHRINK: u64 = 144;

/// Waits for one instant after the other.
#[derive(Debug)]
pub(super) struct Alarm {
    rest: u64,
}

impl Alarm {
    pub(super) fn new() -> Self {
        sys::sleep_exactly();
        Alarm { rest: MOST_REST / 2 }
    }

    /// Waits until CLOCK_MONOTONIC says `due` or `stop` is set; returns what the clock says then, ns. Does not wait where that
    /// is over.
    pub(super) fn wait(&mut self, due: u64, stop: &Stop) -> u64 {
        let mut now = sys::monotonic_ns();
        while now + self.rest + LEAST_SLEEP < due && !stop.is_set() {
            let until = (due - self.rest).min(now + MOST_SLEEP);
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
        let shrunk = self.rest - self.rest / SHRINK;
        self.rest = shrunk.max(late + late / 4).clamp(LEAST_REST, MOST_REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_early_and_seldom_late() {
        let (stop, mut alarm) = (Stop::default(), Alarm::new());
        let start = sys::monotonic_ns();
        let mut late: Vec<u64> = (1..=200)
            .map(|i| {
                let due = start + i * 500_000;
                let now = alarm.wait(due, &stop);
                assert!(now >= due);
                now - due
            })
            .collect();
        late.sort_unstable();
        // A busy machine may be late at times, not always.
        assert!(late[50] < 500_000, "{late:?}");
        stop.set();
        assert!(alarm.wait(u64::MAX / 2, &stop) < start + 10_000_000_000, "a stop ends it");
    }

    #[test]
    fn the_rest_follows_what_sleeps_show() {
        let mut alarm = Alarm { rest: LEAST_REST };
        alarm.learn(40_000);
        assert_eq!(alarm.rest, 50_000);
        (0..100).for_each(|_| alarm.learn(1_000));
        assert!((24_000..27_000).contains(&alarm.rest), "{}", alarm.rest);
        (0..1000).for_each(|_| alarm.learn(1_000));
        assert_eq!(alarm.rest, LEAST_REST);
        alarm.learn(1_000_000);
        assert_eq!(alarm.rest, MOST_REST);
    }
}
