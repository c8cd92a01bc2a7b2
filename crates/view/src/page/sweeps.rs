//! Sweeps and published figures, gathered from the records of all runs.

use std::collections::BTreeMap;

use record::{Run, RunEntry};
use scenario::Amount;
use schema::{PublishedResult, PublishedVerdict, RunSummary, SweepKnee, SweptField, SweptValue};

use super::documents::{MetricPoint, PublishedRow, SweepDocument, SweepMetric};
use model::KneePoint;

use crate::settings::{Settings, changed_fields, distinguishing};
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
        if let Some(run) = entry.run.as_ref().ok().map(Run::run).filter(|run| !run.sweep.is_empty()) {
            let fields = run.sweep.keys().cloned().collect();
            groups.entry((entry.scenario.clone(), fields)).or_default().push(entry);
        }
    }
    groups.into_iter().map(|((scenario, fields), entries)| document(scenario, fields, &entries)).collect()
}

fn document(scenario: String, names: Vec<String>, entries: &[&RunEntry]) -> SweepDocument {
    let runs: Vec<(String, &Run)> = entries
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
    let engines = engine_labels(&runs);
    let metric = |flow: &str, (metric, unit, of): (&str, &str, FlowFigure)| {
        let points = points(&runs, &engines, &fields, |run| of(run.flows.iter().find(|f| f.name == flow)?));
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

/// The engine of each run, with the settings that distinguish its line from others of the engine.
fn engine_labels(runs: &[(String, &Run)]) -> Vec<String> {
    let summaries: Vec<(&str, &RunSummary)> = runs.iter().map(|(_, record)| ("", record.run())).collect();
    let label = |((_, run), settings): (&(&str, &RunSummary), Settings<'_>)| {
        let settings = settings.iter().map(|(name, value)| format!(" {name}={value}"));
        run.engine_label() + &settings.collect::<String>()
    };
    summaries.iter().zip(distinguishing(&summaries)).map(label).collect()
}

/// The points of a metric; `engines` has the label of each run's engine.
fn points(
    runs: &[(String, &Run)],
    engines: &[String],
    fields: &[SweptField],
    figure: impl Fn(&RunSummary) -> Option<f64>,
) -> Vec<MetricPoint> {
    let mut points: Vec<MetricPoint> = Vec::new();
    for ((key, record), engine) in runs.iter().zip(engines) {
        let run = record.run();
        let Some(found) = figure(run) else { continue };
        let value = |field: &SweptField| {
            let text = run.sweep.get(&field.field).cloned().unwrap_or_default();
            SweptValue { number: Amount::parse(&text).map(|amount| amount.value), text }
        };
        let values: Vec<SweptValue> = fields.iter().map(value).collect();
        let same =
            |p: &&mut MetricPoint| (&p.engine, &p.variant, &p.values) == (engine, &run.variant, &values);
        match points.iter_mut().find(same) {
            Some(point) => {
                point.runs.push(key.clone());
                point.figures.push(found);
            }
            None => points.push(MetricPoint {
                engine: engine.clone(),
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
    runs: &[(String, &Run)],
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
    let newest_first = entries.iter().rev();
    let mut rows = gathered(newest_first.filter_map(|entry| {
        Some((entry.scenario.as_str(), format!("{}/{}", entry.scenario, entry.id), entry.run.as_ref().ok()?))
    }));
    rows.sort_by(|a, b| (&a.scenario, &a.result.id).cmp(&(&b.scenario, &b.result.id)));
    rows
}

/// The published figures of records of one scenario, each with the figure of the first run of each engine.
pub fn gather_published(records: &[Run]) -> Vec<PublishedResult> {
    let rows = gathered(records.iter().map(|record| ("", String::new(), record)));
    rows.into_iter().map(|row| row.result).collect()
}

/// The published figures of records, each with its scenario and key: with the figure of the first run of each
/// engine. Runs changed by `--set` are used only for figures that no other run has, and only together with
/// runs changed in the same way.
fn gathered<'a>(records: impl Iterator<Item = (&'a str, String, &'a Run)>) -> Vec<PublishedRow> {
    let with_changes =
        records.map(|(scenario, key, record)| (changed_fields(record.run()), scenario, key, record));
    let (unchanged, changed): (Vec<_>, Vec<_>) = with_changes.partition(|(fields, ..)| fields.is_empty());
    let mut rows: Vec<(Settings<'_>, PublishedRow)> = Vec::new();
    for (fields, scenario, key, record) in unchanged.into_iter().chain(changed) {
        for result in &record.summary.published {
            let same = |(_, row): &&mut (Settings<'_>, PublishedRow)| {
                row.scenario == scenario && is_same(&row.result, result)
            };
            match rows.iter_mut().find(same) {
                Some((known, row)) if *known == fields => {
                    add_published(&mut row.result, result);
                    row.runs.push(key.clone());
                }
                Some(_) => {}
                None => {
                    let (scenario, runs) = (scenario.to_owned(), vec![key.clone()]);
                    rows.push((fields.clone(), PublishedRow { scenario, result: result.clone(), runs }));
                }
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn is_same(a: &PublishedResult, b: &PublishedResult) -> bool {
    (&a.id, a.kind, &a.metric, &a.variant) == (&b.id, b.kind, &b.metric, &b.variant)
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

#[cfg(test)]
mod tests {
    use schema::{FlowSummary, Summary};

    use super::*;

    /// Engine, settings and goodput of a run.
    type Given<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

    /// Records of these runs, oldest first, each with a published figure of its goodput.
    fn records(dir: &std::path::Path, runs: &[Given<'_>]) -> Vec<RunEntry> {
        for (at, (engine, set, goodput)) in runs.iter().enumerate() {
            let mut summary: Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
            let run = &mut summary.runs[0];
            run.engine = (*engine).into();
            run.set = set.iter().map(|(field, value)| ((*field).into(), (*value).into())).collect();
            run.sweep = [("queue".into(), "100p".into())].into();
            run.flows = vec![FlowSummary {
                name: "bulk".into(),
                goodput_bps: Some(*goodput),
                ..FlowSummary::default()
            }];
            let figure = serde_json::json!({
                "id": "P", "metric": "flows.bulk.goodput", "published": 1.0, "unit": "bit/s", "tolerance": 0.1, "model": null,
                "sim": null, "lab": null, "verdict": "within", "why": null, (*engine): goodput,
            });
            summary.published = vec![serde_json::from_value(figure).unwrap()];
            let id = format!("20261121T03150{at}Z-{engine}");
            let writer = record::Writer::create(dir, "s", &id, "", &summary).unwrap();
            writer.finish(&summary, &[], &[], &[]).unwrap();
        }
        record::list(dir).unwrap()
    }

    #[test]
    fn only_repeats_are_averaged() {
        let dir = tempfile::tempdir().unwrap();
        let entries = records(
            dir.path(),
            &[
                ("sim", &[("seed", "1")], 10.0),
                ("sim", &[("seed", "2")], 20.0),
                ("sim", &[("duration", "5s")], 90.0),
                ("lab", &[("duration", "5s")], 50.0),
            ],
        );
        let [sweep]: [SweepDocument; 1] = sweeps(&entries).try_into().unwrap();
        let metric = sweep.metrics.iter().find(|metric| metric.name == "flows.bulk.goodput").unwrap();
        let means: Vec<_> = metric.points.iter().map(|point| (point.engine.as_str(), point.mean)).collect();
        assert_eq!(means, [("sim", 15.0), ("sim duration=5s", 90.0), ("lab", 50.0)]);
    }

    #[test]
    fn changed_runs_do_not_replace_published_figures_of_unchanged_ones() {
        let dir = tempfile::tempdir().unwrap();
        let changed: &[(&str, &str)] = &[("duration", "5s")];
        let entries = records(
            dir.path(),
            &[
                ("sim", &[], 10.0),
                ("sim", &[("seed", "2")], 20.0),
                ("sim", changed, 90.0),
                ("lab", changed, 50.0),
            ],
        );
        let [row]: [PublishedRow; 1] = published(&entries).try_into().unwrap();
        assert_eq!(
            (row.result.sim, row.result.lab, row.runs.len()),
            (Some(20.0), None, 2),
            "the newest unchanged"
        );
        let runs: Vec<Run> = entries.into_iter().filter_map(|entry| entry.run.ok()).collect();
        let [result]: [PublishedResult; 1] = gather_published(&runs).try_into().unwrap();
        assert_eq!((result.sim, result.lab), (Some(10.0), None), "the first unchanged");
        let [result]: [PublishedResult; 1] = gather_published(&runs[2..]).try_into().unwrap();
        assert_eq!((result.sim, result.lab), (Some(90.0), Some(50.0)), "equally changed");
    }
}
