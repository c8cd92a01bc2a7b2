//! Which processors a run's threads use, and how busy the machine's processors are meanwhile.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use units::Time;

use crate::{
    Error,
    driver::Shared,
    machine::{CpuTimes, CpuUse},
    sys,
};

/// Which processors the threads use: the emulator has one for itself where there are two and no other
/// lab has done the same.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    pub(crate) driver: Option<Vec<usize>>,
    pub(crate) flows: Option<Vec<usize>>,
}

impl Placement {
    pub(crate) fn choose(alone: bool) -> Self {
        Placement::among(&sys::allowed_cpus().unwrap_or_default(), alone)
    }

    fn among(cpus: &[usize], alone: bool) -> Self {
        match cpus {
            [others @ .., last] if alone && !others.is_empty() => {
                Placement { driver: Some(vec![*last]), flows: Some(others.to_vec()) }
            }
            _ => Placement { driver: None, flows: None },
        }
    }

    /// Whether the emulator may poll all the time. On the only processor it would keep the hosts from theirs.
    pub(crate) fn may_spin(&self) -> bool {
        self.driver.is_some()
    }
}

/// Moves this thread to `cpus`, if any; where that is refused the scheduler places it.
pub(crate) fn move_to(cpus: Option<&[usize]>) {
    if let Some(cpus) = cpus {
        let _ = sys::set_allowed_cpus(cpus);
    }
}

/// Follows how the machine's processors are used, second by second.
pub(crate) struct CpuWatch {
    before: CpuTimes,
    at: Instant,
    spun: u64,
    /// When the watch began: the machine's times, when, and this program's.
    first: (CpuTimes, Instant, Time),
    /// This process, flows and all, was begun at real-time priority.
    outranks_others: bool,
    /// The smallest idle share and the largest stolen share so far; other programs' share of the whole time.
    pub(crate) result: CpuUse,
}

impl CpuWatch {
    pub(crate) fn begin() -> Result<Self, Error> {
        let (before, at) = (CpuTimes::now()?, Instant::now());
        Ok(CpuWatch {
            before,
            at,
            first: (before, at, sys::own_user_time()),
            spun: 0,
            outranks_others: sys::is_real_time(),
            result: CpuUse { idle: 1.0, stolen: 0.0, others: 0.0 },
        })
    }

    /// Takes the use since the last time, if that is at least `least` ago.
    pub(crate) fn take(&mut self, shared: &Shared, least: Duration) -> Result<(), Error> {
        let wall = self.at.elapsed();
        if wall < least {
            return Ok(());
        }
        let (now, spun) = (CpuTimes::now()?, shared.spun.load(Ordering::Relaxed));
        let spinning = Duration::from_nanos(spun - self.spun);
        let used = match self.outranks_others {
            true => now.with_nice_as_idle().since(&self.before.with_nice_as_idle(), wall, spinning),
            false => now.since(&self.before, wall, spinning),
        };
        self.result.idle = self.result.idle.min(used.idle);
        self.result.stolen = self.result.stolen.max(used.stolen);
        let (first, begun, own) = self.first;
        let own = Duration::from_nanos(sys::own_user_time().0.saturating_sub(own.0));
        self.result.others = now.others_since(&first, begun.elapsed(), own);
        (self.before, self.at, self.spun) = (now, Instant::now(), spun);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_polls_only_on_a_processor_of_its_own() {
        let two = Placement::among(&[0, 1], true);
        assert_eq!((two.driver.as_deref(), two.flows.as_deref()), (Some(&[1][..]), Some(&[0][..])));
        assert!(two.may_spin());
        assert!(!Placement::among(&[0], true).may_spin(), "it would starve the hosts");
        assert!(!Placement::among(&[0, 1], false).may_spin() && !Placement::among(&[], true).may_spin());
    }
}
