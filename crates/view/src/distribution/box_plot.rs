//! Box plots: a box for each group, beside those of other series at the same value of the swept field.

use super::{
    Distribution, FEW, LEFT, MAX_DOTS, RIGHT, TEXT, ValueGroup, class_of, draw_heading, draw_title,
    statistics::BoxFigures,
};
use crate::axis::Axis;
use crate::axis_name::with_unit;
use crate::canvas::{Anchor, Canvas, fit_distinct, text_width};
use crate::style::plot_css;
use crate::{ChartValue, PlotOptions, axis_name};

/// Widest box, pixels.
const MAX_BOX: f64 = 60.0;
/// Pixels between the ticks of the value axis.
const TICK_SPACE: f64 = 40.0;
/// Distance of dots that would cover each other, pixels.
const DOT: f64 = 5.0;
const LEGEND_ROW: f64 = 20.0;

/// The groups on the horizontal axis, and the series with boxes there.
struct BoxLayout<'a> {
    distribution: &'a Distribution,
    /// The distinct values of the swept field, in ascending order if they are numbers.
    values: Vec<ChartValue>,
    /// The values as shown, or the groups' labels if no field is swept.
    labels: Vec<String>,
    series: Vec<&'a str>,
    left: f64,
    /// Width of a group.
    width: f64,
}

pub(super) fn draw(distribution: &Distribution, options: &PlotOptions) -> String {
    let width = f64::from(options.width.max(320));
    let (left, right) = (LEFT, width - RIGHT);
    let height = f64::from(options.panel_height.max(60));
    let (name, layout) = BoxLayout::of(distribution, left, right);
    let mut canvas = Canvas::default();
    let mut y = draw_title(&mut canvas, options, right - left);
    if layout.has_legend() {
        y = draw_legend(&mut canvas, &layout.series, right, y);
    }
    let (low, high) = distribution.range();
    let axis = Axis::of_values(low, high, distribution.unit, (height / TICK_SPACE) as usize);
    let heading = with_unit(&distribution.name, &axis.unit);
    let top = draw_heading(&mut canvas, &heading, &notes(distribution), right - left, y);
    let bottom = top + height;
    let at_y = |value: f64| bottom - axis.position(value) * height;
    for tick in &axis.ticks {
        canvas.line(left, at_y(tick.value), right, at_y(tick.value), "grid");
        canvas.text(left - 8.0, at_y(tick.value) + 4.0, Anchor::End, "tick", &tick.text);
    }
    canvas.line(left, bottom, right, bottom, "axis");
    for group in &distribution.groups {
        let (middle, half) = layout.of_group(group);
        draw_group(&mut canvas, group, middle, half, &layout.class_of(group), &at_y);
    }
    layout.draw_labels(&mut canvas, bottom);
    let mut end = bottom + 30.0;
    if !name.is_empty() {
        canvas.text((left + right) / 2.0, bottom + 38.0, Anchor::Middle, "tick", &name);
        end += 20.0;
    }
    let label = format!("{heading}: box plots");
    canvas.finish(width, end, &label, options.standalone.then(plot_css).as_deref())
}

impl<'a> BoxLayout<'a> {
    /// The name and the layout of the horizontal axis.
    fn of(distribution: &'a Distribution, left: f64, right: f64) -> (String, Self) {
        let mut values: Vec<ChartValue> = Vec::new();
        for at in distribution.groups.iter().filter_map(|group| group.at.clone()) {
            if !values.contains(&at) {
                values.push(at);
            }
        }
        if values.iter().all(|value| value.number.is_some()) {
            values.sort_by(|a, b| a.number.unwrap_or(0.0).total_cmp(&b.number.unwrap_or(0.0)));
        }
        let (name, labels) = match &distribution.field {
            Some(field) => {
                let (name, shown) = axis_name::across(field, values.clone());
                (name, shown.into_iter().map(|value| value.text).collect())
            }
            None => {
                (String::new(), distribution.groups.iter().map(|group| group.label(None)).collect::<Vec<_>>())
            }
        };
        let width = (right - left) / labels.len().max(1) as f64;
        (name, BoxLayout { distribution, values, labels, series: distribution.series(), left, width })
    }

    /// Whether colours need a legend: without a swept field each box has its own label.
    fn has_legend(&self) -> bool {
        self.distribution.field.is_some() && self.series.len() > 1
    }

