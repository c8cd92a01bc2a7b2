//! Distributions: a figure of each run over repeats and sweep points, or the samples of a metric within runs,
//! as box plots and as empirical distribution functions.
//!
//! Runs that differ only in repeat and seed are one group. All values have the same weight: samples are not
//! weighted by time.

mod box_plot;
mod cdf;
mod grouping;
mod statistics;

use schema::RunSummary;
use serde::Serialize;

use self::grouping::{Grouping, group_runs};
pub use self::statistics::BoxFigures;
use crate::axis::Unit;
use crate::canvas::{self, Anchor, Canvas, fit};
use crate::figure::curves_of;
use crate::metric::Metric;
use crate::{ChartValue, Error, LoadedRun, PlotOptions, axis_name, number};

const LEFT: f64 = 66.0;
const RIGHT: f64 = 22.0;
const TEXT: f64 = 12.0;
/// Default height of the plotting area, pixels.
const HEIGHT: u32 = 320;
/// Groups with fewer values are drawn without quartiles.
const FEW: usize = 5;
/// Groups with at most this many values show each as a dot.
const MAX_DOTS: usize = 60;
/// Colours of the style sheet; further series have a dash pattern too.
const COLOURS: usize = 7;

/// The values of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueGroup {
    /// Its label without the value of the swept field; may be empty.
    pub series: String,
    /// The value of the swept field, if one is on the axis.
    pub at: Option<ChartValue>,
    /// Its values in ascending order, in base units; not empty.
    pub values: Vec<f64>,
}

/// The figures of a group, for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupFigures {
    /// The group's label; may be empty.
    pub group: String,
    /// Its number of values.
    pub count: usize,
    /// Smallest value.
    pub min: f64,
    /// Lower quartile.
    pub lower_quartile: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub upper_quartile: f64,
    /// Largest value.
    pub max: f64,
}

/// The kind of a value: of a run, or of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueOf {
    Run,
    Sample,
}

/// Values by group, ready to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    title: String,
    /// The metric's name for an axis, without unit.
    name: String,
    unit: Unit,
    value_of: ValueOf,
    /// The swept field on the axis.
    field: Option<String>,
    groups: Vec<ValueGroup>,
    /// Remarks about the data: runs that are excluded or unreliable.
    remarks: Vec<String>,
}

impl Distribution {
    /// The figure `path` (as in `flows.bulk.goodput`, with `value` in `unit`: `bit/s`, `B`, `s` or `1`) of
    /// each complete run.
    ///
    /// # Errors
    /// No complete run has a value.
    pub fn of_figure(
        runs: &[record::Run],
        path: &str,
        unit: &str,
        value: impl Fn(&RunSummary) -> Option<f64>,
    ) -> Result<Self, Error> {
        let complete: Vec<&record::Run> = runs.iter().filter(|run| !run.partial).collect();
        let known: Vec<(&record::Run, f64)> =
            complete.iter().filter_map(|run| Some((*run, value(run.run())?))).collect();
        let Some((first, _)) = known.first() else { return Err(Error::NoValues { name: path.to_owned() }) };
        let mut remarks = Vec::new();
        add_count(&mut remarks, runs.len() - complete.len(), "cut short and excluded");
        add_count(&mut remarks, complete.len() - known.len(), "without a value");
        add_count(
            &mut remarks,
            known.iter().filter(|(run, _)| !run.run().quality.is_reliable()).count(),
            "unreliable",
        );
        let identities: Vec<(&str, &RunSummary)> =
            known.iter().map(|(run, _)| (run.summary.scenario.as_str(), run.run())).collect();
        let Grouping { field, groups } = group_runs(&identities);
        let values = |runs: &[usize]| runs.iter().map(|index| known[*index].1).collect();
        let groups =
            groups.into_iter().map(|group| ValueGroup::new(group.series, group.at, values(&group.runs)));
        Ok(Distribution {
            title: first.summary.title.clone(),
            name: figure_name(path),
            unit: Unit::of_figure(unit),
            value_of: ValueOf::Run,
            field,
            groups: groups.collect(),
            remarks,
        })
    }

