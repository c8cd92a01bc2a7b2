//! Plots as SVG: one panel per metric, over time or over another metric.

use std::collections::BTreeSet;

use schema::Cause;

use crate::axis::{Axis, Unit};
use crate::axis_name::with_unit;
use crate::canvas::{Anchor, Canvas, Placed, coincide, draw_title, fit, fit_distinct, text_width};
use crate::events::MarkKind;
use crate::figure::{Figure, Mark, Panel, StalledSpan, Strip, Stroke};
use crate::loaded::LoadedRun;
use crate::metric::Metric;
use crate::plot_options::{PlotOptions, Reference};
use crate::series::{Point, range};
use crate::style::{cause_class, halo_class, plot_css, series_class};
use crate::{Error, number, number::RateUnit, words};

const LEFT: f64 = 66.0;
const RIGHT: f64 = 22.0;
const TEXT: f64 = 12.0;
const LEGEND_ROW: f64 = 20.0;
const STRIP: f64 = 9.0;
/// Length of an event's mark.
const MARK: f64 = 7.0;
/// Minimum distance of two marks.
const MARK_SPACE: f64 = 3.0;
/// Pixels between the ticks of a value axis.
const TICK_SPACE: f64 = 29.0;

/// Draws `metrics` (see [`crate::metric_names`]; column names are accepted too) of `runs` over time.
///
/// # Errors
/// If no metric is given, or one is unknown.
pub fn plot(runs: &[&LoadedRun], metrics: &[&str], options: &PlotOptions) -> Result<String, Error> {
    if metrics.is_empty() {
        return Err(Error::NoMetric);
    }
    let metrics = metrics.iter().map(|name| Metric::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let Some((from, to)) = options.span_s else {
        return Ok(draw_over_time(&Figure::of(runs, &metrics), 0.0, options));
    };
    let parts: Vec<LoadedRun> = runs.iter().map(|run| run.between(from, to)).collect();
    let parts: Vec<&LoadedRun> = parts.iter().collect();
    let figure = Figure::of_span(&parts, &metrics, (from, to));
    Ok(draw_over_time(&figure, from, options))
}

fn draw_over_time(figure: &Figure<'_>, from: f64, options: &PlotOptions) -> String {
    let time = Axis::of_span(from, figure.end_s, x_ticks(options));
    let name = format!("Time ({})", time.unit);
    draw(figure, time, &name, "over time", options)
}

/// Draws `metrics` of `runs` against another metric of the same rows: one point per sample of the span in
/// `options`, else of the second half of each flow.
///
/// # Errors
/// If no metric is given, or one is unknown or a metric of links.
pub fn plot_against(
    runs: &[&LoadedRun],
    metrics: &[&str],
    against: &str,
    options: &PlotOptions,
) -> Result<String, Error> {
    if metrics.is_empty() {
        return Err(Error::NoMetric);
    }
    let metrics = metrics.iter().map(|name| Metric::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let against = Metric::parse(against)?;
    if let Some(other) = metrics.iter().chain([&against]).find(|m| m.value.is_of_links()) {
        return Err(Error::NotOfFlows { name: other.name.clone() });
    }
    let parts: Option<Vec<LoadedRun>> =
        options.span_s.map(|(from, to)| runs.iter().map(|run| run.between(from, to)).collect());
    let parts: Option<Vec<&LoadedRun>> = parts.as_ref().map(|parts| parts.iter().collect());
    let runs = parts.as_deref().unwrap_or(runs);
    let (figure, largest) = Figure::against(runs, &metrics, &against, options.span_s);
    let axis = Axis::of_values(0.0, largest, against.unit, x_ticks(options));
    let name = with_unit(&against.title, &axis.unit);
    let subject = format!("against {}", against.title.to_lowercase());
    Ok(draw(&figure, axis, &name, &subject, options))
}

fn x_ticks(options: &PlotOptions) -> usize {
    ((f64::from(options.width.max(320)) - LEFT - RIGHT) / 80.0) as usize
}

/// The panels' geometry and their common horizontal axis.
struct Frame {
    left: f64,
    right: f64,
    height: f64,
    across: Axis,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + self.inner_x(value)
    }

    fn inner_x(&self, value: f64) -> f64 {
        self.across.position(value) * self.width()
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }
}

fn draw(figure: &Figure<'_>, across: Axis, name: &str, relation: &str, options: &PlotOptions) -> String {
    let width = f64::from(options.width.max(320));
    let height = f64::from(options.panel_height.max(60));
    let frame = Frame { left: LEFT, right: width - RIGHT, height, across };
    let mut canvas = Canvas::default();
    let mut y = 10.0;
    if let Some(title) = &options.title {
        y += 30.0 + draw_title(&mut canvas, LEFT, y + 16.0, title, frame.width());
    }
    let shows_strips = options.shows_verdicts && figure.panels.iter().any(|panel| panel.metric.is_goodput());
    let strips = if shows_strips { figure.strips.as_slice() } else { &[] };
    let strip_labels = strip_labels(strips, &frame);
    y = draw_legend(&mut canvas, &numbered(&figure.legend, strips, &strip_labels), &frame, y);
    let references = figure.references(&options.references);
    for (index, panel) in figure.panels.iter().enumerate() {
        let is_goodput = panel.metric.is_goodput();
        y = draw_panel(
            &mut canvas,
            panel,
            &figure.stalls,
            if is_goodput { &references } else { &[] },
            &frame,
            y,
        );
        if is_goodput && !strips.is_empty() {
            y = draw_strips(&mut canvas, strips, &strip_labels, &frame, y);
        }
        if index + 1 < figure.panels.len() {
            y += 18.0;
        }
    }
    for tick in &frame.across.ticks {
        canvas.text(frame.x(tick.value), y + 17.0, Anchor::Middle, "tick", &tick.text);
    }
    canvas.text((frame.left + frame.right) / 2.0, y + 36.0, Anchor::Middle, "tick", name);
    let subject =
        figure.panels.iter().map(|panel| panel.metric.title.as_str()).collect::<Vec<_>>().join(", ");
    let css = options.standalone.then(plot_css);
    canvas.finish(width, y + 46.0, &format!("{subject} {relation}"), css.as_deref())
}

/// The labels beside the strips; numbers if the space beside the axis is too small to distinguish them.
fn strip_labels(strips: &[Strip], frame: &Frame) -> Vec<String> {
    let labels: Vec<&str> = strips.iter().map(|strip| strip.label.as_str()).collect();
    fit_distinct(&labels, TEXT, frame.left - 12.0)
}

/// The legend, with the numbers of the strips before its labels if the strips have numbers instead of names.
fn numbered(legend: &[(String, usize)], strips: &[Strip], labels: &[String]) -> Vec<(String, usize)> {
    let has_numbers = |(strip, label): (&Strip, &String)| label.starts_with("no. ") && strip.label != *label;
    if !strips.iter().zip(labels).any(has_numbers) {
        return legend.to_vec();
    }
    let number_of = |name: &str| {
        // "RUN: FLOW" if several runs are plotted: their strips have the run's name.
        let is_of = |strip: &Strip| {
            name.strip_prefix(&strip.label).is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
        };
        let own = strips.iter().zip(labels).filter(|(strip, _)| is_of(strip));
        own.map(|(_, label)| label.trim_start_matches("no. ")).collect::<Vec<_>>().join(", ")
    };
    let with_number = |(name, colour): &(String, usize)| match number_of(name) {
        number if number.is_empty() => (name.clone(), *colour),
        number => (format!("no. {number}: {name}"), *colour),
    };
    legend.iter().map(with_number).collect()
}

fn draw_legend(canvas: &mut Canvas, legend: &[(String, usize)], frame: &Frame, top: f64) -> f64 {
    if legend.is_empty() {
        return top;
    }
    let (mut x, mut y) = (frame.left, top);
    let labels: Vec<&str> = legend.iter().map(|(label, _)| label.as_str()).collect();
    let labels = fit_distinct(&labels, TEXT, frame.width() - 40.0);
    for ((_, colour), label) in legend.iter().zip(labels) {
        let needed = 24.0 + text_width(&label, TEXT);
        if x > frame.left && x + needed > frame.right {
            (x, y) = (frame.left, y + LEGEND_ROW);
        }
        canvas.line(x, y + 8.0, x + 18.0, y + 8.0, &format!("swatch {}", series_class(*colour)));
        canvas.text(x + 24.0, y + 12.0, Anchor::Start, "key-text", &label);
        x += needed + 22.0;
    }
    y + LEGEND_ROW + 6.0
}

/// Draws a panel below `top` and returns the bottom of its plotting area.
fn draw_panel(
    canvas: &mut Canvas,
    panel: &Panel<'_>,
    stalls: &[StalledSpan],
    references: &[Reference],
    frame: &Frame,
    top: f64,
) -> f64 {
    let axis = value_axis(panel, references, frame.height);
    let heading = with_unit(&panel.metric.title, &axis.unit);
    canvas.heading(frame.left, top + 13.0, &heading, &panel.note);
    let heading_width = text_width(&heading, 14.5) + text_width(&panel.note, 13.5) + 24.0;
    let area_top = draw_keys(canvas, &keys(panel, stalls, references), frame, heading_width, top) + 10.0;
    let bottom = area_top + frame.height;
    let inner_y = |value: f64| (1.0 - axis.position(value)) * frame.height;
    for tick in &axis.ticks {
        let y = area_top + inner_y(tick.value);
        canvas.line(frame.left, y, frame.right, y, "grid");
        canvas.text(frame.left - 8.0, y + 4.0, Anchor::End, "tick", &tick.text);
    }
    for tick in &frame.across.ticks {
        canvas.line(frame.x(tick.value), area_top, frame.x(tick.value), bottom, "grid");
    }
    canvas.open_clip(frame.left, area_top, frame.width(), frame.height);
    draw_stalls(canvas, stalls, frame);
    let to_canvas = |(t, value): &Point| value.map(|v| (frame.inner_x(*t), inner_y(v)));
    for curve in &panel.curves {
        canvas.path(curve.raw.iter().map(to_canvas), &format!("{} raw", series_class(curve.colour)));
    }
    for reference in references {
        let y = inner_y(reference.value_bps);
        canvas.line(0.0, y, frame.width(), y, &reference_class(reference));
    }
    draw_curves(canvas, panel, &to_canvas);
    draw_marks(canvas, panel, frame);
    canvas.close_clip();
    canvas.line(frame.left, bottom, frame.right, bottom, "axis");
    bottom
}

/// Draws the curves. Curves that would cover an earlier curve of another colour are drawn as wide pale lines
/// below it.
fn draw_curves(canvas: &mut Canvas, panel: &Panel<'_>, to_canvas: &dyn Fn(&Point) -> Placed) {
    let placed: Vec<Vec<Placed>> =
        panel.curves.iter().map(|curve| curve.points.iter().map(to_canvas).collect()).collect();
    let covers = |index: usize| {
        let curve = &panel.curves[index];
        let same = (0..index).filter(|earlier| {
            let other = &panel.curves[*earlier];
            other.colour != curve.colour
                && other.stroke == curve.stroke
                && curve.stroke != Stroke::Marks
                && coincide(&placed[*earlier], &placed[index])
        });
        same.count()
    };
    let covered: Vec<usize> = (0..panel.curves.len()).map(covers).collect();
    for (index, curve) in panel.curves.iter().enumerate().rev().filter(|(index, _)| covered[*index] > 0) {
        canvas.path(placed[index].iter().copied(), &halo_class(curve.colour, covered[index]));
    }
    for (index, curve) in panel.curves.iter().enumerate().filter(|(index, _)| covered[*index] == 0) {
        let class = series_class(curve.colour);
        match curve.stroke {
            Stroke::Marks => canvas.marks(placed[index].iter().flatten().copied(), &class),
            stroke => canvas.path(placed[index].iter().copied(), &format!("{class}{}", stroke_class(stroke))),
        }
    }
}

/// Draws stalls as bands behind the curves, at most one per [`MARK_SPACE`].
fn draw_stalls(canvas: &mut Canvas, stalls: &[StalledSpan], frame: &Frame) {
    let mut drawn = BTreeSet::new();
    for stall in stalls {
        let (from, to) = (frame.inner_x(stall.from_s), frame.inner_x(stall.to_s));
        let width = (to - from).max(MARK_SPACE);
        if drawn.insert(((from / MARK_SPACE).round() as i64, (width / MARK_SPACE).round() as i64)) {
            canvas.rect(from, 0.0, width, frame.height, "stall");
        }
    }
}

/// Draws events as short lines at the bottom of a panel, at most one per flow, kind and [`MARK_SPACE`].
fn draw_marks(canvas: &mut Canvas, panel: &Panel<'_>, frame: &Frame) {
    let mut drawn = BTreeSet::new();
    for Mark { at_s, kind, colour } in &panel.marks {
        let slot = (frame.inner_x(*at_s) / MARK_SPACE).round();
        if drawn.insert((slot as i64, *colour, *kind == MarkKind::Timeout)) {
            let length = if *kind == MarkKind::Timeout { 2.0 * MARK } else { MARK };
            let x = slot * MARK_SPACE;
            let class = format!("{} {}", series_class(*colour), mark_class(*kind));
            canvas.line(x, frame.height, x, frame.height - length, &class);
        }
    }
}

fn mark_class(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Reduction => "event",
        MarkKind::Timeout => "event timeout",
    }
}

