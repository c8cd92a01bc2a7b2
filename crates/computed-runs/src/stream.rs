//! Whether a path sustains a real-time stream, and up to which rate.

use bulk::stream::PlayoutCounts;
use engine_common::LinkTotals;
use scenario::{FlowSpec, Scenario, StreamSpec};
use schema::StreamSummary;
use units::Time;

use crate::flow_context::FlowPath;

/// The summary of a stream's play-out.
pub(crate) fn stream_summary(
    scenario: &Scenario,
    flow: &FlowSpec,
    spec: &StreamSpec,
    playout: &PlayoutCounts,
    links: &[LinkTotals],
    duration: Time,
) -> StreamSummary {
    let unused_bps = || unused_bps(scenario, flow, links, duration);
    engine_common::stream_summary(playout, spec.rate, spec.tolerate_loss, unused_bps)
}

/// The unused rate of the fullest link on the flow's path during the run, bit/s of the stream's payload.
fn unused_bps(scenario: &Scenario, flow: &FlowSpec, links: &[LinkTotals], duration: Time) -> Option<f64> {
    let plan = engine_common::bulk_plan(scenario, flow, 0)?;
    let payload = f64::from(plan.payload_bytes());
    let path = FlowPath::of(scenario, flow)?;
    let unused = path.forward.iter().filter_map(|(name, direction, pipe)| {
        let rate = pipe.rate.mean()?.as_f64();
        let index = scenario.links.iter().position(|link| link.name == *name)?;
        let totals = links.iter().find(|one| one.link == index && one.direction == *direction)?;
        let used = totals.counters.sent_bytes as f64 * 8.0 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let headers =
            f64::from(plan.header_bytes() + plan.ip_header + engine_common::UDP_HEADER_BYTES + pipe.overhead);
        Some((rate - used).max(0.0) * payload / (payload + headers))
    });
    unused.reduce(f64::min)
}
