//! The content of a plot before it is drawn: panels, curves in base units, the legend, the verdict's strips.
//!
//! In a plot of one run, the colour identifies the flow or link and the dash pattern the quantity. In a plot
//! of several runs the colour identifies the run and the dash pattern the flow. Noisy rates are averaged,
//! with the samples behind them.

use schema::{Cause, EventKind, FlowKind};

use crate::events::MarkKind;
use crate::label::{CcNames, run_labels};
use crate::loaded::LoadedRun;
use crate::metric::{Companion, Metric};
use crate::number::{self, SizeUnit};
use crate::plot_options::Reference;
use crate::series::{Point, decimate, range, smooth, smoothing_s};

/// Number of time intervals to which a curve is reduced, with two points each.
const BUCKETS: usize = 700;
/// A time span shorter than this (seconds) is shown sample by sample.
const UNAVERAGED_SPAN_S: f64 = 1.0;
/// Maximum number of link directions in a panel, the fullest first.
const MAX_LINKS: usize = 4;
/// A companion curve higher than this times the metric's own curves does not extend the axis.
const MAX_COMPANION_HEIGHT: f64 = 2.0;
/// Minimum duration of a stall that is drawn, microseconds.
const MIN_DRAWN_STALL_US: i64 = 1_000;
/// Maximum number of flows whose verdict is shown as a strip.
const MAX_STRIPS: usize = 6;

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    Solid,
    Dashed,
    Dotted,
    /// A dot at each point without a line, for echoes.
    Marks,
}

/// One curve of a panel.
pub(crate) struct Curve {
    pub(crate) colour: usize,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<Point>,
    /// The samples behind an averaged curve.
    pub(crate) raw: Vec<Point>,
    /// Whether the axis ignores it, so that it may extend above the panel.
    pub(crate) exceeds_axis: bool,
}

/// An event of a flow, drawn at the bottom of a panel.
pub(crate) struct Mark {
    pub(crate) at_s: f64,
    pub(crate) kind: MarkKind,
    pub(crate) colour: usize,
}

/// A span in which the measurement stalled, in seconds.
pub(crate) struct StalledSpan {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

/// One panel.
pub(crate) struct Panel<'a> {
    pub(crate) metric: &'a Metric,
    pub(crate) note: String,
    pub(crate) curves: Vec<Curve>,
    /// The meaning of the dash patterns, if there are several.
    pub(crate) strokes: Vec<(String, Stroke)>,
    pub(crate) marks: Vec<Mark>,
}

impl<'a> Panel<'a> {
    fn new(metric: &'a Metric) -> Self {
        Panel { metric, note: String::new(), curves: Vec::new(), strokes: Vec::new(), marks: Vec::new() }
    }
}

/// One flow's verdict over time.
pub(crate) struct Strip {
    pub(crate) label: String,
    pub(crate) causes: Vec<(f64, Option<Cause>)>,
}

/// The content of a plot.
pub(crate) struct Figure<'a> {
    runs: &'a [&'a LoadedRun],
    pub(crate) panels: Vec<Panel<'a>>,
    /// Text and colour.
    pub(crate) legend: Vec<(String, usize)>,
    pub(crate) strips: Vec<Strip>,
    /// Stalls of all runs, in a picture over time.
    pub(crate) stalls: Vec<StalledSpan>,
    /// The time shown, seconds.
    from_s: f64,
    pub(crate) end_s: f64,
}

