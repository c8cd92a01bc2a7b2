//! Goodputs of parts of a run, which published figures name.

use engine_common::time_us;
use scenario::{MetricPath, ScenarioFile};
use schema::{FlowSample, PartGoodput, RunSummary};

/// Adds the goodputs of the parts of a run that published figures of its variant name. `rows` are the samples
/// of its flows.
pub fn add_parts(file: &ScenarioFile, variant: Option<&str>, rows: &[FlowSample], summary: &mut RunSummary) {
    for published in file.published() {
        let (Some((from, to)), MetricPath::Flow { flow, .. }) = (published.between, &published.figure) else {
            continue;
        };
        if !published.variants().contains(&variant) {
            continue;
        }
        let Some(goodput_bps) = verdict::part_goodput(rows, flow, time_us(from), time_us(to)) else {
            continue;
        };
        let part = PartGoodput { from_s: from.as_secs_f64(), to_s: to.as_secs_f64(), goodput_bps };
        let own = summary.flows.iter_mut().filter(|one| one.name == *flow);
        own.filter(|one| !one.parts.contains(&part)).for_each(|one| one.parts.push(part));
    }
}
