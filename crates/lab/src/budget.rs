//! How the emulator's thread waits, and how it lets others have their part of the processor.

use units::Time;

/// Waits shorter than this are spent polling: a sleep would end too late (timers of a virtual machine
/// were 20 to 45 us late).
const SPIN: u64 = 40_000;
/// Longest sleep, so that a stop is seen soon.
const LONGEST_SLEEP: u64 = 20_000_000;
/// At real-time priority one part in so many of the time is for others: a little more than the twentieth that the kernel
/// would take otherwise, in one piece (sched_rt_runtime_us; from Linux 6.12 on the fair server). Not even rest that nobody
/// wants can be left out: on 6.18 that made one packet in a hundred 20 ms late.
const REST_SHARE: u64 = 16;
/// What a nap asks for. It takes some 15 us more, and the kernel charges those to the thread: shorter naps would have to be so
/// many that a third of all packets met one.
pub(crate) const NAP: u64 = 40_000;
/// A nap is not begun so shortly before a departure, unless by force.
const NAP_ROOM: u64 = 80_000;
/// So much rest owed is taken when nothing is due soon, or else later by force.
const NAP_DEBT: u64 = 40_000;
const FORCED_DEBT: u64 = 100_000;
/// How often the thread's processor time is read.
const METER_INTERVAL: u64 = 50_000;
/// How to wait for the next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For input, and at most so long; 0 only looks.
    Poll(u64),
    /// Let others run for a moment, whatever comes.
    Nap,
}

/// Sees to it that others get their part of the processor.
///
/// What counts is the time that the kernel did not charge to the thread, not how long a wait took.
pub(crate) struct Budget {
    may_spin: bool,
    real_time: bool,
    /// When the thread's processor time was last read, and what it was.
    metered: u64,
    used: u64,
    /// Rest owed since `begin`, and taken.
    begin: u64,
    rested: u64,
}

impl Budget {
    /// `used` is the thread's processor time.
    pub(crate) fn new(now: Time, used: Time, may_spin: bool, real_time: bool) -> Self {
        Budget { may_spin, real_time, metered: now.0, used: used.0, begin: now.0, rested: 0 }
    }

    /// How to wait now, with something due at `due`, and input expected from `latest` on at the latest.
    pub(crate) fn wait(&self, now: Time, due: Time, latest: Time) -> Wait {
        let wait = due.0.saturating_sub(now.0).min(LONGEST_SLEEP);
        let owed = ((now.0 - self.begin) / REST_SHARE).saturating_sub(self.rested);
        let nap = owed >= FORCED_DEBT || (owed >= NAP_DEBT && wait > NAP_ROOM);
        match (self.real_time && nap, self.may_spin) {
            (true, _) => Wait::Nap,
            (false, true) => Wait::Poll(wait.min(latest.0.saturating_sub(now.0)).saturating_sub(SPIN)),
            (false, false) => Wait::Poll(wait),
        }
    }

    pub(crate) fn meter_is_due(&self, now: Time) -> bool {
        now.0 - self.metered >= METER_INTERVAL
    }

    /// Takes in how much processor time the thread has `used` so far.
    pub(crate) fn meter(&mut self, now: Time, used: Time) {
        self.rested += (now.0 - self.metered).saturating_sub(used.0 - self.used);
        (self.metered, self.used) = (now.0, used.0);
        // Rest is not saved up for later.
        if self.rested > (now.0 - self.begin) / REST_SHARE {
            (self.begin, self.rested) = (now.0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Time = Time(0);

    #[test]
    fn sleeps_until_just_before_the_departure_then_polls() {
        let budget = Budget::new(ZERO, ZERO, true, true);
        assert_eq!(budget.wait(ZERO, Time(1_000_000), Time(1_000_000)), Wait::Poll(960_000));
        assert_eq!(budget.wait(ZERO, Time(30_000), Time(30_000)), Wait::Poll(0));
        assert_eq!(budget.wait(ZERO, Time(u64::MAX), Time(u64::MAX)), Wait::Poll(LONGEST_SLEEP - SPIN));
        assert_eq!(budget.wait(ZERO, Time(1_000_000), ZERO), Wait::Poll(0), "input is near");
        let shy = Budget::new(ZERO, ZERO, false, true);
        assert_eq!(shy.wait(ZERO, Time(30_000), Time(30_000)), Wait::Poll(30_000));
        // Whoever may not poll must rest all the same when there is always something to do.
        assert_eq!(shy.wait(Time(1_600_000), ZERO, ZERO), Wait::Nap);
    }

    #[test]
    fn rest_is_taken_when_it_does_least_harm() {
        let mut budget = Budget::new(ZERO, ZERO, true, true);
        // 40 us are owed after 640 us: a nap if nothing is due soon, by force only at 100 us.
        let at_once = |now, due| budget.wait(Time(now), Time(due), ZERO);
        assert_eq!(at_once(639_000, 900_000), Wait::Poll(0));
        assert_eq!(at_once(640_000, 900_000), Wait::Nap);
        assert_eq!(at_once(640_000, 690_000), Wait::Poll(0));
        assert_eq!(budget.wait(Time(1_600_000), ZERO, ZERO), Wait::Nap);
        budget.meter(Time(1_630_000), Time(1_600_000));
        assert_eq!(budget.wait(Time(1_630_000), ZERO, ZERO), Wait::Poll(0));
        budget.real_time = false;
        let wait = budget.wait(Time(9_000_000), ZERO, ZERO);
        assert_eq!(wait, Wait::Poll(0), "at ordinary priority others get theirs anyway");
    }

    #[test]
    fn long_rest_is_not_saved_up() {
        let mut budget = Budget::new(ZERO, ZERO, true, true);
        budget.meter(Time(20_000_000), Time(1_000_000));
        assert_eq!(budget.wait(Time(20_640_000), Time(20_900_000), ZERO), Wait::Nap);
    }
}
