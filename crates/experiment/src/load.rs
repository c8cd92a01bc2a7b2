//! How much real hosts and their path are loaded by runs: time and bytes, before anything is sent.

use std::time::Duration;

use scenario::FlowKind;
use units::{BitRate, Bytes, Time};

use crate::{EngineChoice, Job, flow_context::FlowPath};

/// Time between the flows of two runs, for connections and results.
const SET_UP: Time = Time::from_secs(1);

/// The load of runs between real hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of runs.
    pub runs: usize,
    /// Their duration, set-up included, without pauses.
    pub duration: Time,
    /// Maximum number of bytes that the flows send, if the path is as described; `None` if a TCP flow has neither a size nor
    /// a path with a rate.
    pub bytes: Option<Bytes>,
}

impl Load {
    /// The load of the runs among `jobs` that are between real hosts, with this maximum rate of a TCP flow.
    pub fn of(jobs: &[Job<'_>], max_rate: Option<BitRate>) -> Load {
        let mut load = Load { bytes: Some(Bytes(0)), ..Load::default() };
        for job in jobs.iter().filter(|job| job.engine == EngineChoice::Hosts) {
            load.runs += 1;
            load.duration = load.duration + job.scenario.duration + SET_UP;
            load.bytes =
                load.bytes.zip(bytes(job, max_rate)).map(|(sum, own)| Bytes(sum.0.saturating_add(own)));
        }
        load
    }

    /// The duration of all runs with a pause between every two.
    pub fn duration_with_pauses(&self, pause: Duration) -> Time {
        self.duration + Time::from_secs_f64(pause.as_secs_f64() * self.runs.saturating_sub(1) as f64)
    }

    /// Compares the load with the maximum number of bytes that the runs may send in total.
    ///
    /// # Errors
    /// The runs may send more, or it is unknown how much they send.
    pub fn check(&self, max_bytes: Option<Bytes>) -> Result<(), ExcessiveLoad> {
        match (max_bytes, self.bytes) {
            (Some(_), None) if self.runs > 0 => Err(ExcessiveLoad::Unbounded),
            (Some(limit), Some(bytes)) if bytes > limit => Err(ExcessiveLoad::Bytes(bytes)),
            _ => Ok(()),
        }
    }
}

/// Why runs may send more than their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExcessiveLoad {
    /// A TCP flow has neither a size nor a path with a rate.
    Unbounded,
    /// The runs may send this much.
    Bytes(Bytes),
}

fn bytes(job: &Job<'_>, max_rate: Option<BitRate>) -> Option<u64> {
    let mut shared_bps: f64 = 0.0;
    let mut sum: u64 = 0;
    let mut longest: f64 = 0.0;
    for flow in &job.scenario.flows {
        let seconds =
            (flow.stop.unwrap_or(job.scenario.duration).as_secs_f64() - flow.start.as_secs_f64()).max(0.0);
        let at_rate = |bps: f64| (bps * seconds / 8.0) as u64;
        match &flow.kind {
            FlowKind::Tcp(tcp) => {
                let limits =
                    [tcp.pacing, tcp.write_rate, max_rate].into_iter().flatten().map(|rate| rate.as_f64());
                let path = FlowPath::of(&job.scenario, flow).and_then(|path| path.wire_limit_bps(tcp.mss));
                let limit = limits.chain(path).min_by(f64::total_cmp);
                match (tcp.size, limit) {
                    (Some(size), limit) => {
                        sum = sum.saturating_add(limit.map_or(size.0, |bps| size.0.min(at_rate(bps))));
                    }
                    // Unlimited flows share the path.
                    (None, Some(bps)) => {
                        shared_bps = shared_bps.max(bps);
                        longest = longest.max(seconds);
                    }
                    (None, None) => return None,
                }
            }
            FlowKind::Udp(udp) => {
                let all = at_rate(udp.rate.as_f64() * udp.duty());
                sum = sum.saturating_add(udp.size.map_or(all, |size| size.0.min(all)));
            }
            // Real hosts do not run the others.
            _ => {}
        }
    }
    Some(sum.saturating_add((shared_bps * longest / 8.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_compared_with_the_maximum() {
        let load = Load { runs: 3, duration: Time::from_secs(30), bytes: Some(Bytes(1000)) };
        assert_eq!(load.check(None), Ok(()));
        assert_eq!(load.check(Some(Bytes(1000))), Ok(()));
        assert_eq!(load.check(Some(Bytes(999))), Err(ExcessiveLoad::Bytes(Bytes(1000))));
        let unbounded = Load { bytes: None, ..load };
        assert_eq!(unbounded.check(None), Ok(()));
        assert_eq!(unbounded.check(Some(Bytes(u64::MAX))), Err(ExcessiveLoad::Unbounded));
    }

    #[test]
    fn a_pause_is_between_two_runs() {
        let load = |runs| Load { runs, duration: Time::from_secs(30), bytes: None };
        assert_eq!(load(3).duration_with_pauses(Duration::from_millis(1500)), Time::from_secs(33));
        assert_eq!(load(1).duration_with_pauses(Duration::from_secs(5)), Time::from_secs(30));
        assert_eq!(load(0).duration_with_pauses(Duration::from_secs(5)), Time::from_secs(30));
    }
}
