//! The latest runs of one scenario by each engine, side by side: whether the measurements agree with the
//! models.

use std::collections::BTreeMap;

use schema::{EngineName, FlowKind, FlowSummary, RunSummary};
use serde::Serialize;

use crate::{number, settings::changed_fields, table, words};

/// The value of [`EngineComparison`]'s `schema` field.
const SCHEMA: &str = "longfat.engines/1";
/// Goodputs that differ by at most this share are equal.
const TOLERANCE: f64 = 0.05;

/// The runs of one scenario by several engines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineComparison {
    /// Always `longfat.engines/1`.
    pub schema: &'static str,
    /// The scenario's name.
    pub scenario: String,
    /// The compared runs: the latest of each engine, variant and point.
    pub runs: Vec<RunSummary>,
    /// The differences, for each variant and point that several engines ran.
    pub groups: Vec<EngineGroup>,
}

/// The runs of one variant and point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineGroup {
    /// The variant's name; `null` if the scenario has none.
    pub variant: Option<String>,
    /// Swept fields and their values.
    pub sweep: BTreeMap<String, String>,
    /// The engine with which the others are compared: the one closest to real hosts.
    pub measured: String,
    /// The other engines.
    pub others: Vec<String>,
    /// Differences, one sentence each; empty where all agree.
    pub differences: Vec<String>,
}

/// How close an engine is to real hosts; the largest is the reference.
fn rank(engine: &EngineName) -> u8 {
    match engine {
        EngineName::Hosts => 5,
        EngineName::Lab => 4,
        EngineName::Kernel => 3,
        EngineName::Sim => 2,
        EngineName::Model => 1,
        _ => 0,
    }
}

/// Compares the latest run of each engine, variant and point among `runs`, which are of one scenario. Only
/// runs with the same `--set` changes as the latest run are compared. For a variant and point, only the
/// simulator's and the model's runs of one kernel are compared: that of the latest of these runs.
pub fn engines(scenario: &str, runs: &[RunSummary]) -> EngineComparison {
    let mut engine_runs: Vec<&RunSummary> =
        runs.iter().filter(|run| rank(&run.engine) > 0 && !run.partial).collect();
    engine_runs.sort_by(|a, b| b.started.cmp(&a.started));
    let set = engine_runs.first().map(|run| changed_fields(run)).unwrap_or_default();
    let same_group = |a: &&RunSummary, b: &&RunSummary| (&a.variant, &a.sweep) == (&b.variant, &b.sweep);
    let is_computed = |run: &&RunSummary| matches!(run.engine, EngineName::Sim | EngineName::Model);
    let mut latest: Vec<&RunSummary> = Vec::new();
    for run in engine_runs.into_iter().filter(|run| changed_fields(run) == set) {
        let mut known = latest.iter().filter(|known| same_group(known, &run));
        let is_known = |known: &&RunSummary| {
            known.engine_label() == run.engine_label()
                || is_computed(known) && is_computed(&run) && known.kernel != run.kernel
        };
        if !known.any(is_known) {
            latest.push(run);
        }
    }
    latest.sort_by(|a, b| {
        (&a.variant, &a.sweep, rank(&a.engine), a.engine_label()).cmp(&(
            &b.variant,
            &b.sweep,
            rank(&b.engine),
            b.engine_label(),
        ))
    });
    let groups = latest.chunk_by(same_group).filter_map(group).collect();
    EngineComparison {
        schema: SCHEMA,
        scenario: scenario.into(),
        runs: latest.into_iter().cloned().collect(),
        groups,
    }
}

/// Compares the runs of a group with its last, the one closest to real hosts.
fn group(runs: &[&RunSummary]) -> Option<EngineGroup> {
    let (measured, others) = runs.split_last()?;
    if others.is_empty() {
        return None;
    }
    let mut differences = Vec::new();
    for flow in &measured.flows {
        let same_flow = |run: &&&RunSummary| {
            Some((run.engine_label(), run.flows.iter().find(|other| other.name == flow.name)?.clone()))
        };
        for (engine, other) in others.iter().filter_map(|run| same_flow(&run)) {
            differences.extend(difference(&measured.engine_label(), flow, &engine, &other));
        }
    }
    Some(EngineGroup {
        variant: measured.variant.clone(),
        sweep: measured.sweep.clone(),
        measured: measured.engine_label(),
        others: others.iter().map(|run| run.engine_label()).collect(),
        differences,
    })
}

/// How a flow differs between two engines.
fn difference(measured: &str, flow: &FlowSummary, engine: &str, other: &FlowSummary) -> Option<String> {
    if flow.kind == FlowKind::Ping {
        let (own, others) = (flow.min_rtt_us?, other.min_rtt_us?);
        let ms = |us: f64| number::micros(us);
        return ((own / others - 1.0).abs() > TOLERANCE).then(|| {
            format!(
                "{}: the smallest round-trip time is {} ({measured}) against {} ({engine})",
                flow.name,
                ms(own),
                ms(others)
            )
        });
    }
    let both_steady = flow.steady_goodput_bps.zip(other.steady_goodput_bps);
    let (own, others) = both_steady.or(flow.goodput_bps.zip(other.goodput_bps))?;
    let quantity = if both_steady.is_some() { "steady goodput" } else { "goodput" };
    let share = own / others - 1.0;
    let mut text = Vec::new();
    if share.abs() > TOLERANCE {
        text.push(format!(
            "the {quantity} is {} ({measured}) against {} ({engine}), {:+.0} %",
            number::rate(own),
            number::rate(others),
            share * 100.0
        ));
    }
    let limits = |flow: &FlowSummary| [flow.verdict, flow.verdict_also];
    let agree = limits(flow).into_iter().flatten().any(|limit| limits(other).contains(&Some(limit)));
    if let (false, Some(own), Some(others)) = (agree, words::limits(flow), words::limits(other)) {
        text.push(format!("the limit is {own} ({measured}) against {others} ({engine})"));
    }
    (!text.is_empty()).then(|| format!("{}: {}", flow.name, text.join(", and ")))
}

/// The table of all runs, and a sentence for each group.
pub fn engines_text(comparison: &EngineComparison, width: Option<usize>) -> String {
    let mut out = format!("{}\n{}\n", comparison.scenario, table::results(&comparison.runs, width));
    for group in &comparison.groups {
        let point = group.sweep.iter().map(|(field, value)| format!("{field}={value}"));
        let label: Vec<String> = group.variant.iter().cloned().chain(point).collect();
        let label = if label.is_empty() { String::new() } else { format!("{}: ", label.join(" ")) };
        out.push_str(&format!("{label}{}\n", sentence(group)));
    }
    if comparison.groups.is_empty() {
        out.push_str(
            "Only one engine has run this scenario: run it with --engine model,sim,lab or hosts too.\n",
        );
    }
    out
}

/// States in one sentence whether the path behaves as the other engines predicted.
fn sentence(group: &EngineGroup) -> String {
    let (measured, others) = (&group.measured, group.others.join(", "));
    let subject = match measured.as_str() {
        "hosts" | "lab" => "the path".into(),
        engine => format!("{engine}'s path"),
    };
    match group.differences.as_slice() {
        [] => format!("{subject} behaves as modelled ({measured} against {others})."),
        differences => {
            format!(
                "{subject} behaves as modelled ({measured} against {others}), except for {}.",
                differences.join("; ")
            )
        }
    }
}
