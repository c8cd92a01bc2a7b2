//! Curves over the values of a field, with error bars, for sweeps and fits.
//!
//! Numbers are on a logarithmic axis if they span more than a factor of 16, else on a linear one. Other
//! values (a congestion control) are at equal distances and have points without a line; the points of
//! several curves are side by side. The ticks are the values themselves.

use crate::axis::{Axis, Unit};
use crate::axis_name::with_unit;
use crate::canvas::{Anchor, Canvas, Placed, coincide, draw_title, fit, fit_distinct, text_width};
use crate::chart_value::ChartValue;
use crate::plot_options::PlotOptions;
use crate::style::{SERIES, halo_class, plot_css, series_class};

const LEFT: f64 = 66.0;
const RIGHT: f64 = 30.0;
/// Default height of the plotting area, pixels.
const HEIGHT: u32 = 320;
const TEXT: f64 = 12.0;
/// Pixels between the ticks of the vertical axis.
const TICK_SPACE: f64 = 50.0;
const ROW: f64 = 20.0;
/// Half the width of an error bar's ends.
const WHISKER: f64 = 4.0;
/// Maximum distance of two curves' points over the same name, pixels.
const BESIDE: f64 = 18.0;
/// Radius of points without a line, pixels.
const POINT: f64 = 4.5;
const LOGARITHMIC_FROM: f64 = 16.0;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChartPoint {
    /// Index into the chart's values.
    pub value: usize,
    /// Its vertical coordinate.
    pub height: f64,
    /// The ends of its error bar.
    pub bar: Option<(f64, f64)>,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartCurve {
    /// Its label in the legend.
    pub label: String,
    /// In ascending order of their values.
    pub points: Vec<ChartPoint>,
    /// A marked position.
    pub mark: Option<ChartMark>,
}

/// A marked position of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartMark {
    /// Its position on the horizontal axis, in the unit of the axis's values.
    pub at: f64,
    /// Whether the mark is a point of the curve, rather than only a vertical line.
    pub is_on_curve: bool,
    /// Its label; may be empty.
    pub label: String,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// The heading; none where empty.
    pub title: String,
    /// The label of the horizontal axis.
    pub x_label: String,
    /// Its values, in ascending order if they are numbers.
    pub values: Vec<ChartValue>,
    /// The label of the vertical axis.
    pub y_label: String,
    /// The vertical axis's unit: `bit/s`, `B` or `s`; others have no prefix.
    pub unit: String,
    /// The meaning of the error bars; shown if there are any.
    pub bars: String,
    /// The curves.
    pub curves: Vec<ChartCurve>,
}

/// Draws a chart of the default size.
pub fn chart(chart: &Chart) -> String {
    chart_with(chart, &chart_options())
}

/// The options of [`chart`]: a wide plot with one high panel.
pub(crate) fn chart_options() -> PlotOptions {
    PlotOptions { panel_height: HEIGHT, ..PlotOptions::default() }
}

