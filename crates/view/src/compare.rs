//! Two runs metric by metric: the output of `longfat compare` as a table or JSON.

use schema::{FlowSummary, RunSummary};
use serde::Serialize;

/// The value of [`Comparison`]'s `schema` field.
const COMPARISON_SCHEMA: &str = "longfat.compare/1";

/// Two runs, flow by flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `longfat.compare/1`.
    pub schema: &'static str,
    /// The id of the first run.
    pub a: String,
    /// The id of the second run.
    pub b: String,
    /// The flows that either run has, matched by name.
    pub flows: Vec<FlowComparison>,
}

/// One flow in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowComparison {
    /// The flow's name.
    pub name: String,
    /// The congestion control of the first run with its parameters, as in `griddt a=7`.
    pub cc_a: Option<String>,
    /// The congestion control of the second run.
    pub cc_b: Option<String>,
    /// The origin of the first run's congestion control: `kernel`, `longfat`, or a file.
    pub cc_from_a: Option<String>,
    /// The origin of the second run's congestion control.
    pub cc_from_b: Option<String>,
    /// The verdict of the first run, by name.
    pub verdict_a: Option<&'static str>,
    /// The verdict of the second run, by name.
    pub verdict_b: Option<&'static str>,
    /// The second limit beside the verdict in the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_also_a: Option<&'static str>,
    /// The second limit beside the verdict in the second run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_also_b: Option<&'static str>,
    /// The metrics that either run has.
    pub metrics: Vec<MetricComparison>,
}

/// One figure in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// The field's name in the summary, unit suffix included.
    pub metric: &'static str,
    /// The figure of the first run.
    pub a: Option<f64>,
    /// The figure of the second run.
    pub b: Option<f64>,
    /// Second over first; `null` where either is unknown or the first is 0.
    pub ratio: Option<f64>,
}

type Field = (&'static str, fn(&FlowSummary) -> Option<f64>);

const FIELDS: [Field; 15] = [
    ("goodput_bps", |flow| flow.goodput_bps),
    ("steady_goodput_bps", |flow| flow.steady_goodput_bps),
    ("steady_from_s", |flow| flow.steady_from_s),
    ("bytes", |flow| flow.bytes.map(float)),
    ("sent_segs", |flow| flow.sent_segs.map(float)),
    ("retransmitted_segs", |flow| flow.retransmitted_segs.map(float)),
    ("min_rtt_us", |flow| flow.min_rtt_us),
    ("median_rtt_us", |flow| flow.median_rtt_us),
    ("mean_rtt_us", |flow| flow.mean_rtt_us),
    ("max_rtt_us", |flow| flow.max_rtt_us),
    ("max_cwnd_bytes", |flow| flow.max_cwnd_bytes.map(float)),
    ("mean_cwnd_bytes", |flow| flow.mean_cwnd_bytes.map(float)),
    ("max_rcv_wnd_bytes", |flow| flow.max_rcv_wnd_bytes.map(float)),
    ("binding_window_bytes", |flow| flow.binding_window_bytes.map(float)),
    ("wire_limit_bps", |flow| flow.wire_limit_bps),
];

/// Compares two runs flow by flow.
pub fn compare(a: &RunSummary, b: &RunSummary) -> Comparison {
    let only_in_b = b.flows.iter().filter(|flow| find(a, &flow.name).is_none());
    let flows = a
        .flows
        .iter()
        .chain(only_in_b)
        .map(|flow| compare_flow(&flow.name, find(a, &flow.name), find(b, &flow.name)));
    Comparison { schema: COMPARISON_SCHEMA, a: a.id.clone(), b: b.id.clone(), flows: flows.collect() }
}

fn find<'a>(run: &'a RunSummary, name: &str) -> Option<&'a FlowSummary> {
    run.flows.iter().find(|flow| flow.name == name)
}

fn compare_flow(name: &str, a: Option<&FlowSummary>, b: Option<&FlowSummary>) -> FlowComparison {
    let metrics = FIELDS
        .iter()
        .map(|(metric, get)| {
            let (a, b) = (a.and_then(get), b.and_then(get));
            let ratio = a.zip(b).filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a);
            MetricComparison { metric, a, b, ratio }
        })
        .filter(|m| m.a.is_some() || m.b.is_some());
    let verdict = |flow: Option<&FlowSummary>| flow.and_then(|flow| flow.verdict).map(|cause| cause.name());
    let also = |flow: Option<&FlowSummary>| flow.and_then(|flow| flow.verdict_also).map(|cause| cause.name());
    FlowComparison {
        name: name.to_owned(),
        cc_a: a.and_then(FlowSummary::cc_label),
        cc_b: b.and_then(FlowSummary::cc_label),
        cc_from_a: a.and_then(|flow| flow.cc_from.clone()),
        cc_from_b: b.and_then(|flow| flow.cc_from.clone()),
        verdict_a: verdict(a),
        verdict_b: verdict(b),
        verdict_also_a: also(a),
        verdict_also_b: also(b),
        metrics: metrics.collect(),
    }
}

fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::Cause;

    #[test]
    fn flows_are_matched_by_name_and_ratios_need_both_values() {
        let summary: schema::Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
        let (mut a, mut b) = (summary.runs[0].clone(), summary.runs[0].clone());
        let flow = |name: &str, goodput: f64| FlowSummary {
            name: name.into(),
            goodput_bps: Some(goodput),
            retransmitted_segs: Some(0),
            verdict: Some(Cause::Loss),
            ..FlowSummary::default()
        };
        a.flows = vec![flow("bulk", 4e9)];
        b.flows = vec![flow("other", 1e9), flow("bulk", 8e9)];
        let both = compare(&a, &b);
        assert_eq!(both.flows.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["bulk", "other"]);
        let bulk = &both.flows[0];
        assert_eq!((bulk.verdict_a, bulk.metrics.len()), (Some("loss"), 2));
        assert_eq!(bulk.metrics[0].ratio, Some(2.0));
        assert_eq!(bulk.metrics[1].ratio, None, "0 / 0");
        assert_eq!((both.flows[1].verdict_a, both.flows[1].metrics[0].a), (None, None));
    }
}