impl<'a> Figure<'a> {
    pub(crate) fn of(runs: &'a [&'a LoadedRun], metrics: &'a [Metric]) -> Self {
        let end_s = runs.iter().map(|run| run.end_s()).fold(0.0, f64::max);
        Self::of_span(runs, metrics, (0.0, end_s))
    }

    /// A figure of a time span in seconds; the runs have only the rows of that span.
    pub(crate) fn of_span(
        runs: &'a [&'a LoadedRun],
        metrics: &'a [Metric],
        (from_s, end_s): (f64, f64),
    ) -> Self {
        let summaries: Vec<_> = runs.iter().map(|run| &run.run).collect();
        let mut labels = run_labels(&summaries);
        for (label, run) in labels.iter_mut().zip(runs) {
            if run.partial {
                label.push_str(" (partial)");
            }
        }
        let mut figure = Figure {
            runs,
            panels: Vec::new(),
            legend: Vec::new(),
            strips: strips(runs, &labels),
            stalls: runs.iter().flat_map(|run| stalls(run)).collect(),
            from_s,
            end_s,
        };
        if runs.len() > 1 {
            figure.legend = labels.into_iter().enumerate().map(|(index, label)| (label, index)).collect();
        }
        for metric in metrics {
            let panel = figure.panel(metric);
            figure.panels.push(panel);
        }
        figure.name_ccs();
        figure
    }

    /// Adds the congestion controls to the legend: in a plot of one run if they differ, in a plot of
    /// several runs if each has one flow.
    fn name_ccs(&mut self) {
        let ccs = CcNames::of(self.runs.iter().flat_map(|run| &run.run.flows));
        if !ccs.are_relevant() {
            return;
        }
        for (index, (name, _)) in self.legend.iter_mut().enumerate() {
            let flow = match self.runs {
                [run] => run.run.flows.iter().find(|flow| flow.name == *name),
                runs => match runs[index].run.flows.as_slice() {
                    [flow] => Some(flow),
                    _ => None,
                },
            };
            if let Some(cc) = flow.and_then(|flow| ccs.name(flow)).filter(|cc| cc != name) {
                name.push_str(&format!(": {cc}"));
            }
        }
    }

    /// `metrics` against another metric, and the largest value of that other metric. With `span_s` the runs
    /// have only the rows of that span; without it, the second half of each flow is shown, in which
    /// throughput is steady.
    pub(crate) fn against(
        runs: &'a [&'a LoadedRun],
        metrics: &'a [Metric],
        against: &Metric,
        span_s: Option<(f64, f64)>,
    ) -> (Self, f64) {
        let mut figure = Figure::of(runs, &[]);
        figure.strips.clear();
        figure.stalls.clear();
        let mut largest: f64 = 0.0;
        for metric in metrics {
            let mut panel = Panel::new(metric);
            for (run_index, run) in runs.iter().enumerate() {
                for flow in unique(run.flows.iter().map(|row| row.flow.clone())) {
                    let colour = if runs.len() > 1 { run_index } else { figure.legend_colour(&flow) };
                    let rows: Vec<_> = run.flows.iter().filter(|row| row.flow == flow).collect();
                    let first = if span_s.is_some() { 0 } else { rows.len() / 2 };
                    let points: Vec<Point> = rows[first..]
                        .iter()
                        .filter_map(|row| Some((against.value.of_flow(row)?, metric.value.of_flow(row))))
                        .filter(|(_, y)| y.is_some())
                        .collect();
                    largest = points.iter().map(|p| p.0).fold(largest, f64::max);
                    panel.curves.push(Curve {
                        colour,
                        stroke: Stroke::Marks,
                        points,
                        raw: Vec::new(),
                        exceeds_axis: false,
                    });
                }
            }
            panel.note = match panel.curves.iter().all(|c| c.points.is_empty()) {
                true => "no samples in this record".to_owned(),
                false => match span_s {
                    Some((from, to)) => format!("from {from} s to {to} s"),
                    None => "second half of each flow".to_owned(),
                },
            };
            figure.panels.push(panel);
        }
        figure.name_ccs();
        (figure, largest)
    }

    fn panel(&mut self, metric: &'a Metric) -> Panel<'a> {
        let mut panel = Panel::new(metric);
        let several_runs = self.runs.len() > 1;
        let curves_of_runs: Vec<Vec<(String, Vec<Point>)>> =
            self.runs.iter().map(|run| curves_of(run, metric)).collect();
        let names: Vec<String> = unique(curves_of_runs.iter().flatten().map(|(name, _)| name.clone()));
        let companions = if !several_runs || names.len() == 1 { metric.companions } else { &[] };
        let top = |curves: &Vec<(String, Vec<Point>)>| {
            curves.iter().filter_map(|(_, points)| Some(range(points)?.1)).fold(0.0, f64::max)
        };
        let height = MAX_COMPANION_HEIGHT * curves_of_runs.iter().map(top).fold(0.0, f64::max);
        let mut far_above: Vec<(&str, f64)> = Vec::new();
        for (run_index, (run, curves)) in self.runs.iter().zip(curves_of_runs).enumerate() {
            for (name, points) in curves {
                let colour = if several_runs { run_index } else { self.legend_colour(&name) };
                let stroke = stroke_of(run, &name, if several_runs { position(&names, &name) } else { 0 });
                if several_runs && names.len() > 1 && panel.strokes.iter().all(|(known, _)| *known != name) {
                    panel.strokes.push((name.clone(), stroke));
                }
                self.add_curve(&mut panel, colour, stroke, &points);
                if metric.is_window() {
                    panel.marks.extend(marks(run, &name, colour));
                }
                for (companion, stroke) in companions.iter().zip([Stroke::Dashed, Stroke::Dotted]) {
                    let points = companion_points(run, &name, companion);
                    if let Some((_, top)) = range(&points) {
                        let points = self.decimated(&points);
                        let exceeds_axis = top > height && height > 0.0;
                        if exceeds_axis {
                            match far_above.iter_mut().find(|(name, _)| *name == companion.name) {
                                Some((_, known)) => *known = known.max(top),
                                None => far_above.push((companion.name, top)),
                            }
                        }
                        panel.curves.push(Curve { colour, stroke, points, raw: Vec::new(), exceeds_axis });
                        add_unique(&mut panel.strokes, &metric.title.to_lowercase(), Stroke::Solid);
                        add_unique(&mut panel.strokes, companion.name, stroke);
                    }
                }
            }
        }
        if panel.curves.is_empty() {
            panel.note = "no samples in this record".to_owned();
        } else if panel.curves.iter().all(|curve| range(&curve.points) == Some((0.0, 0.0))) {
            panel.note = "0 throughout".to_owned();
        } else if !far_above.is_empty() {
            let far_above = far_above.iter().map(|(name, top)| {
                format!("{name} above the axis, up to {}", number::bytes_in(*top, SizeUnit::Decimal))
            });
            panel.note = far_above.collect::<Vec<_>>().join("; ");
        }
        panel
    }

    /// Adds a curve, averaged where samples are noisy and dense.
    fn add_curve(&self, panel: &mut Panel<'_>, colour: usize, stroke: Stroke, points: &[Point]) {
        let span_s = self.end_s - self.from_s;
        let window_s = smoothing_s(span_s);
        let drawn = self.decimated(points);
        // A short span shows every sample.
        let is_short = span_s < UNAVERAGED_SPAN_S;
        if is_short || !panel.metric.is_smoothed() || !is_denser_than(points, window_s) {
            panel.curves.push(Curve { colour, stroke, points: drawn, raw: Vec::new(), exceeds_axis: false });
            return;
        }
        let points = self.decimated(&smooth(points, window_s));
        panel.curves.push(Curve { colour, stroke, points, raw: drawn, exceeds_axis: false });
        panel.note = format!("mean over {}, samples in faint colour", short_time(window_s));
    }

    /// The points of a curve that are drawn.
    fn decimated(&self, points: &[Point]) -> Vec<Point> {
        decimate(points, (self.from_s, self.end_s), BUCKETS)
    }

    /// The colour of a flow or link in a plot of one run, in order of first appearance.
    fn legend_colour(&mut self, name: &str) -> usize {
        if let Some((_, colour)) = self.legend.iter().find(|(known, _)| known == name) {
            return *colour;
        }
        self.legend.push((name.to_owned(), self.legend.len()));
        self.legend.len() - 1
    }

    /// The wire limits of the flows shown, similar ones merged, and the caller's reference lines.
    pub(crate) fn references(&self, wanted: &[Reference]) -> Vec<Reference> {
        let mut found: Vec<Reference> = Vec::new();
        let flows =
            self.runs.iter().flat_map(|run| &run.run.flows).filter(|flow| flow.kind != FlowKind::Ping);
        for value_bps in flows.filter_map(|flow| flow.wire_limit_bps) {
            if found.iter().all(|known| (known.value_bps - value_bps).abs() > 0.01 * value_bps) {
                found.push(Reference { label: "wire limit".to_owned(), value_bps, run: None });
            }
        }
        found.extend(wanted.iter().cloned());
        found.retain(|reference| reference.value_bps.is_finite() && reference.value_bps > 0.0);
        found
    }
}

