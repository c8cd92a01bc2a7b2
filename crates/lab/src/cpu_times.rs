//! Processor time of the processors that a run may use.

use std::{fs, io, time::Duration};

use crate::{Error, error::Attempted};

/// Processor time of some processors since boot, in clock ticks (proc(5), /proc/stat).
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTimes {
    total: u64,
    idle: u64,
    /// In user mode.
    user: u64,
    /// In user mode at a positive nice value.
    nice: u64,
    stolen: u64,
    cpus: u64,
}

/// Use of processor time, as shares of these processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuUse {
    pub(crate) idle: f64,
    /// Used by the hypervisor for other virtual machines.
    pub(crate) stolen: f64,
    /// Used by other programs of this machine.
    pub(crate) others: f64,
}

impl CpuTimes {
    /// The times of `cpus`: those of a process in a container, or started by taskset(1), can be busy on an
    /// idle machine. All processors count if it is empty or /proc/stat lacks one of them: containers can
    /// number them differently.
    pub(crate) fn now(cpus: &[usize]) -> Result<Self, Error> {
        let text = fs::read_to_string("/proc/stat").attempted(|| "read /proc/stat".into())?;
        Self::of(cpus, &text).or_else(|| Self::parse(&text)).ok_or_else(|| Error::System {
            attempted: "parse /proc/stat".into(),
            source: io::Error::from(io::ErrorKind::InvalidData),
        })
    }

    /// The times of `cpus` together; `None` unless each has a line.
    fn of(cpus: &[usize], text: &str) -> Option<Self> {
        let of_one = |cpu: &usize| {
            let name = format!("cpu{cpu} ");
            text.lines().find_map(|line| Self::parse_line(line, &name))
        };
        let each = cpus.iter().map(of_one).collect::<Option<Vec<CpuTimes>>>()?;
        each.into_iter().reduce(|sum, one| CpuTimes {
            total: sum.total + one.total,
            idle: sum.idle + one.idle,
            user: sum.user + one.user,
            nice: sum.nice + one.nice,
            stolen: sum.stolen + one.stolen,
            cpus: sum.cpus + one.cpus,
        })
    }

    /// The times of all processors.
    fn parse(text: &str) -> Option<Self> {
        let cpus = text.lines().skip(1).take_while(|l| l.starts_with("cpu")).count() as u64;
        Some(CpuTimes { cpus, ..Self::parse_line(text.lines().next()?, "cpu ")? })
    }

    /// The times in a line that begins with `name`, as those of one processor.
    fn parse_line(line: &str, name: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.strip_prefix(name)?.split_whitespace().flat_map(str::parse).collect();
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let [user, nice, _, idle, iowait, _, _, stolen] = numbers.get(..8)? else { return None };
        Some(CpuTimes {
            total: numbers[..8].iter().sum(),
            idle: idle + iowait,
            user: user + nice,
            nice: *nice,
            stolen: *stolen,
            cpus: 1,
        })
    }

    /// These times with nice time counted as idle: a real-time process preempts programs at a low priority at
    /// once.
    pub(crate) fn with_nice_as_idle(self) -> Self {
        CpuTimes { idle: self.idle + self.nice, ..self }
    }

    /// The share of all processors that other programs used in user mode since `before`, if this program used
    /// `own`.
    pub(crate) fn others_since(&self, before: &CpuTimes, wall: Duration, own: Duration) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1) as f64;
        let own = own.as_secs_f64() / (wall.as_secs_f64() * self.cpus.max(1) as f64).max(1e-9);
        (self.user.saturating_sub(before.user) as f64 / total - own).clamp(0.0, 1.0)
    }

    /// The use of processor time since `before`; `spun` is the time that this program spent busy-waiting.
    pub(crate) fn since(&self, before: &CpuTimes, wall: Duration, spun: Duration) -> CpuUse {
        let total = self.total.saturating_sub(before.total).max(1) as f64;
        let spun = spun.as_secs_f64() / (wall.as_secs_f64() * self.cpus.max(1) as f64).max(1e-9);
        CpuUse {
            idle: (self.idle.saturating_sub(before.idle) as f64 / total + spun).min(1.0),
            stolen: self.stolen.saturating_sub(before.stolen) as f64 / total,
            others: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_waiting_counts_as_idle_time() {
        let before = CpuTimes::parse("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0\ncpu1 0\nintr 1\n").unwrap();
        let after = CpuTimes::parse("cpu  80 0 20 90 0 0 0 10 0 0\ncpu0 0\ncpu1 0\nintr 1\n").unwrap();
        let used = after.since(&before, Duration::from_secs(1), Duration::from_millis(400));
        assert!((used.idle - (0.45 + 0.2)).abs() < 1e-9, "{used:?}");
        assert!((used.stolen - 0.05).abs() < 1e-9);
    }

    #[test]
    fn only_the_processors_that_the_run_may_use_count() {
        let text = "cpu  400 0 0 3600 0 0 0 0\ncpu0 0 0 0 1000 0 0 0 0\ncpu1 100 0 0 900 0 0 0 0\n\
                    cpu10 300 0 0 700 0 0 0 0\ncpu11 0 0 0 1000 0 0 0 0\nintr 1\n";
        let idle = |cpus: &[usize]| {
            let times = CpuTimes::of(cpus, text).or_else(|| CpuTimes::parse(text)).unwrap();
            (times.idle as f64 / times.total as f64, times.cpus)
        };
        assert_eq!(idle(&[1, 10]), (0.8, 2));
        for all in [&[0, 1, 10, 11][..], &[1, 7], &[]] {
            assert_eq!(idle(all), (0.9, 4), "{all:?}: no line of a processor 7");
        }
    }

    #[test]
    fn use_of_other_programs_excludes_this_program() {
        let before = CpuTimes::parse("cpu  0 0 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n").unwrap();
        let after = CpuTimes::parse("cpu  80 20 30 70 0 0 0 0\ncpu0 0\ncpu1 0\n").unwrap();
        let others =
            |own_ms| after.others_since(&before, Duration::from_secs(1), Duration::from_millis(own_ms));
        assert!((others(300) - (0.5 - 0.15)).abs() < 1e-9);
        assert!(others(3000).abs() < 1e-9);
    }

    #[test]
    fn nice_time_counts_as_idle_for_a_real_time_process() {
        let times = |text| CpuTimes::parse(text).unwrap().with_nice_as_idle();
        let before = times("cpu  0 0 0 0 0 0 0 0\ncpu0 0\n");
        let after = times("cpu  30 60 0 10 0 0 0 0\ncpu0 0\n");
        assert!((after.since(&before, Duration::from_secs(1), Duration::ZERO).idle - 0.7).abs() < 1e-9);
    }

    #[test]
    fn proc_stat_of_this_machine_is_parsed() {
        assert!(CpuTimes::now(&[]).unwrap().cpus >= 1);
        let allowed = os::allowed_cpus().unwrap();
        assert_eq!(CpuTimes::now(&allowed).unwrap().cpus, allowed.len() as u64);
        assert!(CpuTimes::parse("nonsense").is_none() && CpuTimes::parse("cpu 1 2").is_none());
    }
}
