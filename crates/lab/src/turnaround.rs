//! Measures the turnaround of this machine's hosts over a link of a lab without delay.
//!
//! Echoes show the time that the kernel alone needs. A TCP flow with a small window shows the time that a
//! flow needs: its programs have to wake up too. The small window causes no queue, which would lengthen the
//! round trip. As for any flow of a lab, a round trip includes the time of both hosts and that of the
//! emulator between them. Half of it is attributed to each host, so that a simulated round trip of the same
//! path takes the same time.

use std::{collections::BTreeMap, sync::atomic::AtomicBool};

use scenario::ScenarioFile;
use serde::Serialize;

use crate::{Backend, Error, Journal, RunOptions, acquire_privilege, clock::TimeMode, run::run};

/// Echoes for 0.3 s, then a TCP flow for 0.4 s.
const SCENARIO: &str = r#"
duration = "1s"
sample = "5ms"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
[[flows]]
name = "echo"
kind = "ping"
from = "h1"
to = "h2"
interval = "1ms"
count = 300
[[flows]]
name = "tcp"
from = "h1"
to = "h2"
cc = "reno"
receive_buffer = "16kB"
start = "400ms"
stop = "800ms"
"#;
/// The first echoes wait for address resolution, and the first samples of both warm up caches.
const SKIPPED: usize = 10;

/// The turnaround of a host of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turnaround {
    /// The turnaround of ICMP echoes, to which the kernel replies.
    pub echo: HalfRoundTrips,
    /// The turnaround of a TCP flow with a small window, including the programs at both ends. This is the
    /// value for a scenario.
    pub tcp: HalfRoundTrips,
}

/// Half of measured round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HalfRoundTrips {
    /// Measured round trips (of TCP: samples of the smoothed time).
    pub samples: u32,
    /// Smallest, microseconds.
    pub min_us: f64,
    /// Median, microseconds.
    pub median_us: f64,
}

impl HalfRoundTrips {
    /// Half of these round-trip times in microseconds; `None` if there are no more samples than are skipped.
    fn of(rtts_us: &[i64]) -> Option<Self> {
        let mut sorted = rtts_us.get(SKIPPED..)?.to_vec();
        sorted.sort_unstable();
        let each = |rtt_us: i64| rtt_us as f64 / 2.0;
        Some(HalfRoundTrips {
            samples: u32::try_from(sorted.len()).ok()?,
            min_us: each(*sorted.first()?),
            median_us: each(sorted[sorted.len() / 2]),
        })
    }
}

/// Measures this machine's hosts, in about a second. The process must have one thread only, and acquires
/// the privilege of a lab.
///
/// # Errors
/// See [`Error`].
pub(crate) fn measure() -> Result<Option<Turnaround>, Error> {
    let file = ScenarioFile::parse("turnaround", SCENARIO).expect("a valid scenario");
    let scenario = file.resolve(None, &[]).expect("a valid scenario");
    let journal = Journal::of_this_user();
    let options = RunOptions {
        privilege: acquire_privilege()?,
        time: TimeMode::Real,
        backend: Backend::for_this_machine(),
        journal: &journal,
        capture_dir: None,
        congestion_controls: &BTreeMap::from([("tcp".into(), "reno".into())]),
        own_controls: &BTreeMap::new(),
        stop: &AtomicBool::new(false),
    };
    let outcome = run(&scenario, &options, &mut ())?;
    let half_of = |flow: &str| {
        let rows = outcome.flows.iter().filter(|row| row.flow == flow);
        HalfRoundTrips::of(&rows.filter_map(|row| row.srtt_us).collect::<Vec<_>>())
    };
    Ok(half_of("echo").zip(half_of("tcp")).map(|(echo, tcp)| Turnaround { echo, tcp }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_round_trip_is_attributed_to_each_host() {
        let mut rtts = vec![900; SKIPPED];
        rtts.extend([50, 40, 90]);
        let measured = HalfRoundTrips::of(&rtts).unwrap();
        assert_eq!(measured, HalfRoundTrips { samples: 3, min_us: 20.0, median_us: 25.0 });
        assert_eq!(HalfRoundTrips::of(&rtts[..SKIPPED]), None);
        assert_eq!(HalfRoundTrips::of(&[]), None);
    }
}
