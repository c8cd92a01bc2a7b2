//! A sweep or a fit as text, chart and page.

use schema::{Fit, Sweep, SweepKnee, SweepPoint, SweptField, SweptValue};

use crate::axis_name;
use crate::chart::{Chart, ChartCurve, ChartMark, ChartPoint, chart};
use crate::chart_value::ChartValue;
use crate::escape::escape;
use crate::part::{Part, as_html, as_text};
use crate::style::PAGE_CSS;
use crate::text_table::drop_columns;
use crate::text_table::{UNKNOWN, or_unknown, texts};
use crate::{number, words};

/// The meaning of the error bars of a sweep's points.
const BARS: &str = "Whiskers: 95 % confidence interval";

/// The points of a sweep, one per line, and the knees. Whole columns are dropped if they do not fit into
/// `width` characters.
pub fn sweep(sweep: &Sweep, width: Option<usize>) -> String {
    let mut parts = sweep_parts(sweep);
    if let Part::Table { rows, right_aligned } = &mut parts[0] {
        drop_columns(rows, right_aligned, width, &["95 % CONFIDENCE", "RUNS", ""]);
    }
    as_text(&parts)
}

/// The text of [`sweep`] as HTML, for [`sweep_page`].
pub fn sweep_html(sweep: &Sweep) -> String {
    as_html(&sweep_parts(sweep))
}

fn sweep_parts(sweep: &Sweep) -> [Part; 2] {
    let has_variants = sweep.points.iter().any(|point| point.variant.is_some());
    let mut header = texts(["ENGINE"]);
    if has_variants {
        header.push("VARIANT".into());
    }
    header.extend(sweep.fields.iter().map(|field| short(&field.field).to_uppercase()));
    let has_buffers = sweep.points.iter().any(|point| point.buffers.is_some());
    if has_buffers {
        header.extend(texts(["KERNEL BUFFER", "IN FLIGHT"]));
    }
    header.extend(texts([metric_name(&sweep.metric), "95 % CONFIDENCE", "RUNS", ""]));
    let mut right_aligned = vec![false; header.len()];
    right_aligned[1 + usize::from(has_variants)..].fill(true);
    let last = right_aligned.len() - 1;
    right_aligned[last] = false;
    let mut rows = vec![header];
    rows.extend(sweep.points.iter().map(|point| row(point, has_variants, has_buffers, &sweep.unit)));
    let mut text = String::new();
    if let Some(field) = sweep.fields.first() {
        for knee in &sweep.knees {
            let of = curve_label(sweep, &knee.engine, knee.variant.as_deref(), &knee.others);
            text.push_str(&describe_knee(&of, field, &sweep.unit, knee));
        }
    }
    [Part::Table { rows, right_aligned }, Part::Lines(text)]
}

fn row(point: &SweepPoint, has_variants: bool, has_buffers: bool, unit: &str) -> Vec<String> {
    let mut row = vec![point.engine.clone()];
    if has_variants {
        row.push(point.variant.clone().unwrap_or_else(|| UNKNOWN.into()));
    }
    row.extend(point.values.iter().map(|value| value.text.clone()));
    if has_buffers {
        let size = |bytes: Option<f64>| or_unknown(bytes, number::bytes);
        row.push(size(point.buffers.map(|buffers| buffers.kernel_bytes)));
        row.push(size(point.buffers.and_then(|buffers| buffers.used_bytes)));
    }
    row.push(or_unknown(point.mean, |mean| words::figure(mean, unit)));
    let between =
        |(low, high): (f64, f64)| format!("{} to {}", words::figure(low, unit), words::figure(high, unit));
    row.push(point.confidence.map_or(UNKNOWN.into(), between));
    row.push(point.runs.len().to_string());
    let mut remarks = Vec::new();
    if !point.quality_ok {
        remarks.push("unreliable".to_owned());
    }
    if point.earlier > 0 {
        remarks.push(format!("{} from earlier runs", point.earlier));
    }
    row.push(remarks.join(", "));
    row
}

/// The knee of the curve called `of` over `field`, compared with the window law; `unit` is the metric's.
pub(crate) fn describe_knee(of: &str, field: &SweptField, unit: &str, knee: &SweepKnee) -> String {
    let value = |number: f64| field_value(number, &field.unit);
    let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
    let mut text = format!(
        "{of}knee at {} {}, plateau {}",
        short(&field.field),
        value(knee.at),
        words::figure(knee.plateau, unit)
    );
    if let Some(from) = knee.level_from {
        text.push_str(&format!(", within 5 % of it from {}", value(from)));
    }
    text.push('\n');
    if let Some(law) = &knee.law {
        text.push_str(&format!(
            "  a request of {} gives a kernel buffer of {}; the window law (plateau x loaded RTT of {} = {}) predicts {} \
             (the knee differs by {:+.0} %)\n",
            value(knee.at),
            number::bytes(law.real_bytes),
            number::micros(law.loaded_rtt_us),
            number::bytes(law.window_bytes),
            number::bytes(law.at),
            (knee.at / law.at - 1.0) * 100.0,
        ));
    }
    text
}

