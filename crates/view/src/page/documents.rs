//! The JSON documents that the page reads. `web/src/api.ts` declares the same types; a test compares them.

use std::collections::BTreeMap;

use record::RunEntry;
use schema::{Cause, EngineName, HostInfo, PublishedResult, RunSummary, SweepKnee, SweptField, SweptValue};
use serde::{Deserialize, Serialize};

use super::marks::Mark;
use super::topology::Topology;
use crate::words;

/// An entry of the list of runs; `longfat ls --json` prints a list of these.
#[derive(Debug, Clone, Serialize)]
pub struct RunItem {
    /// The scenario's name.
    pub scenario: String,
    /// The run's id.
    pub id: String,
    /// The record's directory.
    pub path: std::path::PathBuf,
    /// Whether the run was ended early or is in progress.
    pub partial: bool,
    /// The run's data, if the record can be read.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownRun>,
    /// Why the record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The data of a run from its summary.
#[derive(Debug, Clone, Serialize)]
pub struct KnownRun {
    /// The engine.
    pub engine: EngineName,
    /// The variant's name.
    pub variant: Option<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// Its duration, seconds.
    pub duration_s: f64,
    /// Whether its measurements are reliable.
    pub quality_ok: bool,
    /// The flows.
    pub flows: Vec<KnownFlow>,
    /// The scenario's title.
    pub title: String,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// The swept fields and their values, as in `flows.bulk.cc=cubic`.
    pub sweep: Vec<String>,
    /// The swept values by field.
    pub point: BTreeMap<String, String>,
    /// The fields that `--set` changed, and their values.
    pub set: BTreeMap<String, String>,
    /// The scenario file as the user named it; `null` for runs without one.
    pub file: Option<String>,
    /// The kernel that was simulated or booted as a guest; `null` for this machine's.
    pub kernel: Option<String>,
    /// The random generator's seed.
    pub seed: u64,
}

/// The data of a flow from its summary.
#[derive(Debug, Clone, Serialize)]
pub struct KnownFlow {
    /// Its name.
    pub name: String,
    /// Goodput over its whole duration.
    pub goodput_bps: Option<f64>,
    /// The cause that limited it.
    pub verdict: Option<Cause>,
    /// A second cause that limited it as much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_also: Option<Cause>,
    /// Its congestion control.
    pub cc: Option<String>,
}

impl RunItem {
    /// The item of an entry of the runs directory.
    pub fn of(entry: &RunEntry) -> Self {
        let known = entry.run.as_ref().ok().map(|record| {
            let run = record.run();
            let flow = |flow: &schema::FlowSummary| KnownFlow {
                name: flow.name.clone(),
                goodput_bps: flow.goodput_bps,
                verdict: flow.verdict,
                verdict_also: flow.verdict_also,
                cc: flow.cc_label(),
            };
            KnownRun {
                engine: run.engine.clone(),
                variant: run.variant.clone(),
                started: run.started.clone(),
                duration_s: run.duration_s,
                quality_ok: run.quality.is_reliable(),
                flows: run.flows.iter().map(flow).collect(),
                title: record.summary.title.clone(),
                repeat: run.repeat,
                sweep: run.sweep.iter().map(|(field, value)| format!("{field}={value}")).collect(),
                point: run.sweep.clone(),
                set: run.set.clone(),
                file: run.file.clone(),
                kernel: run.kernel.clone(),
                seed: run.seed,
            }
        });
        RunItem {
            scenario: entry.scenario.clone(),
            id: entry.id.clone(),
            path: entry.location().into(),
            partial: entry.partial,
            known,
            error: entry.run.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The list of runs, newest last.
#[derive(Debug, Serialize)]
pub(crate) struct RunList {
    pub(crate) runs_dir: String,
    /// The runs that were named on the command line, as `scenario/id`.
    pub(crate) requested: Vec<String>,
    pub(crate) runs: Vec<RunItem>,
}

/// Which runs to open: `scenario/id` each.
#[derive(Debug, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) runs: Vec<String>,
}

/// A run without its series.
#[derive(Debug, Serialize)]
pub(crate) struct RunDetail {
    /// `scenario/id`.
    pub(crate) key: String,
    /// The shortest label that distinguishes it from the other requested runs.
    pub(crate) label: String,
    pub(crate) scenario: String,
    pub(crate) title: String,
    pub(crate) host: HostInfo,
    /// Whether the run was ended early or is in progress.
    pub(crate) partial: bool,
    /// Seconds since the record was last written.
    pub(crate) age_s: f64,
    /// The last sample's time, or the run's duration if that is later.
    pub(crate) end_s: f64,
    /// Samples of flows.
    pub(crate) rows: u64,
    /// The flows that have samples.
    pub(crate) flows: Vec<String>,
    /// The link directions that have samples.
    pub(crate) links: Vec<String>,
    /// The flows whose segments were traced.
    pub(crate) traced: Vec<String>,
    pub(crate) topology: Topology,
    pub(crate) summary: RunSummary,
    pub(crate) published: Vec<PublishedResult>,
}

/// Which curves to draw.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SeriesRequest {
    /// `scenario/id`.
    pub(crate) run: String,
    /// The span, seconds.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// The number of columns in the chart.
    pub(crate) columns: usize,
    /// Measures of flows, and the flows; all flows where none is named.
    #[serde(default)]
    pub(crate) measures: Vec<String>,
    #[serde(default)]
    pub(crate) flows: Vec<String>,
    /// Measures of links, and the links.
    #[serde(default)]
    pub(crate) link_measures: Vec<String>,
    #[serde(default)]
    pub(crate) links: Vec<String>,
    /// Lines of the time-sequence graph.
    #[serde(default)]
    pub(crate) trace: Vec<String>,
    /// Whether the response includes what limited the flows, and their events.
    #[serde(default)]
    pub(crate) causes: bool,
    #[serde(default)]
    pub(crate) events: bool,
}

/// Describes the numbers that follow: for each curve its times (seconds), then its values (base units), as
/// 64-bit floats; after all curves the shares of causes, one byte each.
#[derive(Debug, Serialize)]
pub(crate) struct SeriesHead {
    pub(crate) end_s: f64,
    pub(crate) curves: Vec<CurveHead>,
    pub(crate) causes: Vec<CausesHead>,
    pub(crate) marks: Vec<Mark>,
}

/// One curve.
#[derive(Debug, Serialize)]
pub(crate) struct CurveHead {
    /// `flow`, `link` or `trace`.
    pub(crate) of: String,
    pub(crate) subject: String,
    pub(crate) measure: String,
    pub(crate) points: usize,
    /// The number of means of a noisy measure; 0 if there are only points.
    pub(crate) means: usize,
}

/// The causes of one flow: one byte per column and cause, the cause's share of the column's time (255 is
/// all).
#[derive(Debug, Serialize)]
pub(crate) struct CausesHead {
    pub(crate) subject: String,
    pub(crate) columns: usize,
    /// The number of bytes, for all columns and causes.
    pub(crate) bytes: usize,
}

/// Names, explanations and colours, the same as in plots and reports.
#[derive(Debug, Serialize)]
pub(crate) struct Vocabulary {
    pub(crate) version: String,
    /// Whether the page can compute runs in the browser.
    pub(crate) can_compute: bool,
    pub(crate) causes: Vec<CauseWord>,
    /// Colours of curves, on light and dark background.
    pub(crate) colours: Vec<(String, String)>,
    /// The measures that a chart can show.
    pub(crate) measures: Vec<MeasureWord>,
    /// The sources of published figures: the id of a figure, and the citation.
    pub(crate) sources: Vec<(String, String)>,
}

/// A cause in words.
#[derive(Debug, Serialize)]
pub(crate) struct CauseWord {
    pub(crate) cause: Cause,
    pub(crate) name: String,
    pub(crate) explain: String,
    pub(crate) light: String,
    pub(crate) dark: String,
}

/// A measure in words.
#[derive(Debug, Serialize)]
pub(crate) struct MeasureWord {
    pub(crate) name: String,
    pub(crate) title: String,
    /// `b/s`, `B`, `s`, or empty for counts.
    pub(crate) unit: String,
    /// Whether it is a measure of links.
    pub(crate) of_links: bool,
}

impl Vocabulary {
    pub(crate) fn new(can_compute: bool, sources: Vec<(String, String)>) -> Self {
        let cause = |cause: Cause| {
            let (light, dark) = crate::style::cause_colours(cause);
            CauseWord {
                cause,
                name: words::cause(cause).into(),
                explain: words::explain(cause).into(),
                light: light.into(),
                dark: dark.into(),
            }
        };
        let measure = |name: &str| {
            let metric = crate::metric::Metric::parse(name).ok()?;
            Some(MeasureWord {
                name: name.into(),
                title: metric.title,
                unit: metric.unit.symbol().into(),
                of_links: metric.value.is_of_links(),
            })
        };
        let names = crate::metric_names::SHORT_NAMES.into_iter().chain(crate::metric_names::column_names());
        Vocabulary {
            version: env!("CARGO_PKG_VERSION").into(),
            can_compute,
            causes: Cause::ALL.into_iter().map(cause).collect(),
            colours: crate::style::SERIES
                .iter()
                .chain(&crate::style::MORE_SERIES)
                .map(|(light, dark)| (light.to_string(), dark.to_string()))
                .collect(),
            measures: names.filter_map(measure).collect(),
            sources,
        }
    }
}

/// The runs of one scenario's sweep.
#[derive(Debug, Serialize)]
pub(crate) struct SweepDocument {
    pub(crate) scenario: String,
    pub(crate) title: String,
    pub(crate) fields: Vec<SweptField>,
    pub(crate) metrics: Vec<SweepMetric>,
}

/// One metric over the points of a sweep.
#[derive(Debug, Serialize)]
pub(crate) struct SweepMetric {
    /// As in `flows.bulk.goodput`.
    pub(crate) name: String,
    /// `bit/s`, `s` or `1`.
    pub(crate) unit: String,
    pub(crate) points: Vec<MetricPoint>,
    pub(crate) knees: Vec<SweepKnee>,
    /// The knees in words, compared with the window law.
    pub(crate) knee_texts: Vec<String>,
}

/// The runs of one point.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MetricPoint {
    pub(crate) engine: String,
    pub(crate) variant: Option<String>,
    pub(crate) values: Vec<SweptValue>,
    /// `scenario/id` of each repeat that has the figure.
    pub(crate) runs: Vec<String>,
    pub(crate) figures: Vec<f64>,
    pub(crate) mean: f64,
}

/// A published figure and the newest runs compared with it.
#[derive(Debug, Serialize)]
pub(crate) struct PublishedRow {
    pub(crate) scenario: String,
    pub(crate) result: PublishedResult,
    /// `scenario/id` of the runs.
    pub(crate) runs: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that works without a server contains a copy of the vocabulary.
    /// `LONGFAT_UPDATE=1 cargo test -p longfat-view vocabulary` writes it.
    #[test]
    fn the_playgrounds_copy_of_the_vocabulary_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/playground/vocabulary.json");
        let vocabulary = Vocabulary { version: String::new(), ..Vocabulary::new(true, Vec::new()) };
        let text = serde_json::to_string(&vocabulary).unwrap() + "\n";
        if std::env::var_os("LONGFAT_UPDATE").is_some() {
            std::fs::write(path, text).unwrap();
            return;
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }
}
