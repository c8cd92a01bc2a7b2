//! The lead's role in a transfer: an application sends, and the agent samples its TCP connections to the
//! other point.

use std::{
    net::{IpAddr, ToSocketAddrs},
    path::Path,
    sync::atomic::Ordering,
    thread::sleep,
    time::{Duration, Instant},
};

use measurement::watched::Recording;
use schema::RunSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::{Filter, NetNamespace, TracingMode, Watcher};

use super::{Figures, LeadJob, Measured, figures, lead_job::error_text};

/// Interval at which connections are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// An application's report of its transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferReport {
    /// Payload that the other end has received, bytes; absent: the goodput is that of the TCP connections
    /// that were seen.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Time that this took, microseconds; above 0.
    pub duration_us: u64,
    /// Why the transfer is incomplete; absent if it is complete.
    #[serde(default)]
    pub error: Option<String>,
}

impl TransferReport {
    /// Checks the figures.
    ///
    /// # Errors
    /// The mistake, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.duration_us == 0 { Err("duration_us must be above 0".into()) } else { Ok(()) }
    }

    pub(crate) fn goodput_bps(&self) -> Option<f64> {
        Some(self.bytes? as f64 * 8e6 / self.duration_us as f64)
    }
}

/// Samples the application's connections until the slot ends or the application has reported.
pub(super) fn transfer(job: &LeadJob, time: Duration) -> Measured {
    match record(job, time) {
        Ok(measured) => measured,
        Err(error) => Measured::failed(error),
    }
}

fn record(job: &LeadJob, time: Duration) -> Result<Measured, String> {
    let end = Instant::now() + time;
    let addresses = (job.host.as_str(), 0).to_socket_addrs();
    let addresses = addresses.map_err(|error| format!("cannot resolve {}: {error}", job.host))?;
    let filter = filter(addresses.map(|address| address.ip()), &job.mesh_ports);
    let filter = Filter::parse(&filter).map_err(|error| error.to_string())?;
    let namespace = NetNamespace::current().map_err(|error| error.to_string())?;
    let mut watcher = Watcher::new(vec![namespace], filter, TracingMode::Never).map_err(|e| e.to_string())?;
    let title = figures::title(&job.id, &format!("transfer to {}", job.to));
    let mut recording = Recording::begin(&job.runs_dir, &title).map_err(|e| error_text(&e))?;
    let failure = loop {
        let is_over = job.stop.load(Ordering::Acquire) || Instant::now() >= end;
        let sampled = watcher.sample().map_err(|error| error.to_string()).and_then(|()| {
            let events = watcher.take_events();
            recording.append(&watcher, &events).map_err(|error| error_text(&error))
        });
        if is_over || sampled.is_err() {
            break sampled.err();
        }
        sleep(SAMPLE_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    };
    let path = recording.end(&watcher, false).map_err(|error| error_text(&error))?;
    let figures = read_run(&path).map(|run| Figures::of(&run)).unwrap_or_default();
    Ok(Measured { figures, record: Some(path), error: failure })
}

/// The connections with the other point, except those between the agents.
fn filter(addresses: impl Iterator<Item = IpAddr>, mesh_ports: &[u16]) -> String {
    let peers: Vec<String> = addresses.map(|address| format!("peer {address}")).collect();
    let others = mesh_ports.iter().map(|port| format!(" and not port {port}"));
    format!("({}){}", peers.join(" or "), others.collect::<String>())
}

/// The run of a record, the flow with most data first.
pub(super) fn read_run(path: &Path) -> Option<RunSummary> {
    let mut run = record::Run::open(path).ok()?.run().clone();
    run.flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_between_agents_are_not_attributed_to_the_application() {
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let text = filter(addresses.into_iter(), &[4862, 4901]);
        assert_eq!(text, "(peer 192.0.2.1 or peer 2001:db8::1) and not port 4862 and not port 4901");
        Filter::parse(&text).unwrap();
    }

    #[test]
    fn goodput_is_payload_divided_by_time() {
        let report = TransferReport { bytes: Some(1_000_000), duration_us: 500_000, error: None };
        assert_eq!((report.check(), report.goodput_bps()), (Ok(()), Some(16e6)));
        assert_eq!(TransferReport { bytes: None, ..report.clone() }.goodput_bps(), None);
        assert!(TransferReport { duration_us: 0, ..report }.check().is_err());
    }
}