/// A sweep's metric over its first field, with one curve per combination of the other fields' values.
pub fn sweep_chart(sweep: &Sweep) -> String {
    chart(&chart_of_sweep(sweep))
}

/// The chart that [`sweep_chart`] draws.
pub fn chart_of_sweep(sweep: &Sweep) -> Chart {
    let mut values: Vec<SweptValue> = Vec::new();
    for first in sweep.points.iter().filter_map(|point| point.values.first()) {
        if !values.contains(first) {
            values.push(first.clone());
        }
    }
    sort(&mut values);
    let shown = chart_values(&values);
    let mut curves: Vec<ChartCurve> = Vec::new();
    for point in &sweep.points {
        let (Some(first), Some(height)) = (point.values.first(), point.mean) else { continue };
        let others = &point.values[1..];
        let label = curve_label(sweep, &point.engine, point.variant.as_deref(), others);
        let value = values.iter().position(|v| v == first).unwrap_or_default();
        let drawn = ChartPoint { value, height, bar: point.confidence };
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(drawn),
            None => {
                let is_of_this_curve = |knee: &&SweepKnee| {
                    knee.engine == point.engine && knee.variant == point.variant && knee.others == others
                };
                let mark = sweep.knees.iter().find(is_of_this_curve).map(|knee| ChartMark {
                    at: knee.at,
                    is_on_curve: true,
                    label: format!("knee at {}", axis_name::value_like(&shown, knee.at)),
                });
                curves.push(ChartCurve { label, points: vec![drawn], mark });
            }
        }
    }
    curves.iter_mut().for_each(|curve| curve.points.sort_by_key(|point| point.value));
    let (x_label, values) = axis_name::across(sweep.fields.first().map_or("", |field| &field.field), shown);
    Chart {
        title: sweep.title.clone(),
        x_label,
        values,
        y_label: axis_name::title(&sweep.metric),
        unit: sweep.unit.clone(),
        bars: BARS.into(),
        curves,
    }
}

/// The best values, the residuals, and all values that were tried.
pub fn fit(fit: &Fit) -> String {
    as_text(&fit_parts(fit))
}

/// The text of [`fit`] as HTML, for [`sweep_page`].
pub fn fit_html(fit: &Fit) -> String {
    as_html(&fit_parts(fit))
}

fn fit_parts(fit: &Fit) -> [Part; 4] {
    let mut text = String::new();
    for unknown in &fit.unknowns {
        text.push_str(&format!(
            "best {} = {} (searched from {} to {})\n",
            unknown.field, unknown.best.text, unknown.low.text, unknown.high.text
        ));
    }
    text.push_str(&format!("root mean square error {} in {} runs\n\n", percent(fit.error), fit.runs));
    let mut rows = vec![texts(["FIGURE", "METRIC", "PUBLISHED", "OURS", "RESIDUAL"])];
    for figure in &fit.figures {
        rows.push(vec![
            figure_name(fit, figure),
            figure.metric.clone(),
            words::figure(figure.published, &figure.unit),
            or_unknown(figure.ours, |ours| words::figure(ours, &figure.unit)),
            percent(figure.residual),
        ]);
    }
    let figures = Part::Table { rows, right_aligned: vec![false, false, true, true, true] };
    let mut header: Vec<String> = fit.unknowns.iter().map(|u| short(&u.field).to_uppercase()).collect();
    header.push("ERROR".into());
    header.extend(
        fit.figures
            .iter()
            .map(|figure| format!("{} {}", figure_name(fit, figure), metric_name(&figure.metric))),
    );
    let right_aligned = vec![true; header.len()];
    let mut rows = vec![header];
    for tried in &fit.tried {
        let mut row: Vec<String> = tried.values.iter().map(|value| value.text.clone()).collect();
        row.push(percent(tried.error));
        let figures = tried.figures.iter().zip(&fit.figures);
        row.extend(figures.map(|(ours, figure)| or_unknown(*ours, |ours| words::figure(ours, &figure.unit))));
        rows.push(row);
    }
    [Part::Lines(text), figures, Part::Lines("\nsensitivity\n".into()), Part::Table { rows, right_aligned }]
}

/// Each figure's relative error and the total error over the first unknown, with the others at their best
/// values.
pub fn fit_chart(fit: &Fit) -> String {
    chart(&chart_of_fit(fit))
}

