//! How the emulator's thread waits, and how it yields the processor to other programs.

use units::{Instant, Time};

/// Waits shorter than this are spent polling, ns: a sleep would end too late (timers of a virtual machine
/// were 20 to 45 us late).
const MIN_SLEEP_NS: u64 = 40_000;
/// Maximum sleep, ns: a stop is detected within it.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// At real-time priority the thread leaves 1/16 of the time to other programs: a little more than the 1/20
/// for which the kernel would otherwise stop the thread in one piece (sched_rt_runtime_us; from Linux 6.12 on
/// the fair server). It pauses even if no other program is ready to run: on 6.18, skipping those pauses made
/// one packet in a hundred 20 ms late.
const PAUSE_DIVISOR: u64 = 16;
/// Requested length of a pause, ns. A pause lasts some 15 us longer, and the kernel charges those to the
/// thread. Shorter pauses would be so frequent that a third of all packets would wait for one.
pub(crate) const PAUSE_NS: u64 = 40_000;
/// A voluntary pause does not begin this shortly before a departure, ns.
const MIN_TIME_TO_DEPARTURE_NS: u64 = 80_000;
/// Pause time owed from which the thread pauses if nothing is due soon, ns.
const PAUSE_DEBT_NS: u64 = 40_000;
/// Pause time owed from which the thread pauses in any case, ns.
const MAX_PAUSE_DEBT_NS: u64 = 100_000;
/// Interval at which the thread's processor time is read, ns.
const METER_INTERVAL_NS: u64 = 50_000;

/// How to wait for the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait for input for at most this many nanoseconds; 0 checks without waiting.
    Poll(u64),
    /// Let other programs run for a moment, even if input arrives.
    Pause,
}

/// Decides when the thread yields the processor to other programs.
///
/// It counts the time that the kernel did not charge to the thread, not how long a wait took.
pub(crate) struct Budget {
    may_spin: bool,
    real_time: bool,
    /// When the thread's processor time was last read, and its value.
    metered: u64,
    used: u64,
    /// When pause time began to accrue, and the pause time taken since then.
    begin: u64,
    paused: u64,
}

impl Budget {
    /// `used` is the thread's processor time.
    pub(crate) fn new(now: Instant, used: Time, may_spin: bool, real_time: bool) -> Self {
        Budget {
            may_spin,
            real_time,
            metered: now.as_nanos(),
            used: used.as_nanos(),
            begin: now.as_nanos(),
            paused: 0,
        }
    }

    /// How to wait for the next event, which is due at `due`. Input can arrive from `latest` on.
    pub(crate) fn wait(&self, now: Instant, due: Instant, latest: Instant) -> Wait {
        let wait = due.saturating_since(now).as_nanos().min(MAX_SLEEP_NS);
        let owed = ((now.as_nanos() - self.begin) / PAUSE_DIVISOR).saturating_sub(self.paused);
        let must_pause =
            owed >= MAX_PAUSE_DEBT_NS || (owed >= PAUSE_DEBT_NS && wait > MIN_TIME_TO_DEPARTURE_NS);
        match (self.real_time && must_pause, self.may_spin) {
            (true, _) => Wait::Pause,
            (false, true) => {
                Wait::Poll(wait.min(latest.saturating_since(now).as_nanos()).saturating_sub(MIN_SLEEP_NS))
            }
            (false, false) => Wait::Poll(wait),
        }
    }

    pub(crate) fn meter_is_due(&self, now: Instant) -> bool {
        now.as_nanos() - self.metered >= METER_INTERVAL_NS
    }

    /// Updates the pause time taken from the processor time that the thread has `used` so far.
    pub(crate) fn meter(&mut self, now: Instant, used: Time) {
        self.paused += (now.as_nanos() - self.metered).saturating_sub(used.as_nanos() - self.used);
        (self.metered, self.used) = (now.as_nanos(), used.as_nanos());
        // A long pause earns no credit for later.
        if self.paused > (now.as_nanos() - self.begin) / PAUSE_DIVISOR {
            (self.begin, self.paused) = (now.as_nanos(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Instant = Instant::ZERO;

    #[test]
    fn sleeps_until_just_before_the_departure_then_polls() {
        let budget = Budget::new(ZERO, Time::ZERO, true, true);
        assert_eq!(budget.wait(ZERO, Instant::from_millis(1), Instant::from_millis(1)), Wait::Poll(960_000));
        assert_eq!(
            budget.wait(ZERO, Instant::from_nanos(30_000), Instant::from_nanos(30_000)),
            Wait::Poll(0)
        );
        assert_eq!(
            budget.wait(ZERO, Instant::NEVER, Instant::NEVER),
            Wait::Poll(MAX_SLEEP_NS - MIN_SLEEP_NS)
        );
        assert_eq!(budget.wait(ZERO, Instant::from_millis(1), ZERO), Wait::Poll(0), "input is near");
        let sleeper = Budget::new(ZERO, Time::ZERO, false, true);
        assert_eq!(
            sleeper.wait(ZERO, Instant::from_nanos(30_000), Instant::from_nanos(30_000)),
            Wait::Poll(30_000)
        );
        // A thread that may not poll must also pause if it always has work.
        assert_eq!(sleeper.wait(Instant::from_nanos(1_600_000), ZERO, ZERO), Wait::Pause);
    }

    #[test]
    fn pauses_avoid_departures_until_too_much_is_owed() {
        let mut budget = Budget::new(ZERO, Time::ZERO, true, true);
        // 40 us are owed after 640 us: a pause if nothing is due soon, in any case only at 100 us.
        let wait_at = |now, due| budget.wait(Instant::from_nanos(now), Instant::from_nanos(due), ZERO);
        assert_eq!(wait_at(639_000, 900_000), Wait::Poll(0));
        assert_eq!(wait_at(640_000, 900_000), Wait::Pause);
        assert_eq!(wait_at(640_000, 690_000), Wait::Poll(0));
        assert_eq!(budget.wait(Instant::from_nanos(1_600_000), ZERO, ZERO), Wait::Pause);
        budget.meter(Instant::from_nanos(1_630_000), Time::from_nanos(1_600_000));
        assert_eq!(budget.wait(Instant::from_nanos(1_630_000), ZERO, ZERO), Wait::Poll(0));
        budget.real_time = false;
        let wait = budget.wait(Instant::from_millis(9), ZERO, ZERO);
        assert_eq!(wait, Wait::Poll(0), "at ordinary priority the scheduler runs other programs anyway");
    }

    #[test]
    fn a_long_pause_earns_no_credit() {
        let mut budget = Budget::new(ZERO, Time::ZERO, true, true);
        budget.meter(Instant::from_millis(20), Time::from_millis(1));
        assert_eq!(
            budget.wait(Instant::from_nanos(20_640_000), Instant::from_nanos(20_900_000), ZERO),
            Wait::Pause
        );
    }
}
