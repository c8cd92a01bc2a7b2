//! Sweeps and published figures, gathered from the records of all runs.

use std::collections::BTreeMap;

use record::RunEntry;
use scenario::Amount;
use schema::{PublishedResult, PublishedVerdict, RunSummary, SweepKnee, SweptField, SweptValue};

use super::documents::{MetricPoint, PublishedRow, SweepDocument, SweepMetric};
use model::KneePoint;

use crate::sweep::describe_knee;

/// A metric's value in a flow's summary.
type FlowFigure = fn(&schema::FlowSummary) -> Option<f64>;
/// Name, unit and value of the metrics of each flow.
const METRICS: [(&str, &str, FlowFigure); 4] = [
    ("goodput", "bit/s", |flow| flow.goodput_bps),
    ("steady_goodput", "bit/s", |flow| flow.steady_goodput_bps),
    ("mean_rtt", "s", |flow| flow.mean_rtt_us.map(|us| us / 1e6)),
    ("retransmitted", "1", |flow| {
        let sent = flow.sent_segs.filter(|sent| *sent > 0)?;
        Some(flow.retransmitted_segs? as f64 / sent as f64)
    }),
];

/// A sweep for each scenario and set of swept fields.
pub(crate) fn sweeps(entries: &[RunEntry]) -> Vec<SweepDocument> {
    let mut groups: BTreeMap<(String, Vec<String>), Vec<&RunEntry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.partial) {
        if let Some(run) = entry.run.as_ref().ok().map(record::Run::run).filter(|run| !run.sweep.is_empty()) {
            let fields = run.sweep.keys().cloned().collect();
            groups.entry((entry.scenario.clone(), fields)).or_default().push(entry);
        }
    }
    groups.into_iter().map(|((scenario, fields), entries)| document(scenario, fields, &entries)).collect()
}

fn document(scenario: String, names: Vec<String>, entries: &[&RunEntry]) -> SweepDocument {
    let runs: Vec<(String, &record::Run)> = entries
        .iter()
        .filter_map(|entry| Some((format!("{}/{}", entry.scenario, entry.id), entry.run.as_ref().ok()?)))
        .collect();
    let unit = |name: &String| {
        let first = runs.iter().find_map(|(_, run)| Amount::parse(run.run().sweep.get(name)?));
        first.map_or("", Amount::unit).to_owned()
    };
    // The first axis is the field with the most distinct numbers.
    let mut fields: Vec<SweptField> =
        names.iter().map(|n| SweptField { field: n.clone(), unit: unit(n) }).collect();
    let numbers = |field: &SweptField| {
        let values = runs.iter().filter_map(|(_, run)| run.run().sweep.get(&field.field));
        values.filter(|v| Amount::parse(v).is_some()).collect::<std::collections::BTreeSet<_>>().len()
    };
    fields.sort_by_key(|field| std::cmp::Reverse(numbers(field)));
    let mut flows: Vec<&str> = Vec::new();
    for flow in runs.iter().flat_map(|(_, run)| &run.run().flows) {
        if !flows.contains(&flow.name.as_str()) {
            flows.push(&flow.name);
        }
    }
    let metric = |flow: &str, (metric, unit, of): (&str, &str, FlowFigure)| {
        let points = points(&runs, &fields, |run| of(run.flows.iter().find(|f| f.name == flow)?));
        let name = format!("flows.{flow}.{metric}");
        let (knees, knee_texts) = knees(&runs, &points, &fields, (&name, unit));
        SweepMetric { name, unit: unit.into(), points, knees, knee_texts }
    };
    let metrics = flows.iter().flat_map(|flow| METRICS.iter().map(|known| metric(flow, *known)));
    SweepDocument {
        title: runs.first().map(|(_, run)| run.summary.title.clone()).unwrap_or_default(),
        metrics: metrics.filter(|metric| !metric.points.is_empty()).collect(),
        scenario,
        fields,
    }
}

fn points(
    runs: &[(String, &record::Run)],
    fields: &[SweptField],
    figure: impl Fn(&RunSummary) -> Option<f64>,
) -> Vec<MetricPoint> {
    let mut points: Vec<MetricPoint> = Vec::new();
    for (key, record) in runs {
        let run = record.run();
        let Some(found) = figure(run) else { continue };
        let value = |field: &SweptField| {
            let text = run.sweep.get(&field.field).cloned().unwrap_or_default();
            SweptValue { number: Amount::parse(&text).map(|amount| amount.value), text }
        };
        let values: Vec<SweptValue> = fields.iter().map(value).collect();
        let engine = run.engine_label();
        let same =
            |p: &&mut MetricPoint| (&p.engine, &p.variant, &p.values) == (&engine, &run.variant, &values);
        match points.iter_mut().find(same) {
            Some(point) => {
                point.runs.push(key.clone());
                point.figures.push(found);
            }
            None => points.push(MetricPoint {
                engine,
                variant: run.variant.clone(),
                values,
                runs: vec![key.clone()],
                figures: vec![found],
                mean: found,
            }),
        }
    }
    for point in &mut points {
        point.mean = point.figures.iter().sum::<f64>() / point.figures.len() as f64;
    }
    let first = |point: &MetricPoint| point.values.first().and_then(|v| v.number).unwrap_or(f64::INFINITY);
    points.sort_by(|a, b| first(a).total_cmp(&first(b)));
    points
}