/// The chart that [`fit_chart`] draws.
pub fn chart_of_fit(fit: &Fit) -> Chart {
    let best = |values: &[SweptValue]| {
        values.iter().zip(&fit.unknowns).skip(1).all(|(value, unknown)| *value == unknown.best)
    };
    let tried: Vec<_> = fit.tried.iter().filter(|tried| best(&tried.values)).collect();
    let mut values: Vec<SweptValue> =
        tried.iter().filter_map(|tried| tried.values.first().cloned()).collect();
    sort(&mut values);
    let index = |value: Option<&SweptValue>| values.iter().position(|v| Some(v) == value).unwrap_or_default();
    let curve = |label: String, height: &dyn Fn(&schema::FitTried) -> Option<f64>| {
        let point = |tried: &&schema::FitTried| {
            let height = 100.0 * height(tried)?;
            Some(ChartPoint { value: index(tried.values.first()), height, bar: None })
        };
        let mut points: Vec<ChartPoint> = tried.iter().filter_map(point).collect();
        points.sort_by_key(|point| point.value);
        ChartCurve { label, points, mark: None }
    };
    let mut curves = vec![curve("root mean square".into(), &|tried| tried.error)];
    let best_mark = |unknown: &schema::Unknown| {
        Some(ChartMark {
            at: unknown.best.number?,
            is_on_curve: false,
            label: format!("best: {}", unknown.best.text),
        })
    };
    curves[0].mark = fit.unknowns.first().and_then(best_mark);
    for (index, figure) in fit.figures.iter().enumerate() {
        let label = format!("{} {}", figure_name(fit, figure), figure.metric);
        curves
            .push(curve(label, &|tried| Some(tried.figures.get(index).copied()?? / figure.published - 1.0)));
    }
    let (x_label, values) =
        axis_name::across(fit.unknowns.first().map_or("", |unknown| &unknown.field), chart_values(&values));
    Chart {
        title: format!("{}: sensitivity of the figures", fit.scenarios.join(", ")),
        x_label,
        values,
        y_label: "Relative error (%)".into(),
        unit: "1".into(),
        bars: String::new(),
        curves,
    }
}

/// An HTML page with a chart, and the output of [`sweep_html`] or [`fit_html`].
pub fn sweep_page(title: &str, html: &str, svg: &str, command: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} \u{b7} longfat</title>\n\
         <style>\n{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <div class=\"card plot\">\n{svg}\n</div>\n{html}<p>Created by:</p>\n<pre><code>{}</code></pre>\n</main>\n</body>\n</html>\n",
        escape(command)
    )
}

/// A curve's distinguishing label: engine, variant, and the values of the fields after the first.
fn curve_label(sweep: &Sweep, engine: &str, variant: Option<&str>, others: &[SweptValue]) -> String {
    let mut parts = Vec::new();
    if sweep.points.iter().any(|point| point.engine != engine) {
        parts.push(engine.to_owned());
    }
    parts.extend(variant.map(str::to_owned));
    let fields = sweep.fields.iter().skip(1).zip(others);
    parts.extend(fields.map(|(field, value)| format!("{} {}", short(&field.field), value.text)));
    parts.join(", ")
}

fn chart_values(values: &[SweptValue]) -> Vec<ChartValue> {
    values.iter().map(|v| ChartValue { text: v.text.clone(), number: v.number }).collect()
}

/// Sorts values by number if all are numbers.
fn sort(values: &mut Vec<SweptValue>) {
    values.dedup();
    if values.iter().all(|value| value.number.is_some()) {
        values.sort_by(|a, b| a.number.unwrap_or(0.0).total_cmp(&b.number.unwrap_or(0.0)));
    }
}

fn figure_name(fit: &Fit, figure: &schema::FitFigure) -> String {
    let twice = fit.figures.iter().filter(|other| other.id == figure.id).count() > 1;
    match &figure.variant {
        Some(variant) if twice => format!("{} {variant}", figure.id),
        _ => figure.id.clone(),
    }
}

fn field_value(number: f64, unit: &str) -> String {
    match unit {
        "" => number::significant(number, 4),
        "packets" => format!("{} packets", number::significant(number, 3)),
        unit => words::figure(number, unit),
    }
}

/// `queue` of `links.s1-s2.forward.queue`.
fn short(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}

/// `bulk.goodput` of `flows.bulk.goodput`.
fn metric_name(metric: &str) -> &str {
    metric.strip_prefix("flows.").unwrap_or(metric)
}

