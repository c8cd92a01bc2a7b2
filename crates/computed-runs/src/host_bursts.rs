//! Losses that neither the network nor TCP explains: a queue overflowed although it has space for the windows
//! of all flows. The cause is bursts: hosts that wait for a processor send and acknowledge in bursts.

use std::collections::BTreeSet;

use net::Direction;
use scenario::{FlowKind, Scenario};
use schema::{LinkDirection, RunSummary};

use crate::flow_context::FlowPath;

/// Minimum size of checked queues: super-packets of a quiet host overflow smaller ones, bytes.
const MIN_QUEUE_BYTES: f64 = 1e6;
/// Ratio of packet size to payload: windows count payload, queues count headers too.
const HEADER_FACTOR: f64 = 1.06;
/// Minimum queue size relative to the sum of all windows: bursts of slow start overflow smaller queues.
const MIN_QUEUE_SHARE: f64 = 0.5;

/// One sentence per queue that dropped packets although it has space for all windows.
pub fn unexplained_drops(scenario: &Scenario, run: &RunSummary) -> Vec<String> {
    let dropped = run.links.iter().filter(|link| link.dropped_queue > 0);
    dropped.filter_map(|link| unexplained_drop(scenario, run, link)).collect()
}

fn unexplained_drop(scenario: &Scenario, run: &RunSummary, summary: &schema::LinkSummary) -> Option<String> {
    let link = scenario.links.iter().find(|link| link.name == summary.name)?;
    let pipe = link.pipe(match summary.direction {
        LinkDirection::Backward => Direction::Backward,
        _ => Direction::Forward,
    });
    // Link changes and AQM explain drops by themselves.
    if !link.changes.is_empty() || !matches!(pipe.discipline, net::Discipline::DropTail { .. }) {
        return None;
    }
    let rate_bps = summary.rate_bps?;
    let mut hosts = BTreeSet::new();
    let (mut windows, mut shortest_s) = (0.0, f64::INFINITY);
    for flow in &scenario.flows {
        let path = FlowPath::of(scenario, flow)?;
        if !path.forward.iter().any(|(_, _, direction)| std::ptr::eq(*direction, pipe)) {
            continue;
        }
        match flow.kind {
            FlowKind::Tcp(_) => {}
            FlowKind::Ping(_) => continue,
            _ => return None,
        }
        let result = run.flows.iter().find(|result| result.name == flow.name)?;
        windows += result.max_rcv_wnd_bytes? as f64 * HEADER_FACTOR;
        shortest_s = path.rtt.as_secs_f64().min(shortest_s);
        hosts.insert(flow.from.clone());
    }
    let queue = pipe.queue.bytes(u64::from(1500 + pipe.overhead))?.0 as f64;
    let capacity = queue + rate_bps / 8.0 * shortest_s;
    let is_unexplained = windows > 0.0
        && windows <= capacity
        && queue >= MIN_QUEUE_BYTES
        && queue >= MIN_QUEUE_SHARE * windows;
    is_unexplained.then(|| {
        format!(
            "the queue of {} {} dropped {} packets although link and queue hold all that the windows allow ({:.1} of {:.1} MB): \
             {} sent in bursts",
            summary.name,
            summary.direction,
            summary.dropped_queue,
            windows / 1e6,
            capacity / 1e6,
            hosts.into_iter().collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{FlowSummary, LinkSummary};

    use super::*;

    /// The sentences for one flow over 10 Gb/s and 20 ms (25 MB) with this queue and this window in MB.
    fn drops(queue: &str, window_mb: f64, dropped: u64) -> Vec<String> {
        let text = format!(
            "duration = \"5s\"\nhosts.a.address = \"10.0.0.1/24\"\nhosts.b.address = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"a\", \"b\"]\nforward = {{ rate = \"10gbit\", delay = \"20ms\", queue = \"{queue}\" }}\n\
             [[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n"
        );
        let scenario = ScenarioFile::parse("x.toml", &text).unwrap().resolve(None, &[]).unwrap();
        let run = RunSummary {
            flows: vec![FlowSummary {
                name: "f".into(),
                max_rcv_wnd_bytes: Some((window_mb * 1e6) as u64),
                ..FlowSummary::default()
            }],
            links: vec![LinkSummary {
                name: "a-b".into(),
                direction: LinkDirection::Forward,
                rate_bps: Some(10e9),
                dropped_queue: dropped,
                ..LinkSummary::default()
            }],
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        };
        unexplained_drops(&scenario, &run)
    }

    #[test]
    fn only_bursts_overflow_a_queue_with_space_for_the_windows() {
        // Lab 8 with large buffers on a busy machine: 2,833 drops, a window of 41.6 MB, 6.8 of 10 Gb/s.
        let found = drops("25MB", 41.6, 2833);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("2833 packets") && found[0].contains("44.1 of 50.0 MB"), "{found:?}");
        assert!(drops("25MB", 41.6, 0).is_empty());
    }

    #[test]
    fn larger_windows_and_short_queues_explain_drops() {
        assert!(drops("25MB", 60.0, 2833).is_empty(), "the window fills the queue");
        assert!(drops("500kB", 20.0, 2833).is_empty(), "super-packets fill it");
        assert!(drops("5MB", 20.0, 2833).is_empty(), "slow start's bursts fill it");
    }
}