/// The axis of a panel: the range of its curves (averaged ones without noise, and without those that may
/// exceed the axis) and of the reference lines.
fn value_axis(panel: &Panel<'_>, references: &[Reference], height: f64) -> Axis {
    let lines: Vec<Point> = references.iter().map(|line| (0.0, Some(line.value_bps))).collect();
    let shown = panel.curves.iter().filter(|curve| !curve.exceeds_axis);
    let values = shown.flat_map(|curve| &curve.points).chain(&lines);
    let (low, high) = range(values).unwrap_or((0.0, 0.0));
    // The axis begins at 0, except for times, which can be far from 0 and hardly vary.
    let low = if panel.metric.unit == Unit::Seconds { low } else { low.min(0.0) };
    Axis::of_values(low, high, panel.metric.unit, (height / TICK_SPACE) as usize)
}

/// The legend of dash patterns, reference lines and marks: text and class.
fn keys(panel: &Panel<'_>, stalls: &[StalledSpan], references: &[Reference]) -> Vec<(String, String)> {
    let strokes =
        panel.strokes.iter().map(|(name, stroke)| (name.clone(), format!("key{}", stroke_class(*stroke))));
    let lines = references.iter().map(|reference| {
        (
            format!("{} {}", reference.label, number::rate_in(reference.value_bps, RateUnit::Bits)),
            reference_class(reference),
        )
    });
    let marked = |kind: MarkKind| panel.marks.iter().any(|mark| mark.kind == kind);
    let marks = [MarkKind::Reduction, MarkKind::Timeout].into_iter().filter(|kind| marked(*kind));
    let marks = marks.map(|kind| (kind.name().to_owned(), format!("key {}", mark_class(kind))));
    let stall = (!stalls.is_empty()).then(|| ("measurement stalled".to_owned(), "key stalled".to_owned()));
    strokes.chain(lines).chain(marks).chain(stall).collect()
}

