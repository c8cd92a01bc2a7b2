//! The document that `longfat sweep --json` prints: `longfat.sweep/1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{EngineName, FigureBound, HostInfo};

/// The value of the document's `schema` field.
pub const SWEEP_SCHEMA: &str = "longfat.sweep/1";

/// A metric of one scenario over the values of fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Always [`SWEEP_SCHEMA`].
    pub schema: String,
    /// The scenario's name (its file's stem).
    pub scenario: String,
    /// The scenario's title.
    pub title: String,
    /// The scenario file, as in the summaries of its runs.
    #[serde(default)]
    pub file: Option<String>,
    /// The fields changed by `--set`, and their values.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// The machine.
    pub host: HostInfo,
    /// The metric, as in `flows.bulk.goodput`.
    pub metric: String,
    /// Its unit: `bit/s`, `s`, `B` or `1`.
    pub unit: String,
    /// The swept fields.
    pub fields: Vec<SweptField>,
    /// A row for each engine, variant and point, in the order of the sweep.
    pub points: Vec<SweepPoint>,
    /// The points at which the metric levels off over the first field, for each combination of the other
    /// fields.
    pub knees: Vec<SweepKnee>,
}

/// A swept field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptField {
    /// The path, as in `links.s1-s2.forward.queue`.
    pub field: String,
    /// The unit of its numbers: `B`, `bit/s`, `s`, `packets`, or empty.
    pub unit: String,
}

/// A value of a swept field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweptValue {
    /// As written.
    pub text: String,
    /// In the field's unit; `null` where it is not a number.
    pub number: Option<f64>,
}

/// The runs of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// `lab`, `sim`, `model`, or a guest kernel as in `kernel 6.1.192`.
    pub engine: String,
    /// The variant's name; `null` where the scenario has none.
    pub variant: Option<String>,
    /// A value of each field.
    pub values: Vec<SweptValue>,
    /// The swept fields and their values as written, as in a run's summary.
    #[serde(default)]
    pub sweep: BTreeMap<String, String>,
    /// The ids of its repeats.
    pub runs: Vec<String>,
    /// The directories of their records, in the same order; `null` for a run without one.
    #[serde(default)]
    pub records: Vec<Option<String>>,
    /// The number of these runs that were executed before and reused.
    pub earlier: u32,
    /// The metric of each run that has one.
    pub figures: Vec<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// The mean's confidence interval at 95 % (Student's t); `null` below two runs.
    pub confidence: Option<(f64, f64)>,
    /// False where the measurement of a run is unreliable; its record states why.
    pub quality_ok: bool,
    /// The buffers of the flow whose buffer the first field sets, where a kernel reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<SweptBuffers>,
}

/// The result of a request for a socket buffer, means over the runs of a point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SweptBuffers {
    /// The kernel's size (SO_SNDBUF or SO_RCVBUF), bytes: twice the request, within the host's limits.
    pub kernel_bytes: f64,
    /// Payload in flight that the buffer allowed in the steady part, bytes; `null` where it is unknown.
    pub used_bytes: Option<f64>,
}

/// The value from which a metric no longer rises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepKnee {
    /// The engine, as in [`SweepPoint::engine`].
    pub engine: String,
    /// The variant's name.
    pub variant: Option<String>,
    /// The values of the fields after the first.
    pub others: Vec<SweptValue>,
    /// The first field's value where the rise meets the plateau, in the field's unit.
    pub at: f64,
    /// The height of the plateau, in the metric's unit.
    pub plateau: f64,
    /// The first value from which all are within 5 % of the plateau; `null` where the last is not.
    pub level_from: Option<f64>,
    /// The window law's value, where the field is a socket buffer and the metric its flow's goodput.
    pub law: Option<WindowLaw>,
}

/// The window law: goodput = window / RTT, at the round-trip time of the loaded path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowLaw {
    /// The kernel's size of the buffer at the knee: twice the requested size.
    pub real_bytes: f64,
    /// Round-trip time of the loaded path at the knee: bytes in flight / bytes per second.
    pub loaded_rtt_us: f64,
    /// The window that gives the plateau at this round-trip time.
    pub window_bytes: f64,
    /// The size to request for that window.
    pub at: f64,
}

/// The document of `longfat sweep --fit --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitDocument {
    /// Always [`SWEEP_SCHEMA`].
    pub schema: String,
    /// The machine.
    pub host: HostInfo,
    /// The result of the search.
    pub fit: Fit,
}

/// The values of unknowns that match published figures best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The scenarios.
    pub scenarios: Vec<String>,
    /// The simulator or the model.
    pub engine: EngineName,
    /// The fields that were searched.
    pub unknowns: Vec<Unknown>,
    /// Root mean square of the figures' relative errors at the best values; `null` where a figure is missing.
    pub error: Option<f64>,
    /// The figures at the best values.
    pub figures: Vec<FitFigure>,
    /// All sets of values that were tried, in ascending order.
    pub tried: Vec<FitTried>,
    /// The number of runs.
    pub runs: u32,
}

/// A field that was searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unknown {
    /// The path.
    pub field: String,
    /// The unit of its numbers.
    pub unit: String,
    /// The lower end of the range that was searched.
    pub low: SweptValue,
    /// The upper end of the range.
    pub high: SweptValue,
    /// The best value.
    pub best: SweptValue,
}

/// A published figure and ours at the best values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitFigure {
    /// The scenario.
    pub scenario: String,
    /// The figure's id.
    pub id: String,
    /// Its variant.
    pub variant: Option<String>,
    /// The metric.
    pub metric: String,
    /// `bit/s`, `s`, `B` or `1`.
    pub unit: String,
    /// The published figure.
    pub published: f64,
    /// If the published figure is a bound: whether figures above or below it agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<FigureBound>,
    /// Our figure; `null` if the run has none.
    pub ours: Option<f64>,
    /// Our figure / the published one - 1; 0 within a bound.
    pub residual: Option<f64>,
}

/// One set of values that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitTried {
    /// A value of each unknown.
    pub values: Vec<SweptValue>,
    /// Root mean square of the relative errors; `null` where a figure is missing.
    pub error: Option<f64>,
    /// Our figures, in the order of [`Fit::figures`].
    pub figures: Vec<Option<f64>>,
}
