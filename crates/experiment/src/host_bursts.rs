//! Losses that neither the network nor TCP explains: a queue that holds all that the flows' windows allow overflowed. Hosts that
//! wait for a processor send and acknowledge in bursts, and bursts do that.

use std::collections::BTreeSet;

use scenario::{Kind, Scenario};
use schema::RunSummary;

use crate::flow_context::FlowPath;

/// Smaller queues overflow by the super-packets of a quiet host, bytes.
const LEAST_QUEUE: f64 = 1e6;
/// Windows are payload; what lies in queues has headers.
const WITH_HEADERS: f64 = 1.06;
/// A queue of this share of the windows together takes the bursts of slow start.
const QUEUE_SHARE: f64 = 0.5;

/// Which queues dropped packets though they hold all that the windows allow, one sentence each.
pub fn unexplained_drops(scenario: &Scenario, run: &RunSummary) -> Vec<String> {
    let dropped = run.links.iter().filter(|link| link.dropped_queue > 0);
    dropped.filter_map(|link| unexplained_drop(scenario, run, link)).collect()
}

fn unexplained_drop(scenario: &Scenario, run: &RunSummary, summary: &schema::LinkSummary) -> Option<String> {
    let link = scenario.links.iter().find(|link| link.name == summary.name)?;
    let pipe = link.direction(summary.direction == "backward");
    // What changes or drops by itself explains more than windows do.
    if !link.changes.is_empty() || !matches!(pipe.discipline, net::Discipline::DropTail { .. }) {
        return None;
    }
    let rate_bps = summary.rate_bps?;
    let mut hosts = BTreeSet::new();
    let (mut windows, mut shortest_s) = (0.0, f64::INFINITY);
    for flow in &scenario.flows {
        let path = FlowPath::of(scenario, flow)?;
        if !path.there.iter().any(|(_, _, direction)| std::ptr::eq(*direction, pipe)) {
            continue;
        }
        match flow.kind {
            Kind::Tcp(_) => {}
            Kind::Ping(_) => continue,
            _ => return None,
        }
        let result = run.flows.iter().find(|result| result.name == flow.name)?;
        windows += result.max_rcv_wnd_bytes? as f64 * WITH_HEADERS;
        shortest_s = path.rtt.as_secs_f64().min(shortest_s);
        hosts.insert(flow.from.clone());
    }
    let queue = pipe.queue.bytes(u64::from(1500 + pipe.overhead))?.0 as f64;
    let held = queue + rate_bps / 8.0 * shortest_s;
    let is_unexplained =
        windows > 0.0 && windows <= held && queue >= LEAST_QUEUE && queue >= QUEUE_SHARE * windows;
    is_unexplained.then(|| {
        format!(
            "the queue of {} {} dropped {} packets although link and queue hold all that the windows allow ({:.1} of {:.1} MB): \
             {} sent in bursts",
            summary.name,
            summary.direction,
            summary.dropped_queue,
            windows / 1e6,
            held / 1e6,
            hosts.into_iter().collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{FlowSummary, LinkSummary};

    use super::*;

    /// What is said of one flow over 10 Gb/s and 20 ms (25 MB) with this queue and window, both in MB.
    fn said(queue: &str, window_mb: f64, dropped: u64) -> Vec<String> {
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
                direction: "forward".into(),
                rate_bps: Some(10e9),
                dropped_queue: dropped,
                ..LinkSummary::default()
            }],
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        };
        unexplained_drops(&scenario, &run)
    }

    #[test]
    fn a_queue_that_holds_the_windows_overflows_by_bursts_alone() {
        // Lab 8 with large buffers on a busy machine: 2,833 drops, a window of 41.6 MB, 6.8 of 10 Gb/s.
        let found = said("25MB", 41.6, 2833);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("2833 packets") && found[0].contains("44.1 of 50.0 MB"), "{found:?}");
        assert!(said("25MB", 41.6, 0).is_empty());
    }

    #[test]
    fn windows_that_are_larger_and_queues_that_are_short_explain_drops() {
        assert!(said("25MB", 60.0, 2833).is_empty(), "the window fills the queue");
        assert!(said("500kB", 20.0, 2833).is_empty(), "super-packets fill it");
        assert!(said("5MB", 20.0, 2833).is_empty(), "slow start's bursts fill it");
    }
}