/// A share with its sign, in per cent.
fn percent(share: Option<f64>) -> String {
    or_unknown(share, |share| format!("{:+.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use schema::{FitFigure, FitTried, HostInfo, SWEEP_SCHEMA, SweptField, Unknown, WindowLaw};

    use super::*;

    fn value(number: f64) -> SweptValue {
        SweptValue { text: format!("{}KiB", number / 1024.0), number: Some(number) }
    }

    fn host() -> HostInfo {
        HostInfo { kernel: "6.18.0".into(), cpus: 2 }
    }

    fn example() -> Sweep {
        let point = |size: f64, mean: f64| SweepPoint {
            engine: "sim".into(),
            variant: None,
            values: vec![value(size)],
            sweep: Default::default(),
            runs: vec!["a".into(), "b".into()],
            records: vec![None, None],
            earlier: 1,
            figures: vec![mean, mean],
            mean: Some(mean),
            confidence: Some((mean * 0.9, mean * 1.1)),
            buffers: None,
            quality_ok: size < 3000.0,
        };
        Sweep {
            schema: SWEEP_SCHEMA.into(),
            scenario: "s".into(),
            title: "buffers".into(),
            file: Some("s.toml".into()),
            set: Default::default(),
            host: host(),
            metric: "flows.bulk.goodput".into(),
            unit: "bit/s".into(),
            fields: vec![SweptField { field: "flows.bulk.send_buffer".into(), unit: "B".into() }],
            points: vec![point(4096.0, 9e8), point(2048.0, 5e8)],
            knees: vec![SweepKnee {
                engine: "sim".into(),
                variant: None,
                others: vec![],
                at: 3686.0,
                plateau: 9e8,
                level_from: Some(4096.0),
                law: Some(WindowLaw {
                    real_bytes: 7372.0,
                    loaded_rtt_us: 60.0,
                    window_bytes: 6750.0,
                    at: 3835.0,
                }),
            }],
        }
    }

    #[test]
    fn the_table_of_a_sweep_has_points_and_knee() {
        let text = sweep(&example(), None);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("ENGINE  SEND_BUFFER  bulk.goodput       95 % CONFIDENCE  RUNS"));
        assert_eq!(
            lines.next(),
            Some(
                "sim            4KiB      900 Mb/s  810 Mb/s to 990 Mb/s     2  unreliable, 1 from earlier runs"
            )
        );
        assert!(
            text.contains("knee at send_buffer 3.69 kB, plateau 900 Mb/s, within 5 % of it from 4.10 kB"),
            "{text}"
        );
        assert!(
            text.contains("a kernel buffer of 7.37 kB") && text.contains("the knee differs by -4 %"),
            "{text}"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let text = sweep(&example(), Some(50));
        // The remarks and the interval are too wide; the number of runs has space.
        assert_eq!(text.lines().next(), Some("ENGINE  SEND_BUFFER  bulk.goodput  RUNS"));
        assert!(text.lines().nth(1).unwrap().ends_with("900 Mb/s     2"), "{text}");
    }

    #[test]
    fn the_axis_of_a_chart_ranges_from_the_smallest_value_to_the_largest() {
        let svg = sweep_chart(&example());
        let position = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text} in {svg}"));
        assert!(position(">2<") < position(">4<"));
        assert!(svg.contains("Goodput (Gb/s)") && svg.contains("swatch dot s0"));
        assert!(svg.contains("Send buffer (KiB)") && svg.contains("knee at 3.60 KiB"), "{svg}");
        let page = sweep_page("a < b", &sweep_html(&example()), &svg, "x & y");
        assert!(page.contains("<h1>a &lt; b</h1>") && page.contains("<code>x &amp; y</code>"));
        assert!(page.contains("<th class=\"n\">95 % confidence</th>"), "{page}");
    }

    #[test]
    fn the_text_of_a_fit_has_residuals_and_sensitivity() {
        let tried = |size: f64, ours: f64| FitTried {
            values: vec![value(size)],
            error: Some(ours / 1e9 - 1.0),
            figures: vec![Some(ours)],
        };
        let fitted = Fit {
            scenarios: vec!["s".into()],
            engine: "sim".into(),
            unknowns: vec![Unknown {
                field: "flows.bulk.send_buffer".into(),
                unit: "B".into(),
                low: value(1024.0),
                high: value(8192.0),
                best: value(2048.0),
            }],
            error: Some(0.1),
            figures: vec![FitFigure {
                scenario: "s".into(),
                id: "X-1".into(),
                variant: None,
                metric: "flows.bulk.goodput".into(),
                unit: "bit/s".into(),
                published: 1e9,
                bound: None,
                ours: Some(1.1e9),
                residual: Some(0.1),
            }],
            tried: vec![tried(2048.0, 1.1e9), tried(4096.0, 1.5e9)],
            runs: 2,
        };
        let text = fit(&fitted);
        assert!(
            text.starts_with("best flows.bulk.send_buffer = 2KiB (searched from 1KiB to 8KiB)\n"),
            "{text}"
        );
        assert!(text.contains("+10.0 %") && text.contains("+50.0 %") && text.contains("1.50 Gb/s"), "{text}");
        let svg = fit_chart(&fitted);
        assert!(svg.contains("root mean square") && svg.contains("X-1 flows.bulk.goodput"), "{svg}");
    }
}