/// The curves of one run by flow or link, without those that have no value.
pub(crate) fn curves_of(run: &LoadedRun, metric: &Metric) -> Vec<(String, Vec<Point>)> {
    let mut curves: Vec<(String, Vec<Point>)> = Vec::new();
    let mut add = |name: String, time_us: i64, value: Option<f64>| {
        let point = (time_us as f64 / 1e6, value.filter(|v| v.is_finite()));
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => curves.push((name, vec![point])),
        }
    };
    if metric.value.is_of_links() {
        for row in &run.links {
            add(format!("{} {}", row.link, row.direction), row.time_us, metric.value.of_link(row));
        }
    } else {
        for row in &run.flows {
            add(row.flow.clone(), row.time_us, metric.value.of_flow(row));
        }
    }
    curves.retain(|(_, points)| range(points).is_some());
    if metric.value.is_of_links() {
        let top = |points: &[Point]| range(points).map_or(0.0, |(_, high)| high);
        curves.sort_by(|a, b| top(&b.1).total_cmp(&top(&a.1)));
        let used = curves.iter().filter(|(_, points)| top(points) > 0.0).count();
        curves.truncate(used.clamp(1, MAX_LINKS));
    }
    curves
}

/// The events of a flow's window.
fn marks<'a>(run: &'a LoadedRun, flow: &'a str, colour: usize) -> impl Iterator<Item = Mark> + 'a {
    let own = run.events.iter().filter(move |event| event.subject == flow);
    own.filter_map(move |event| {
        Some(Mark { at_s: event.time_us as f64 * 1e-6, kind: MarkKind::of(event)?, colour })
    })
}

