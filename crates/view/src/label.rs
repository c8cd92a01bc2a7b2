//! Labels of runs that are shown together: the shortest ones that distinguish them.

use std::collections::BTreeSet;

use model::FairnessWeight;
use schema::{EngineName, FlowSummary, RunSummary};

/// One label per run: the variant if that is sufficient, else with the engine, the sweep and the repeat,
/// else the id.
pub(crate) fn run_labels(runs: &[&RunSummary]) -> Vec<String> {
    let forms: [fn(&RunSummary) -> String; 4] = [
        |run| run.variant.clone().unwrap_or_default(),
        |run| format!("{} {}", variant(run), run.engine_label()).trim().to_owned(),
        detailed,
        |run| run.id.clone(),
    ];
    forms
        .into_iter()
        .map(|form| runs.iter().map(|run| form(run)).collect::<Vec<String>>())
        .find(|labels| are_distinct(labels))
        .unwrap_or_else(|| (1..=runs.len()).map(|n| format!("run {n}")).collect())
}

/// Like [`run_labels`], preceded by the scenario's name if the runs are of different scenarios; the engine if
/// a run has no other label.
pub(crate) fn labels_with_scenarios(scenarios: &[&str], runs: &[&RunSummary]) -> Vec<String> {
    let names: BTreeSet<&str> = scenarios.iter().copied().collect();
    let mut labels = vec![String::new(); runs.len()];
    for name in &names {
        let own: Vec<usize> = (0..runs.len()).filter(|at| scenarios[*at] == *name).collect();
        let found = run_labels(&own.iter().map(|at| runs[*at]).collect::<Vec<_>>());
        for (at, label) in own.into_iter().zip(found) {
            let label = if label.is_empty() { runs[at].engine.to_string() } else { label };
            labels[at] = if names.len() > 1 { format!("{name} {label}") } else { label };
        }
    }
    labels
}

/// The variant, engine, swept values and repeat, as in `tuned lab r2`.
pub(crate) fn detailed(run: &RunSummary) -> String {
    let mut label = format!("{} {}", variant(run), run.engine_label()).trim().to_owned();
    for (field, value) in &run.sweep {
        label.push_str(&format!(" {field}={value}"));
    }
    if run.repeat > 1 {
        label.push_str(&format!(" r{}", run.repeat));
    }
    label
}

/// The congestion controls of flows that are shown together, parameters included.
pub(crate) struct CcNames {
    /// Each with its origin, if known.
    known: BTreeSet<(String, Option<String>)>,
    are_plain: bool,
}

impl CcNames {
    pub(crate) fn of<'a>(flows: impl Iterator<Item = &'a FlowSummary>) -> Self {
        let mut names = CcNames { known: BTreeSet::new(), are_plain: true };
        for flow in flows {
            names.are_plain &= flow.cc_set.is_empty();
            names.known.extend(flow.cc_label().map(|label| (label, flow.cc_from.clone())));
        }
        names
    }

    /// Whether they are worth showing: flows differ in them, or they have parameters.
    pub(crate) fn are_relevant(&self) -> bool {
        let labels: BTreeSet<&String> = self.known.iter().map(|(label, _)| label).collect();
        labels.len() > 1 || !self.are_plain || labels.iter().any(|label| self.sources(label) > 1)
    }

    /// The name of a flow's congestion control: `griddt a=7`; `cubic (kernel)` beside a `cubic (longfat)`.
    pub(crate) fn name(&self, flow: &FlowSummary) -> Option<String> {
        let label = flow.cc_label()?;
        Some(match &flow.cc_from {
            Some(from) if self.sources(&label) > 1 => format!("{label} ({from})"),
            _ => label,
        })
    }

    fn sources(&self, label: &str) -> usize {
        self.known.iter().filter(|(known, from)| known == label && from.is_some()).count()
    }
}

/// Round-trip times within this share of each other count as equal.
const SAME_RTT: f64 = 0.05;

/// Jain's index of a run as displayed; `None` with fewer than two bulk transfers. The model computes each
/// flow as if it were alone, so its runs have no index. If the flows' segment sizes or round-trip times
/// differ, the index of goodputs weighted by them is appended.
pub(crate) fn fairness(run: &RunSummary) -> Option<String> {
    let flows = || run.flows.iter().filter(|flow| flow.is_bulk_transfer());
    let goodput_index =
        run.fairness_jain.filter(|_| flows().count() > 1 && run.engine != EngineName::Model)?;
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        if low > 0.0 && low.is_finite() { high / low - 1.0 } else { 0.0 }
    };
    let mtus_differ = spread(&mut flows().filter_map(|flow| Some(flow.mss_bytes? as f64))) > 0.0;
    let rtts_differ = spread(&mut flows().filter_map(|flow| flow.min_rtt_us)) > SAME_RTT;
    let weights = [
        (mtus_differ, FairnessWeight::Mtu, "goodput / MSS"),
        (rtts_differ, FairnessWeight::Rtt, "goodput x RTT"),
        (mtus_differ && rtts_differ, FairnessWeight::MtuAndRtt, "goodput x RTT / MSS"),
    ];
    let mut text = format!("{goodput_index:.3}");
    for (_, weight, name) in weights.into_iter().filter(|(differs, ..)| *differs) {
        if let Some(index) = weight.index(run) {
            text.push_str(&format!(", of {name} {index:.3}"));
        }
    }
    Some(text)
}