    /// The samples of a metric (a short name or a column, as in [`crate::plot`]) of each flow or link of the
    /// runs, of all repeats together; `span_s`: only those between two instants, seconds since the start.
    ///
    /// # Errors
    /// The metric is unknown, or has no samples.
    pub fn of_samples(runs: &[LoadedRun], metric: &str, span_s: Option<(f64, f64)>) -> Result<Self, Error> {
        let metric = Metric::parse(metric)?;
        let identities: Vec<(&str, &RunSummary)> =
            runs.iter().map(|run| (run.scenario.as_str(), &run.run)).collect();
        let Grouping { field, groups } = group_runs(&identities);
        let mut found: Vec<(String, ValueGroup)> = Vec::new();
        for group in groups {
            for index in group.runs {
                let part = span_s.map(|(from, to)| runs[index].between(from, to));
                for (name, points) in curves_of(part.as_ref().unwrap_or(&runs[index]), &metric) {
                    let values = points.into_iter().filter_map(|(_, value)| value);
                    let is_this = |(known, of): &&mut (String, ValueGroup)| {
                        *known == name && of.series == group.series && of.at == group.at
                    };
                    match found.iter_mut().find(is_this) {
                        Some((_, known)) => known.values.extend(values),
                        None => found.push((
                            name,
                            ValueGroup {
                                series: group.series.clone(),
                                at: group.at.clone(),
                                values: values.collect(),
                            },
                        )),
                    }
                }
            }
        }
        let (Some(run), Some((first, _))) = (runs.first(), found.first()) else {
            return Err(Error::NoValues { name: metric.name });
        };
        let has_several = found.iter().any(|(name, _)| name != first);
        let mut name = metric.title.clone();
        if !has_several {
            name.push_str(&format!(" of {first}"));
        }
        let groups = found.into_iter().map(|(flow, group)| {
            let parts = [group.series, if has_several { flow } else { String::new() }];
            let series: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            ValueGroup::new(series.join(", "), group.at, group.values)
        });
        let mut remarks = Vec::new();
        add_count(&mut remarks, runs.iter().filter(|run| run.partial).count(), "cut short");
        add_count(
            &mut remarks,
            runs.iter().filter(|run| !run.run.quality.is_reliable()).count(),
            "unreliable",
        );
        remarks.extend(span_s.map(|(from, to)| format!("from {from} s to {to} s")));
        Ok(Distribution {
            title: run.title.clone(),
            name,
            unit: metric.unit,
            value_of: ValueOf::Sample,
            field,
            groups: groups.collect(),
            remarks,
        })
    }

    /// The groups, in the order in which they are drawn.
    pub fn groups(&self) -> &[ValueGroup] {
        &self.groups
    }

    /// The figures of all groups, in base units (bit/s, bytes, seconds).
    pub fn figures(&self) -> Vec<GroupFigures> {
        let of = |group: &ValueGroup| {
            let found = BoxFigures::of(&group.values)?;
            Some(GroupFigures {
                group: group.label(self.field.as_deref()),
                count: found.count,
                min: found.min,
                lower_quartile: found.lower_quartile,
                median: found.median,
                upper_quartile: found.upper_quartile,
                max: found.max,
            })
        };
        self.groups.iter().filter_map(of).collect()
    }

    /// Box plots as SVG: median, quartiles, whiskers of 1.5 interquartile ranges, and single values or
    /// outliers as dots. A group of fewer than five values has only dots.
    pub fn box_plot(&self, options: &PlotOptions) -> String {
        box_plot::draw(self, options)
    }

    /// The empirical distribution function of each group as SVG.
    pub fn cdf(&self, options: &PlotOptions) -> String {
        cdf::draw(self, options)
    }

    /// Options for these pictures.
    pub fn default_options(&self) -> PlotOptions {
        PlotOptions { title: Some(self.title.clone()), panel_height: HEIGHT, ..PlotOptions::default() }
    }