    fn index_of(&self, group: &ValueGroup) -> usize {
        let found = match &group.at {
            Some(at) => self.values.iter().position(|value| value == at),
            None => self.distribution.groups.iter().position(|other| other == group),
        };
        found.unwrap_or(0)
    }

    /// The middle of a group's box and half its width.
    fn of_group(&self, group: &ValueGroup) -> (f64, f64) {
        let boxes = if self.has_legend() { self.series.len() } else { 1 };
        let own = if self.has_legend() { self.series_of(group) } else { 0 };
        let slot = 0.8 * self.width / boxes as f64;
        let middle = self.left + (self.index_of(group) as f64 + 0.5) * self.width;
        let offset = (own as f64 + 0.5 - boxes as f64 / 2.0) * slot;
        (middle + offset, (0.35 * slot).clamp(2.0, MAX_BOX / 2.0))
    }

    fn series_of(&self, group: &ValueGroup) -> usize {
        self.series.iter().position(|series| *series == group.series).unwrap_or(0)
    }

    fn class_of(&self, group: &ValueGroup) -> String {
        // In print boxes differ in shade, unless each has its own label.
        let shade = if self.has_legend() { " shade" } else { "" };
        format!("{} box{shade}", class_of(self.series_of(group)))
    }

    fn draw_labels(&self, canvas: &mut Canvas, bottom: f64) {
        let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        let mut free_from = f64::NEG_INFINITY;
        for (index, label) in fit_distinct(&labels, TEXT, (self.width - 8.0).max(40.0)).iter().enumerate() {
            let x = self.left + (index as f64 + 0.5) * self.width;
            let half = text_width(label, TEXT) / 2.0;
            canvas.line(x, bottom, x, bottom + 4.0, "axis");
            if x - half >= free_from {
                canvas.text(x, bottom + 18.0, Anchor::Middle, "tick", label);
                free_from = x + half + 6.0;
            }
        }
    }
}

/// Draws a box with its whiskers, and dots: all values if there are few, else the outliers.
fn draw_group(
    canvas: &mut Canvas,
    group: &ValueGroup,
    middle: f64,
    half: f64,
    class: &str,
    at_y: &dyn Fn(f64) -> f64,
) {
    let Some(figures) = BoxFigures::of(&group.values) else { return };
    if figures.count >= FEW {
        let swatch = format!("swatch {class}");
        let (upper, lower) = (at_y(figures.upper_quartile), at_y(figures.lower_quartile));
        for (quartile, end) in [(upper, at_y(figures.high_whisker)), (lower, at_y(figures.low_whisker))] {
            canvas.line(middle, quartile, middle, end, &swatch);
            canvas.line(middle - half / 2.0, end, middle + half / 2.0, end, &swatch);
        }
        canvas.rect(middle - half, upper, 2.0 * half, lower - upper, &swatch);
        let median = at_y(figures.median);
        canvas.line(middle - half, median, middle + half, median, &format!("{swatch} median"));
    }
    if figures.count <= MAX_DOTS {
        canvas.marks(spread(group.values.iter().map(|value| at_y(*value)), middle, half).into_iter(), class);
        return;
    }
    let mut outliers: Vec<(f64, f64)> = group
        .values
        .iter()
        .filter(|value| figures.is_outlier(**value))
        .map(|value| (middle, at_y(*value)))
        .collect();
    // Many outliers form a line of dots.
    outliers.dedup_by(|a, b| (a.1 - b.1).abs() < 1.0);
    canvas.marks(outliers.into_iter(), class);
}

/// Places dots that would cover each other side by side, at most as many as fit into the box's width.
fn spread(heights: impl Iterator<Item = f64>, middle: f64, half: f64) -> Vec<(f64, f64)> {
    let columns = ((half / DOT) as i32).max(0);
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for y in heights {
        let is_free = |x: &f64| {
            let near = placed.iter().rev().take_while(|(_, known)| (known - y).abs() < DOT);
            near.into_iter().all(|(known, _)| (known - x).abs() >= DOT - 0.01)
        };
        let offsets = (0..=columns).flat_map(|column| [column, -column]);
        let free = offsets.map(|column| middle + f64::from(column) * DOT).find(is_free);
        placed.push((free.unwrap_or(middle), y));
    }
    placed
}