/// The knees of the metric over the first field, and the same in words.
fn knees(
    runs: &[(String, &record::Run)],
    points: &[MetricPoint],
    fields: &[SweptField],
    metric: (&str, &str),
) -> (Vec<SweepKnee>, Vec<String>) {
    let Some(first) = fields.first() else { return Default::default() };
    let summary = |key: &String| runs.iter().find(|(known, _)| known == key).map(|(_, run)| run.run());
    let points: Vec<KneePoint<'_>> = points
        .iter()
        .map(|point| KneePoint {
            engine: &point.engine,
            variant: point.variant.as_deref(),
            values: &point.values,
            mean: point.mean,
            runs: point.runs.iter().filter_map(summary).collect(),
        })
        .collect();
    let found = model::knees(&points, &first.field, metric.0);
    let texts = found.iter().map(|knee| {
        let others = knee.others.iter().map(|value| value.text.as_str());
        let of: Vec<&str> =
            [knee.engine.as_str()].into_iter().chain(knee.variant.as_deref()).chain(others).collect();
        describe_knee(&of.join(" "), first, metric.1, knee)
    });
    let texts = texts.collect();
    (found, texts)
}

/// The published figures of all records, each with the figure of the newest run of each engine.
pub(crate) fn published(entries: &[RunEntry]) -> Vec<PublishedRow> {
    let mut rows: Vec<PublishedRow> = Vec::new();
    for entry in entries.iter().rev() {
        let Ok(record) = &entry.run else { continue };
        let key = format!("{}/{}", entry.scenario, entry.id);
        for result in &record.summary.published {
            let same =
                |row: &&mut PublishedRow| row.scenario == entry.scenario && is_same(&row.result, result);
            match rows.iter_mut().find(same) {
                Some(row) => {
                    add_published(&mut row.result, result);
                    row.runs.push(key.clone());
                }
                None => rows.push(PublishedRow {
                    scenario: entry.scenario.clone(),
                    result: result.clone(),
                    runs: vec![key.clone()],
                }),
            }
        }
    }
    rows.sort_by(|a, b| (&a.scenario, &a.result.id).cmp(&(&b.scenario, &b.result.id)));
    rows
}

fn is_same(a: &PublishedResult, b: &PublishedResult) -> bool {
    (&a.id, a.kind, &a.metric, &a.variant) == (&b.id, b.kind, &b.metric, &b.variant)
}

/// Merges a published figure of another record into `all`.
pub fn gather_published(all: &mut Vec<PublishedResult>, one: &PublishedResult) {
    match all.iter_mut().find(|known| is_same(known, one)) {
        Some(known) => add_published(known, one),
        None => all.push(one.clone()),
    }
}

/// Adds the figures of another record. The verdict is the worst of the engines that apply; in records of
/// earlier versions, which have no verdict per engine, it is that of the engine closest to reality.
fn add_published(known: &mut PublishedResult, one: &PublishedResult) {
    let rank = |p: &PublishedResult| {
        (p.hosts.is_some(), !p.kernels.is_empty(), p.lab.is_some(), p.sim.is_some(), p.model.is_some())
    };
    if rank(one) > rank(known) {
        known.verdict = one.verdict;
    }
    for judged in &one.judged {
        if known.judged(&judged.engine, judged.kernel.as_deref()).is_none() {
            known.judged.push(judged.clone());
        }
    }
    if !known.judged.is_empty() {
        known.verdict = PublishedVerdict::worst(known.judged.iter().map(|judged| judged.verdict));
    }
    known.model = known.model.or(one.model);
    known.model_published_kernel = known.model_published_kernel.or(one.model_published_kernel);
    known.sim = known.sim.or(one.sim);
    known.lab = known.lab.or(one.lab);
    known.hosts = known.hosts.or(one.hosts);
    for guest in &one.kernels {
        if !known.kernels.iter().any(|own| own.kernel == guest.kernel) {
            known.kernels.push(guest.clone());
        }
    }
}