/// Draws a chart with this width and height of the plotting area.
pub fn chart_with(chart: &Chart, options: &PlotOptions) -> String {
    let width = f64::from(options.width.max(320));
    let height = f64::from(options.panel_height.max(60));
    let right = width - RIGHT;
    let positions = Positions::of(&chart.values, right);
    let mut canvas = Canvas::default();
    let top = match chart.title.is_empty() {
        true => 10.0,
        false => 40.0 + draw_title(&mut canvas, LEFT, 26.0, &chart.title, right - LEFT),
    };
    let top = draw_legend(&mut canvas, &chart.curves, positions.are_names(), right, top);
    let axis = vertical_axis(chart, height);
    let heading = with_unit(&chart.y_label, &axis.unit);
    canvas.heading(LEFT, top + 13.0, &heading, "");
    let top = top + 24.0;
    let y = |value: f64| top + (1.0 - axis.position(value)) * height;
    for tick in &axis.ticks {
        canvas.line(LEFT, y(tick.value), right, y(tick.value), "grid");
        canvas.text(LEFT - 8.0, y(tick.value) + 4.0, Anchor::End, "tick", &tick.text);
    }
    draw_values(&mut canvas, &chart.values, &positions, top + height);
    let placed: Vec<Vec<Placed>> = chart
        .curves
        .iter()
        .enumerate()
        .map(|(index, curve)| {
            let offset = positions.curve_offset(index, chart.curves.len());
            curve.points.iter().map(|p| Some((positions.x(p.value) + offset, y(p.height)))).collect()
        })
        .collect();
    let covered: Vec<usize> = (0..placed.len())
        .map(|index| placed[..index].iter().filter(|earlier| coincide(earlier, &placed[index])).count())
        .collect();
    let is_covered = |index: &usize| covered[*index] > 0 && !positions.are_names();
    for index in (0..placed.len()).rev().filter(is_covered) {
        canvas.path(placed[index].iter().copied(), &halo_class(index, covered[index]));
    }
    let mut label_y = top + 12.0;
    for (index, curve) in chart.curves.iter().enumerate() {
        let class = series_class(index);
        if let Some((mark, x)) =
            curve.mark.as_ref().and_then(|mark| Some((mark, positions.of_number(mark.at)?)))
        {
            canvas.line(x, top, x, top + height, &format!("swatch dot {class}"));
            if let Some(y) = height_at(&placed[index], x).filter(|_| mark.is_on_curve) {
                canvas.circle(x, y, 5.0, &format!("swatch bar {class}"));
            }
            draw_mark_label(&mut canvas, &mark.label, (x, label_y), right);
            label_y += 16.0;
        }
        // If it coincides with an earlier curve, a wide line below that curve already shows it.
        if positions.are_names() {
            let points = placed[index].iter().flatten();
            points.for_each(|(x, y)| canvas.point(*x, *y, POINT, index));
        } else if covered[index] == 0 {
            canvas.path(placed[index].iter().copied(), &line_class(index));
            canvas.marks(placed[index].iter().flatten().copied(), &class);
        }
        for point in &curve.points {
            let Some((low, high)) = point.bar else { continue };
            let x = positions.x(point.value) + positions.curve_offset(index, chart.curves.len());
            let bar = format!("swatch bar {class}");
            canvas.line(x, y(low), x, y(high), &bar);
            canvas.line(x - WHISKER, y(low), x + WHISKER, y(low), &bar);
            canvas.line(x - WHISKER, y(high), x + WHISKER, y(high), &bar);
        }
    }
    canvas.line(LEFT, top + height, right, top + height, "axis");
    let middle = (LEFT + right) / 2.0;
    canvas.text(middle, top + height + 38.0, Anchor::Middle, "tick", &chart.x_label);
    let has_bars = chart.curves.iter().flat_map(|curve| &curve.points).any(|point| point.bar.is_some());
    let mut bottom = top + height + 50.0;
    if has_bars && !chart.bars.is_empty() {
        canvas.text(middle, bottom + 6.0, Anchor::Middle, "note", &fit(&chart.bars, TEXT, right - LEFT));
        bottom += ROW;
    }
    let label = format!("{} over {}", chart.y_label, chart.x_label);
    canvas.finish(width, bottom, &label, Some(&plot_css()))
}

/// Horizontal positions of the values, in pixels.
struct Positions {
    xs: Vec<f64>,
    right: f64,
    scale: Scale,
}

enum Scale {
    Linear { low: f64, high: f64 },
    Logarithmic { low: f64, high: f64 },
    Names,
}

impl Positions {
    fn of(values: &[ChartValue], right: f64) -> Self {
        let numbers: Vec<f64> = values.iter().filter_map(|value| value.number).collect();
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let scale = if numbers.len() < values.len() || low >= high {
            Scale::Names
        } else if low > 0.0 && high / low > LOGARITHMIC_FROM {
            Scale::Logarithmic { low, high }
        } else {
            Scale::Linear { low, high }
        };
        let mut positions = Positions { xs: Vec::new(), right, scale };
        let x = |(index, value): (usize, &ChartValue)| {
            value
                .number
                .and_then(|number| positions.of_number(number))
                .unwrap_or_else(|| pixel((index as f64 + 0.5) / values.len() as f64, right))
        };
        positions.xs = values.iter().enumerate().map(x).collect();
        positions
    }

    /// The position of a number; `None` outside the axis, or if the axis has names.
    fn of_number(&self, number: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Names => return None,
            Scale::Linear { low, high } => (number - low) / (high - low),
            Scale::Logarithmic { low, high } => (number / low).ln() / (high / low).ln(),
        };
        (0.0..=1.0).contains(&share).then(|| pixel(share, self.right))
    }

    fn are_names(&self) -> bool {
        matches!(self.scale, Scale::Names)
    }

    /// Horizontal distance of a curve's points from the position of their name, pixels.
    fn curve_offset(&self, curve: usize, curves: usize) -> f64 {
        if !self.are_names() || curves < 2 {
            return 0.0;
        }
        let space = (self.right - LEFT - 32.0) / self.xs.len().max(1) as f64;
        let distance = BESIDE.min(0.8 * space / curves as f64);
        (curve as f64 - (curves - 1) as f64 / 2.0) * distance
    }

    fn x(&self, value: usize) -> f64 {
        self.xs.get(value).copied().unwrap_or(LEFT)
    }
}