fn notes(distribution: &Distribution) -> Vec<String> {
    let counts = || distribution.groups.iter().map(|group| group.values.len());
    let mut notes = vec![distribution.counts()];
    if counts().any(|count| count >= FEW) {
        notes.push("box: quartiles and median".to_owned());
        notes.push("whiskers: up to 1.5 interquartile ranges".to_owned());
    }
    if counts().any(|count| count < FEW) {
        notes.push(format!("no box below {FEW} {}", distribution.noun(2)));
    }
    match (counts().any(|count| count <= MAX_DOTS), counts().any(|count| count > MAX_DOTS)) {
        (true, false) => notes.push(format!("dots: single {}", distribution.noun(2))),
        (false, true) => notes.push("dots: outliers".to_owned()),
        _ => notes.push(format!("dots: single {}, above {MAX_DOTS} only outliers", distribution.noun(2))),
    }
    notes.extend(distribution.remarks.iter().cloned());
    notes
}

fn draw_legend(canvas: &mut Canvas, series: &[&str], right: f64, top: f64) -> f64 {
    let (mut x, mut y) = (LEFT, top);
    for (index, label) in fit_distinct(series, TEXT, right - LEFT - 40.0).iter().enumerate() {
        let needed = 24.0 + text_width(label, TEXT);
        if x > LEFT && x + needed > right {
            (x, y) = (LEFT, y + LEGEND_ROW);
        }
        canvas.rect(x, y + 3.0, 18.0, 10.0, &format!("swatch {} box shade", class_of(index)));
        canvas.text(x + 24.0, y + 12.0, Anchor::Start, "key-text", label);
        x += needed + 22.0;
    }
    y + LEGEND_ROW + 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_would_cover_each_other_are_side_by_side() {
        let dots = spread([100.0, 99.0, 98.0, 50.0].into_iter(), 200.0, 30.0);
        assert_eq!(dots, [(200.0, 100.0), (205.0, 99.0), (195.0, 98.0), (200.0, 50.0)]);
        let narrow = spread([100.0, 99.0].into_iter(), 200.0, 3.0);
        assert_eq!(narrow.len(), 2, "there is no space beside it");
    }

    fn distribution(values: &[f64]) -> Distribution {
        Distribution {
            title: "t".into(),
            name: "Goodput".into(),
            unit: crate::axis::Unit::BitRate,
            value_of: super::super::ValueOf::Run,
            field: None,
            groups: vec![ValueGroup::new(String::new(), None, values.to_vec())],
            remarks: Vec::new(),
        }
    }

    /// The number after `name="` in an element.
    fn attribute(element: &str, name: &str) -> f64 {
        element.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_box_is_at_the_quartiles_of_the_axis() {
        // Quartiles 2.75, 4.5 and 6.25 Mb/s, whiskers at 1 and 7, an outlier at 20.
        let values = [1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6, 20e6];
        let svg = distribution(&values).box_plot(&PlotOptions::default());
        let elements: Vec<&str> = svg.split('<').collect();
        let find = |begin: &str, class: &str| {
            elements
                .iter()
                .filter(move |e| e.starts_with(begin) && e.contains(class))
                .copied()
                .collect::<Vec<_>>()
        };
        // The axis as drawn: the pixel of 0 and of 20 Mb/s from the texts of the ticks.
        let tick = |text: &str| {
            let found = elements.iter().find(|e| e.starts_with("text") && e.ends_with(&format!(">{text}")));
            attribute(found.unwrap_or_else(|| panic!("{text} in {svg}")), " y") - 4.0
        };
        let (zero, top) = (tick("0"), tick("20"));
        let value = |y: f64| (zero - y) / (zero - top) * 20.0;
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.05, "{found} {expected}");
        let drawn = find("rect", "swatch")[0];
        near(value(attribute(drawn, " y")), 6.25);
        near(value(attribute(drawn, " y") + attribute(drawn, "height")), 2.75);
        near(value(attribute(find("line", "median")[0], "y1")), 4.5);
        let ends: Vec<f64> = find("line", "swatch").iter().map(|line| value(attribute(line, "y2"))).collect();
        near(ends.iter().copied().fold(f64::MIN, f64::max), 7.0);
        near(ends.iter().copied().fold(f64::MAX, f64::min), 1.0);
    }

    #[test]
    fn four_values_have_no_box() {
        let svg = distribution(&[1.0, 2.0, 3.0, 4.0]).box_plot(&PlotOptions::default());
        assert!(!svg.contains("median") || !svg.contains("swatch s0 box median"), "{svg}");
        assert!(svg.contains("no box below 5 runs") && svg.contains("marks\" d="), "{svg}");
    }
}