/// Draws the legend entries right-aligned on the heading's line, on several lines if they do not fit.
/// Returns the last line's baseline.
fn draw_keys(
    canvas: &mut Canvas,
    keys: &[(String, String)],
    frame: &Frame,
    heading_width: f64,
    top: f64,
) -> f64 {
    let mut rows: Vec<Vec<&(String, String)>> = vec![Vec::new()];
    let mut space = frame.width() - heading_width;
    for key in keys {
        let needed = 48.0 + text_width(&key.0, TEXT);
        if needed > space {
            rows.push(Vec::new());
            space = frame.width();
        }
        space -= needed;
        if let Some(row) = rows.last_mut() {
            row.push(key);
        }
    }
    let mut baseline = top + 13.0;
    for (index, row) in rows.iter().enumerate() {
        baseline = top + 13.0 + index as f64 * 17.0;
        let mut x = frame.right;
        for (name, class) in row.iter().rev() {
            let name = fit(name, TEXT, frame.width() - 60.0);
            x -= text_width(&name, TEXT);
            canvas.text(x, baseline, Anchor::Start, "key-text", &name);
            x -= 6.0;
            canvas.line(x - 24.0, baseline - 4.0, x, baseline - 4.0, &format!("swatch {class}"));
            x -= 24.0 + 18.0;
        }
    }
    baseline
}

