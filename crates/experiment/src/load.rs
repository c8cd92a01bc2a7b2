//! The load of runs on real hosts and their path: time and bytes, before anything is sent.

use std::time::Duration;

use net::PipeSpec;
use scenario::{FlowKind, Scenario};
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
    /// Maximum number of bytes that the flows send, if the path is as described; `None` if a TCP flow has
    /// neither a size nor a path with a rate.
    pub bytes: Option<Bytes>,
}

impl Load {
    /// The load of the runs among `jobs` that are between real hosts, with this maximum rate of a TCP flow.
    pub fn of(jobs: &[Job<'_>], max_rate: Option<BitRate>) -> Load {
        let mut load = Load { bytes: Some(Bytes(0)), ..Load::default() };
        for job in jobs.iter().filter(|job| job.engine == EngineChoice::Hosts) {
            load.runs += 1;
            load.duration = load.duration + job.scenario.duration + SET_UP;
            let own = bytes(&job.scenario, max_rate);
            load.bytes = load.bytes.zip(own).map(|(sum, own)| Bytes(sum.0.saturating_add(own)));
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

/// TCP flows without a size that share the slowest link of their paths.
struct SharedLink<'a> {
    link: &'a PipeSpec,
    /// Payload that it carries, bit/s.
    bps: f64,
    /// Start of the first flow and end of the last, seconds.
    from_s: f64,
    to_s: f64,
    /// Bytes that the flows send if each is alone.
    alone: u64,
}

fn bytes(scenario: &Scenario, max_rate: Option<BitRate>) -> Option<u64> {
    let mut shared: Vec<SharedLink<'_>> = Vec::new();
    let mut sum: u64 = 0;
    for flow in &scenario.flows {
        let from_s = flow.start.as_secs_f64();
        let to_s = flow.stop.unwrap_or(scenario.end()).as_secs_f64().max(from_s);
        let at_rate = |bps: f64| (bps * (to_s - from_s) / 8.0) as u64;
        match &flow.kind {
            FlowKind::Tcp(tcp) => {
                let limits =
                    [tcp.pacing, tcp.write_rate, max_rate].into_iter().flatten().map(|rate| rate.as_f64());
                let path = FlowPath::of(scenario, flow);
                let wire = path.and_then(|path| Some((path.slowest()?.0, path.wire_limit_bps(tcp.mss)?)));
                let limit = limits.chain(wire.map(|(_, bps)| bps)).min_by(f64::total_cmp);
                match (tcp.size, limit, wire) {
                    (Some(size), limit, _) => {
                        sum = sum.saturating_add(limit.map_or(size.0, |bps| size.0.min(at_rate(bps))));
                    }
                    (None, Some(bps), Some((link, wire_bps))) => {
                        let alone = at_rate(bps);
                        match shared.iter_mut().find(|other| std::ptr::eq(other.link, link)) {
                            Some(other) => {
                                (other.from_s, other.to_s) = (other.from_s.min(from_s), other.to_s.max(to_s));
                                other.bps = other.bps.max(wire_bps);
                                other.alone = other.alone.saturating_add(alone);
                            }
                            None => shared.push(SharedLink { link, bps: wire_bps, from_s, to_s, alone }),
                        }
                    }
                    (None, Some(bps), None) => sum = sum.saturating_add(at_rate(bps)),
                    (None, None, _) => return None,
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
    let of_links = shared.iter().map(|one| one.alone.min((one.bps * (one.to_s - one.from_s) / 8.0) as u64));
    Some(of_links.fold(sum, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;

    use super::*;

    fn bytes_of(flows: &[&str], max_rate: Option<BitRate>) -> Option<u64> {
        let text = format!(
            "duration = \"10s\"\nhosts.h1.address = \"10.0.0.1/24\"\nhosts.h2.address = \"10.0.0.2/24\"\n\
             links = [{{ ends = [\"h1\", \"h2\"], both = {{ rate = \"10gbit\" }} }}]\nflows = [{}]\n",
            flows.join(", ")
        );
        let scenario = ScenarioFile::parse("f.toml", &text).unwrap().resolve(None, &[]).unwrap();
        bytes(&scenario, max_rate)
    }

    #[test]
    fn flows_share_one_direction_of_a_link_and_not_their_own_limits() {
        let a = r#"{ name = "a", from = "h1", to = "h2" }"#;
        let b = r#"{ name = "b", from = "h1", to = "h2" }"#;
        let back = r#"{ name = "back", from = "h2", to = "h1" }"#;
        let alone = bytes_of(&[a], None).unwrap();
        assert_eq!(bytes_of(&[a, b], None), Some(alone));
        assert_eq!(bytes_of(&[a, back], None), Some(2 * alone));
        assert_eq!(bytes_of(&[a, b], Some(BitRate(1_000_000_000))), Some(2_500_000_000));
    }

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