/// The pixel at a relative position, with a margin at both ends.
fn pixel(share: f64, right: f64) -> f64 {
    LEFT + 16.0 + share * (right - LEFT - 32.0)
}

fn vertical_axis(chart: &Chart, height: f64) -> Axis {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let ends = || {
        points().flat_map(|p| [p.height, p.bar.map_or(p.height, |b| b.0), p.bar.map_or(p.height, |b| b.1)])
    };
    let low = ends().fold(f64::INFINITY, f64::min);
    let high = ends().fold(f64::NEG_INFINITY, f64::max);
    let unit = Unit::of_figure(&chart.unit);
    Axis::of_values(low.min(0.0), high, unit, (height / TICK_SPACE) as usize)
}

/// The curve's vertical position at `x`, in pixels; `None` outside its ends.
fn height_at(curve: &[Placed], x: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = curve.iter().flatten().copied().collect();
    let (a, b) = points.windows(2).map(|pair| (pair[0], pair[1])).find(|(a, b)| a.0 <= x && x <= b.0)?;
    Some(if b.0 > a.0 { a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0) } else { a.1 })
}

/// Draws a mark's label beside its line, on the side where there is space.
fn draw_mark_label(canvas: &mut Canvas, label: &str, (x, y): (f64, f64), right: f64) {
    if label.is_empty() {
        return;
    }
    match x + 6.0 + text_width(label, TEXT) <= right {
        true => canvas.text(x + 6.0, y, Anchor::Start, "key-text", label),
        false => canvas.text(x - 6.0, y, Anchor::End, "key-text", label),
    }
}

/// Draws the ticks, with labels if there is space for them.
fn draw_values(canvas: &mut Canvas, values: &[ChartValue], positions: &Positions, bottom: f64) {
    let mut free_from = f64::NEG_INFINITY;
    for (index, value) in values.iter().enumerate() {
        let x = positions.x(index);
        let text = fit(&value.text, TEXT, 150.0);
        let half = text_width(&text, TEXT) / 2.0;
        canvas.line(x, bottom, x, bottom + 4.0, "axis");
        if x - half >= free_from {
            canvas.text(x, bottom + 18.0, Anchor::Middle, "tick", &text);
            free_from = x + half + 8.0;
        }
    }
}

/// The class of a curve: where colours repeat, dashes distinguish the curves.
fn line_class(index: usize) -> String {
    let class = series_class(index);
    match index / SERIES.len() {
        0 => class,
        1 => format!("{class} second"),
        _ => format!("{class} third"),
    }
}