fn variant(run: &RunSummary) -> &str {
    run.variant.as_deref().unwrap_or_default()
}

fn are_distinct(labels: &[String]) -> bool {
    labels.iter().all(|label| !label.is_empty())
        && labels.iter().collect::<BTreeSet<_>>().len() == labels.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::FlowKind;

    fn run(id: &str, engine: &str, variant: Option<&str>, repeat: u32) -> RunSummary {
        let summary: schema::Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
        let mut run = summary.runs[0].clone();
        (run.id, run.engine, run.variant, run.repeat) =
            (id.into(), engine.into(), variant.map(str::to_owned), repeat);
        run
    }

    #[test]
    fn congestion_controls_are_named_if_they_differ_or_have_parameters() {
        let flow = |a: Option<i64>| FlowSummary {
            kind: FlowKind::Tcp,
            cc: Some("griddt".into()),
            cc_set: a.map(|a| ("a".into(), schema::Setting::Integer(a))).into_iter().collect(),
            ..FlowSummary::default()
        };
        let (one, seven) = (flow(None), flow(Some(7)));
        assert_eq!(seven.cc_label().unwrap(), "griddt a=7");
        let relevant = |flows: &[&FlowSummary]| CcNames::of(flows.iter().copied()).are_relevant();
        assert!(relevant(&[&one, &seven]) && relevant(&[&seven]) && !relevant(&[&one, &one]));
        let from = |from: &str| FlowSummary { cc_from: Some(from.into()), ..one.clone() };
        let (kernel, ours) = (from("kernel"), from("longfat"));
        let names = CcNames::of([&kernel, &ours].into_iter());
        assert!(names.are_relevant() && !relevant(&[&ours, &ours]) && !relevant(&[&one, &ours]));
        assert_eq!(names.name(&kernel).unwrap(), "griddt (kernel)");
        assert_eq!(CcNames::of([&ours].into_iter()).name(&ours).unwrap(), "griddt");
        let mut alone = run("1", "lab", None, 1);
        (alone.fairness_jain, alone.flows) = (Some(1.0), vec![one.clone()]);
        assert_eq!(fairness(&alone), None);
        alone.flows.push(seven);
        assert_eq!(fairness(&alone).unwrap(), "1.000");
        for (flow, mss, rtt, goodput) in [(0, 1448, 10e3, 8e6), (1, 8948, 40e3, 4e6)] {
            let flow = &mut alone.flows[flow];
            (flow.mss_bytes, flow.min_rtt_us, flow.goodput_bps) = (Some(mss), Some(rtt), Some(goodput));
        }
        assert_eq!(
            fairness(&alone).unwrap(),
            "1.000, of goodput / MSS 0.580, of goodput x RTT 0.900, of goodput x RTT / MSS 0.793"
        );
    }

    #[test]
    fn the_shortest_distinct_labels_are_chosen() {
        let (a, b) = (run("1", "lab", Some("default"), 1), run("2", "lab", Some("tuned"), 1));
        assert_eq!(run_labels(&[&a, &b]), ["default", "tuned"]);
        let model = run("3", "model", Some("tuned"), 1);
        assert_eq!(run_labels(&[&model, &b]), ["tuned model", "tuned lab"]);
        let again = run("4", "lab", Some("tuned"), 2);
        assert_eq!(run_labels(&[&b, &again]), ["tuned lab", "tuned lab r2"]);
        let same = run("5", "lab", Some("tuned"), 1);
        assert_eq!(run_labels(&[&b, &same]), ["2", "5"]);
        assert_eq!(run_labels(&[&b, &b]), ["run 1", "run 2"]);
    }

    #[test]
    fn labels_of_different_scenarios_name_them() {
        let (plain, tuned) = (run("1", "sim", None, 1), run("2", "lab", Some("tuned"), 1));
        let again = run("3", "sim", Some("tuned"), 1);
        let labels = labels_with_scenarios(&["dsl", "lab8", "lab8"], &[&plain, &tuned, &again]);
        assert_eq!(labels, ["dsl sim", "lab8 tuned lab", "lab8 tuned sim"]);
        assert_eq!(labels_with_scenarios(&["dsl"], &[&plain]), ["sim"]);
    }
}