/// Draws the strips that show what limited each flow, and their legend.
fn draw_strips(canvas: &mut Canvas, strips: &[Strip], labels: &[String], frame: &Frame, top: f64) -> f64 {
    let mut y = top + 9.0;
    let mut seen = BTreeSet::new();
    for (strip, label) in strips.iter().zip(labels) {
        canvas.text(frame.left - 8.0, y + STRIP, Anchor::End, "tick", label);
        for (from, to, cause) in stretches(&strip.causes, frame) {
            seen.insert(cause);
            canvas.rect(frame.left + from, y, to - from, STRIP, &cause_class(cause));
        }
        y += STRIP + 5.0;
    }
    let mut x = frame.left;
    canvas.text(x, y + 12.0, Anchor::Start, "note", "limited by");
    x += text_width("limited by", TEXT) + 14.0;
    for cause in seen {
        canvas.rect(x, y + 3.0, 10.0, 10.0, &cause_class(cause));
        canvas.text(x + 15.0, y + 12.0, Anchor::Start, "key-text", words::cause(cause));
        x += 15.0 + text_width(words::cause(cause), TEXT) + 16.0;
    }
    y + 18.0
}

/// Intervals in pixels with the most frequent cause in each; neighbours with the same cause are joined.
fn stretches(causes: &[(f64, Option<Cause>)], frame: &Frame) -> Vec<(f64, f64, Cause)> {
    let pixels = frame.width().ceil() as usize;
    let mut votes = vec![[0u32; Cause::ALL.len()]; pixels + 1];
    let pixel_at = |t: f64| (frame.inner_x(t).max(0.0) as usize).min(pixels);
    let mut before = causes.first().map_or(0.0, |(t, _)| *t);
    for (t, cause) in causes {
        let (from, to) = (pixel_at(before.min(*t)), pixel_at(*t));
        before = *t;
        let Some(index) = cause.and_then(|cause| Cause::ALL.iter().position(|c| *c == cause)) else {
            continue;
        };
        for pixel in &mut votes[from..=to] {
            pixel[index] += 1;
        }
    }
    let mut joined: Vec<(f64, f64, Cause)> = Vec::new();
    for (x, votes) in votes.iter().take(pixels).enumerate() {
        let max_votes = votes.iter().max().copied().unwrap_or(0);
        let Some(winner) = votes.iter().position(|v| *v == max_votes && max_votes > 0) else { continue };
        let (from, to, cause) = (x as f64, (x as f64 + 1.0).min(frame.width()), Cause::ALL[winner]);
        match joined.last_mut() {
            Some(last) if last.2 == cause && last.1 >= from => last.1 = to,
            _ => joined.push((from, to, cause)),
        }
    }
    joined
}

