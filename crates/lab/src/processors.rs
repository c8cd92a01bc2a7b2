//! Which processors a run's threads use, and how busy the processors that it may use are during the run.

use std::time::{Duration, Instant};

use units::Time;

use crate::{
    Error,
    cpu_times::{CpuTimes, CpuUse},
    sys,
};

/// Which processors the threads use: the emulator has a dedicated one if there are at least two and it holds
/// the busy-poll lock. `None`: the scheduler decides.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    pub(crate) driver: Option<Vec<usize>>,
    pub(crate) flows: Option<Vec<usize>>,
}

impl Placement {
    pub(crate) fn choose(has_busy_poll_lock: bool) -> Self {
        Placement::among(&os::allowed_cpus().unwrap_or_default(), has_busy_poll_lock)
    }

    fn among(cpus: &[usize], has_busy_poll_lock: bool) -> Self {
        match cpus {
            [others @ .., last] if has_busy_poll_lock && !others.is_empty() => {
                Placement { driver: Some(vec![*last]), flows: Some(others.to_vec()) }
            }
            _ => Placement { driver: None, flows: None },
        }
    }

    /// Whether the emulator may poll continuously. On the only processor it would starve the hosts.
    pub(crate) fn may_spin(&self) -> bool {
        self.driver.is_some()
    }
}

/// Restricts this thread to `cpus`, if any; if the kernel refuses, the scheduler decides.
pub(crate) fn move_to(cpus: Option<&[usize]>) {
    if let Some(cpus) = cpus {
        let _ = os::set_allowed_cpus(cpus);
    }
}

/// Measures the use of the processors that the run may use, second by second.
pub(crate) struct CpuMonitor {
    cpus: Vec<usize>,
    before: CpuTimes,
    at: Instant,
    spun_ns: u64,
    /// The processors' times, the wall clock, and this program's user time at the start.
    first: (CpuTimes, Instant, Time),
    /// This process, including its flows, was started at real-time priority.
    is_real_time: bool,
    /// The minimum idle share and the maximum stolen share so far; other programs' share of the whole time.
    pub(crate) result: CpuUse,
}

impl CpuMonitor {
    /// Begins with `cpus`; with all processors if it is empty.
    pub(crate) fn begin(cpus: &[usize]) -> Result<Self, Error> {
        let (before, at) = (CpuTimes::now(cpus)?, Instant::now());
        Ok(CpuMonitor {
            cpus: cpus.to_vec(),
            before,
            at,
            first: (before, at, sys::own_user_time()),
            spun_ns: 0,
            is_real_time: sys::is_real_time(),
            result: CpuUse { idle: 1.0, stolen: 0.0, others: 0.0 },
        })
    }

    /// Updates the result with the CPU use since the last update, if that was at least `min` ago. `spun_ns`
    /// is the time that the driver has spent polling with nothing to do.
    pub(crate) fn update(&mut self, spun_ns: u64, min: Duration) -> Result<(), Error> {
        let wall = self.at.elapsed();
        if wall < min {
            return Ok(());
        }
        let now = CpuTimes::now(&self.cpus)?;
        let spinning = Duration::from_nanos(spun_ns - self.spun_ns);
        let used = match self.is_real_time {
            true => now.with_nice_as_idle().since(&self.before.with_nice_as_idle(), wall, spinning),
            false => now.since(&self.before, wall, spinning),
        };
        self.result.idle = self.result.idle.min(used.idle);
        self.result.stolen = self.result.stolen.max(used.stolen);
        let (first, begun, own) = self.first;
        let own = sys::own_user_time().saturating_sub(own).to_duration();
        self.result.others = now.others_since(&first, begun.elapsed(), own);
        (self.before, self.at, self.spun_ns) = (now, Instant::now(), spun_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_polls_only_on_a_dedicated_processor() {
        let two = Placement::among(&[0, 1], true);
        assert_eq!((two.driver.as_deref(), two.flows.as_deref()), (Some(&[1][..]), Some(&[0][..])));
        assert!(two.may_spin());
        assert!(!Placement::among(&[0], true).may_spin(), "it would starve the hosts");
        assert!(!Placement::among(&[0, 1], false).may_spin() && !Placement::among(&[], true).may_spin());
    }
}
