//! Empirical distribution functions as step curves.

use super::{
    Distribution, FEW, LEFT, MAX_DOTS, RIGHT, TEXT, class_of, draw_heading, draw_title,
    statistics::{BoxFigures, steps},
};
use crate::axis::{Axis, Tick};
use crate::axis_name::with_unit;
use crate::canvas::{Anchor, Canvas, fit_distinct, text_width};
use crate::style::plot_css;
use crate::{PlotOptions, number};

/// Steps nearer to each other than this are drawn as one, pixels.
const MIN_STEP: f64 = 0.3;
const LEGEND_ROW: f64 = 20.0;

pub(super) fn draw(distribution: &Distribution, options: &PlotOptions) -> String {
    let width = f64::from(options.width.max(320));
    let (left, right) = (LEFT, width - RIGHT);
    let mut canvas = Canvas::default();
    let mut y = draw_title(&mut canvas, options, right - left);
    y = draw_legend(&mut canvas, distribution, right, y);
    let (low, high) = distribution.range();
    let across = Axis::of_values(low, high, distribution.unit, ((right - left) / 80.0) as usize);
    let heading = format!("Cumulative share of {}", distribution.noun(2));
    let top = draw_heading(&mut canvas, &heading, &notes(distribution), right - left, y);
    let height = f64::from(options.panel_height.max(60));
    let bottom = top + height;
    let at_x = |value: f64| left + across.position(value) * (right - left);
    let at_y = |share: f64| bottom - share * height;
    for tick in shares() {
        canvas.line(left, at_y(tick.value), right, at_y(tick.value), "grid");
        canvas.text(left - 8.0, at_y(tick.value) + 4.0, Anchor::End, "tick", &tick.text);
    }
    for tick in &across.ticks {
        canvas.line(at_x(tick.value), top, at_x(tick.value), bottom, "grid");
        canvas.text(at_x(tick.value), bottom + 17.0, Anchor::Middle, "tick", &tick.text);
    }
    canvas.line(left, bottom, right, bottom, "axis");
    // The first is drawn last, so that a curve that covers another has the same order in every picture.
    for (index, group) in distribution.groups.iter().enumerate().rev() {
        let placed: Vec<(f64, f64)> =
            steps(&group.values).into_iter().map(|(value, share)| (at_x(value), at_y(share))).collect();
        canvas.path(corners(&placed, bottom).into_iter().map(Some), &class_of(index));
        if group.values.len() <= MAX_DOTS {
            canvas.marks(placed.into_iter(), &class_of(index));
        }
    }
    let name = with_unit(&distribution.name, &across.unit);
    canvas.text((left + right) / 2.0, bottom + 38.0, Anchor::Middle, "tick", &name);
    let label = format!("Cumulative distribution of {name}");
    canvas.finish(width, bottom + 50.0, &label, options.standalone.then(plot_css).as_deref())
}

/// The ticks of the vertical axis.
fn shares() -> [Tick; 5] {
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|value| Tick { value, text: format!("{value}") })
}

/// The corners of a step curve that rises from `bottom`; steps too close to be distinguished are merged.
fn corners(placed: &[(f64, f64)], bottom: f64) -> Vec<(f64, f64)> {
    let mut corners = Vec::new();
    let mut height = bottom;
    for (index, (x, y)) in placed.iter().enumerate() {
        let is_last = index + 1 == placed.len();
        let is_visible = corners.last().is_none_or(|(known, _): &(f64, f64)| x - known >= MIN_STEP);
        if is_visible || is_last || height - y >= MIN_STEP {
            corners.extend([(*x, height), (*x, *y)]);
            height = *y;
        }
    }
    corners
}

fn notes(distribution: &Distribution) -> Vec<String> {
    let mut notes = vec![distribution.counts()];
    let has_few = distribution.groups.iter().any(|group| group.values.len() < FEW);
    if has_few {
        notes.push(format!("fewer than {FEW} show little of a distribution"));
    }
    notes.extend(distribution.remarks.iter().cloned());
    notes
}

/// The groups with their medians.
fn draw_legend(canvas: &mut Canvas, distribution: &Distribution, right: f64, top: f64) -> f64 {
    if distribution.groups.len() < 2 {
        return top;
    }
    let labels: Vec<String> =
        distribution.groups.iter().map(|group| group.label(distribution.field.as_deref())).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let (mut x, mut y) = (LEFT, top);
    let fitted = fit_distinct(&labels, TEXT, right - LEFT - 160.0);
    for (index, (label, group)) in fitted.into_iter().zip(&distribution.groups).enumerate() {
        let median = BoxFigures::of(&group.values).map_or(0.0, |figures| figures.median);
        let text = format!("{label} (median {})", value_text(distribution, median));
        let needed = 24.0 + text_width(&text, TEXT);
        if x > LEFT && x + needed > right {
            (x, y) = (LEFT, y + LEGEND_ROW);
        }
        canvas.line(x, y + 8.0, x + 18.0, y + 8.0, &format!("swatch {}", class_of(index)));
        canvas.text(x + 24.0, y + 12.0, Anchor::Start, "key-text", &text);
        x += needed + 22.0;
    }
    y + LEGEND_ROW + 6.0
}

/// A value with its unit.
fn value_text(distribution: &Distribution, value: f64) -> String {
    use crate::axis::Unit;
    match distribution.unit {
        Unit::BitRate => number::rate_in(value, number::RateUnit::Bits),
        Unit::Bytes => number::bytes_in(value, number::SizeUnit::Decimal),
        Unit::Seconds => number::seconds(value),
        _ => number::significant(value, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_curve_rises_at_each_value_and_dense_steps_are_merged() {
        let placed = [(10.0, 75.0), (20.0, 50.0)];
        assert_eq!(corners(&placed, 100.0), [(10.0, 100.0), (10.0, 75.0), (20.0, 75.0), (20.0, 50.0)]);
        let dense: Vec<(f64, f64)> =
            (1..=10_000).map(|i| (f64::from(i) * 0.01, 100.0 - f64::from(i) * 0.01)).collect();
        let decimated = corners(&dense, 100.0);
        assert!(decimated.len() < 1400, "{}", decimated.len());
        assert_eq!(decimated.last(), dense.last(), "it ends at 1");
    }
}