/// Draws the legend and returns its lower end.
fn draw_legend(canvas: &mut Canvas, curves: &[ChartCurve], has_points: bool, right: f64, top: f64) -> f64 {
    if curves.iter().all(|curve| curve.label.is_empty()) {
        return top;
    }
    let (mut x, mut y) = (LEFT, top);
    let labels: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    for (index, label) in fit_distinct(&labels, TEXT, right - LEFT - 40.0).iter().enumerate() {
        let needed = 24.0 + text_width(label, TEXT);
        if x > LEFT && x + needed > right {
            (x, y) = (LEFT, y + ROW);
        }
        let class = line_class(index);
        match has_points {
            true => canvas.point(x + 9.0, y + 8.0, POINT, index),
            false => canvas.line(x, y + 8.0, x + 18.0, y + 8.0, &format!("swatch {class}")),
        }
        canvas.text(x + 24.0, y + 12.0, Anchor::Start, "key-text", label);
        x += needed + 22.0;
    }
    y + ROW + 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(numbers: &[f64]) -> Vec<ChartValue> {
        numbers.iter().map(|n| ChartValue { text: format!("{n}p"), number: Some(*n) }).collect()
    }

    #[test]
    fn decades_and_names_are_at_equal_distances() {
        let positions = Positions::of(&values(&[1.0, 10.0, 100.0]), 930.0);
        assert!((positions.xs[2] - positions.xs[1] - (positions.xs[1] - positions.xs[0])).abs() < 1e-9);
        let near = Positions::of(&values(&[1.0, 2.0, 5.0]), 930.0);
        assert!((near.xs[2] - near.xs[1]) > 2.9 * (near.xs[1] - near.xs[0]));
        assert_eq!(near.of_number(9.0), None);
        let named = |text: &str| ChartValue { text: text.into(), number: None };
        let names = Positions::of(&[named("reno"), named("cubic")], 930.0);
        assert!(names.xs[0] < names.xs[1] && names.of_number(1.0).is_none());
        assert_eq!(Positions::of(&values(&[5.0]), 930.0).xs.len(), 1);
    }

    #[test]
    fn a_chart_has_its_curves_bars_and_values() {
        let curve = ChartCurve {
            label: "reno <&>".into(),
            points: vec![
                ChartPoint { value: 0, height: 1e6, bar: Some((0.5e6, 1.5e6)) },
                ChartPoint { value: 1, height: 2e6, bar: None },
            ],
            mark: Some(ChartMark { at: 15.0, is_on_curve: true, label: "knee at 15 packets".into() }),
        };
        let same = ChartCurve { label: "the same".into(), mark: None, ..curve.clone() };
        let svg = chart(&Chart {
            title: "queues".into(),
            x_label: "queue (packets)".into(),
            values: values(&[10.0, 20.0]),
            y_label: "goodput".into(),
            unit: "bit/s".into(),
            bars: "whiskers: what they are".into(),
            curves: vec![curve, same],
        });
        for part in [
            "reno &lt;&amp;&gt;",
            "goodput (Mb/s)",
            "10p",
            "20p",
            "swatch dot s0",
            "queue (packets)",
            "knee at 15 packets",
            "whiskers: what they are",
            // Halfway between the two points.
            "<circle cx=\"498.0\"",
            "path class=\"s1 halo\"",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        // One bar (a line and its two ends) and the circle.
        assert_eq!(svg.matches("class=\"swatch bar s0\"").count(), 4);
        assert!(!svg.contains("path class=\"s1\""), "it would cover the first curve");
    }

    #[test]
    fn names_have_points_side_by_side_and_no_lines() {
        let value = |text: &str| ChartValue { text: text.into(), number: None };
        let point = |value: usize| ChartPoint { value, height: 1e6, bar: None };
        let curve =
            |label: &str| ChartCurve { label: label.into(), points: vec![point(0), point(1)], mark: None };
        let shown = Chart {
            values: vec![value("reno"), value("cubic")],
            unit: "bit/s".into(),
            bars: "whiskers".into(),
            curves: vec![curve("10 ms"), curve("50 ms")],
            ..Chart::default()
        };
        let svg = chart(&shown);
        assert!(!svg.contains("<path class=\"s"), "a line between names: {svg}");
        assert!(!svg.contains("whiskers"), "there are none");
        // Two points and the legend's, for each curve; none covers another.
        let mut circles: Vec<&str> = svg.lines().filter(|line| line.starts_with("<circle")).collect();
        assert_eq!(circles.len(), 6);
        circles.sort_unstable();
        circles.dedup_by_key(|line| line.split("class").next());
        assert_eq!(circles.len(), 6);
    }

    #[test]
    fn series_whose_colours_repeat_differ_in_shape_or_dash() {
        let count = 3 * SERIES.len();
        let shown = |number: Option<f64>| {
            let value =
                |text: &str| ChartValue { text: text.into(), number: number.map(|n| n * text.len() as f64) };
            let point = |value: usize, height: f64| ChartPoint { value, height, bar: None };
            let curve = |index: usize| ChartCurve {
                label: format!("curve {index}"),
                points: vec![point(0, index as f64), point(1, 2.0 * index as f64)],
                mark: None,
            };
            let values = vec![value("one"), value("three")];
            chart(&Chart { values, curves: (0..count).map(curve).collect(), ..Chart::default() })
        };
        let named = shown(None);
        let count_of_class = |tag: &str, class: &str| {
            named.lines().filter(|line| line.starts_with(tag) && line.contains(class)).count()
        };
        // Two points and the legend's: the first seven series are circles, the others squares and diamonds.
        assert_eq!((count_of_class("<circle", " s0\""), count_of_class("<polygon", " s0\"")), (3, 6));
        let lines = shown(Some(1.0));
        for class in ["\"s0\"", "\"s0 second\"", "\"s0 third\""] {
            assert_eq!(lines.matches(&format!("class={class}")).count(), 1, "{class}: {lines}");
        }
    }
}