fn stroke_class(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Solid => "",
        Stroke::Dashed => " dash",
        Stroke::Dotted => " dot",
        Stroke::Marks => " marks",
    }
}

fn reference_class(reference: &Reference) -> String {
    match (reference.run, reference.label == "wire limit") {
        (_, true) => "wire".to_owned(),
        (Some(run), _) => format!("published {}", series_class(run)),
        (None, _) => "published plain".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_has_the_numbers_of_numbered_strips() {
        let strip = |label: &str| Strip { label: label.into(), causes: Vec::new() };
        let strips = [strip("20261125T181142Z-sim-reno"), strip("20261125T181142Z-sim-reno-2")];
        let legend: Vec<(String, usize)> =
            ["20261125T181142Z-sim-reno: reno", "20261125T181142Z-sim-reno-2: reno", "path forward"]
                .iter()
                .enumerate()
                .map(|(index, name)| ((*name).to_owned(), index))
                .collect();
        let names = |labels: [&str; 2]| -> Vec<String> {
            let labels = labels.map(str::to_owned);
            numbered(&legend, &strips, &labels).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(
            names(["no. 1", "no. 2"]),
            [
                "no. 1: 20261125T181142Z-sim-reno: reno",
                "no. 2: 20261125T181142Z-sim-reno-2: reno",
                "path forward"
            ]
        );
        assert_eq!(names(["\u{2026}reno", "\u{2026}reno-2"])[0], legend[0].0);
    }
}