/// The stalls of a run that are long enough to be drawn.
fn stalls(run: &LoadedRun) -> impl Iterator<Item = StalledSpan> + '_ {
    let long = run.events.iter().filter(|e| e.kind == EventKind::Stall && e.value >= MIN_DRAWN_STALL_US);
    long.map(|event| StalledSpan {
        from_s: event.time_us as f64 * 1e-6,
        to_s: event.time_us.saturating_add(event.value) as f64 * 1e-6,
    })
}

fn companion_points(run: &LoadedRun, flow: &str, companion: &Companion) -> Vec<Point> {
    let rows = run.flows.iter().filter(|row| row.flow == flow);
    rows.map(|row| (row.time_us as f64 / 1e6, (companion.value)(row))).collect()
}

/// The verdict over time of each flow that has one.
fn strips(runs: &[&LoadedRun], labels: &[String]) -> Vec<Strip> {
    let mut strips = Vec::new();
    for (run, run_label) in runs.iter().zip(labels) {
        for name in
            unique(run.flows.iter().filter(|row| row.limited_by.is_some()).map(|row| row.flow.clone()))
        {
            let rows = run.flows.iter().filter(|row| row.flow == name);
            let causes = rows.map(|row| (row.time_us as f64 / 1e6, row.limited_by)).collect();
            let label = if runs.len() > 1 { run_label.clone() } else { name };
            strips.push(Strip { label, causes });
        }
    }
    strips.truncate(MAX_STRIPS);
    strips
}

/// Dots for ping flows; for others a dash pattern by their index among the panel's flows.
fn stroke_of(run: &LoadedRun, flow: &str, index: usize) -> Stroke {
    if run.run.flows.iter().any(|f| f.name == flow && f.kind == FlowKind::Ping) {
        return Stroke::Marks;
    }
    [Stroke::Solid, Stroke::Dashed, Stroke::Dotted][index % 3]
}

/// Whether points are denser than `window_s`, so that averaging has an effect.
fn is_denser_than(points: &[Point], window_s: f64) -> bool {
    let span = points.last().map_or(0.0, |last| last.0) - points.first().map_or(0.0, |first| first.0);
    points.len() > 2 && span / (points.len() - 1) as f64 <= 0.5 * window_s
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn add_unique(strokes: &mut Vec<(String, Stroke)>, name: &str, stroke: Stroke) {
    if strokes.iter().all(|(known, _)| known != name) {
        strokes.push((name.to_owned(), stroke));
    }
}

fn position(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or(0)
}

fn short_time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.0} s") }
}