    /// `run` or `sample`, with an s for several.
    fn noun(&self, count: usize) -> &'static str {
        match (self.value_of, count) {
            (ValueOf::Run, 1) => "run",
            (ValueOf::Run, _) => "runs",
            (ValueOf::Sample, 1) => "sample",
            (ValueOf::Sample, _) => "samples",
        }
    }

    /// The number of values of the groups, as in `3 to 5 runs in each group`.
    fn counts(&self) -> String {
        let counts = || self.groups.iter().map(|group| group.values.len());
        let (min, max) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let each = if self.groups.len() > 1 { " in each group" } else { "" };
        let shown = |count: usize| number::count(count as u64);
        match min == max {
            true => format!("{} {}{each}", shown(max), self.noun(max)),
            false => format!("{} to {} {}{each}", shown(min), shown(max), self.noun(max)),
        }
    }

    /// The smallest and the largest value.
    fn range(&self) -> (f64, f64) {
        let ends =
            self.groups.iter().filter_map(|group| Some((*group.values.first()?, *group.values.last()?)));
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (first, last)| {
            (low.min(first), high.max(last))
        })
    }

    /// The distinct series, in order.
    fn series(&self) -> Vec<&str> {
        let mut series: Vec<&str> = Vec::new();
        for group in &self.groups {
            if !series.contains(&group.series.as_str()) {
                series.push(&group.series);
            }
        }
        series
    }
}

impl ValueGroup {
    fn new(series: String, at: Option<ChartValue>, mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        ValueGroup { series, at, values }
    }

    /// Everything that distinguishes the group; `field` is the swept field on the axis.
    fn label(&self, field: Option<&str>) -> String {
        let short = field.and_then(|field| field.rsplit('.').next()).unwrap_or_default();
        let at = self.at.as_ref().map(|at| format!("{short} {}", at.text).trim().to_owned());
        let parts = [Some(self.series.clone()).filter(|series| !series.is_empty()), at];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The name of a figure, as in `Goodput of bulk`.
fn figure_name(path: &str) -> String {
    let title = axis_name::title(path);
    match path.split('.').collect::<Vec<_>>()[..] {
        ["flows" | "links", of, _] => format!("{title} of {of}"),
        ["links", of, direction, _] => format!("{title} of {of} {direction}"),
        ["run", "goodput"] => "Total goodput".to_owned(),
        ["run", "jain"] => "Jain's fairness index".to_owned(),
        _ => title,
    }
}

fn add_count(remarks: &mut Vec<String>, runs: usize, what: &str) {
    match runs {
        0 => {}
        1 => remarks.push(format!("1 run {what}")),
        _ => remarks.push(format!("{runs} runs {what}")),
    }
}

/// Draws the title and returns the next free y coordinate.
fn draw_title(canvas: &mut Canvas, options: &PlotOptions, width: f64) -> f64 {
    let Some(title) = &options.title else { return 10.0 };
    40.0 + canvas::draw_title(canvas, LEFT, 26.0, title, width)
}

/// Draws a heading with notes below it, as many lines as they need, and returns the next free y coordinate.
fn draw_heading(canvas: &mut Canvas, heading: &str, notes: &[String], width: f64, top: f64) -> f64 {
    canvas.heading(LEFT, top + 13.0, &fit(heading, 14.5, width), "");
    let mut y = top + 13.0;
    let mut line = String::new();
    for note in notes {
        let longer = if line.is_empty() { note.clone() } else { format!("{line}; {note}") };
        if crate::canvas::text_width(&longer, TEXT) > width && !line.is_empty() {
            y += 17.0;
            canvas.text(LEFT, y, Anchor::Start, "note", &line);
            line = note.clone();
        } else {
            line = longer;
        }
    }
    if !line.is_empty() {
        y += 17.0;
        canvas.text(LEFT, y, Anchor::Start, "note", &fit(&line, TEXT, width));
    }
    y + 12.0
}

/// The class of a series: its colour, and a dash pattern where colours repeat.
fn class_of(series: usize) -> String {
    let dash = ["", " second", " third"][(series / COLOURS).min(2)];
    format!("{}{dash}", crate::style::series_class(series))
}
