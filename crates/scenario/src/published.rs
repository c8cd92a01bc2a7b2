//! Published figures that a scenario should reproduce.

use std::collections::BTreeSet;

use units::{BitRate, Bytes, KernelRequirement, KernelVersion, ParseError, Time};

use crate::{
    error::Problems,
    figure::MetricPath,
    read::{Keys, Reader},
    suggest::suggest,
    tree::{Node, Table},
    types::Scenario,
};

pub(crate) const PUBLISHED: Keys = Keys {
    what: "a published figure",
    known: &[
        "id",
        "variant",
        "metric",
        "over",
        "window",
        "value",
        "tolerance",
        "holds_for",
        "contradiction",
        "known_miss",
        "why",
    ],
    nested: None,
};
pub(crate) const HOLDS_FOR: Keys = Keys { what: "holds_for", known: &["kernel"], nested: None };

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its id in the list of published results, as in `L8-default`.
    pub id: String,
    /// The variant that it is about; `None` if the scenario has no variants.
    pub variant: Option<String>,
    /// The metric.
    pub figure: MetricPath,
    /// The divisor, if the published figure is a ratio.
    pub over: Option<MetricPath>,
    /// The window, for a closed form that depends on one.
    pub window: Option<Bytes>,
    /// The value in its unit; `None` if the source describes the experiment without a figure.
    pub value: Option<f64>,
    /// Whether the value is exact or a bound.
    pub comparison: Comparison,
    /// Relative tolerance within which our value agrees.
    pub tolerance: f64,
    /// The kernels that it holds for, as in `<6.6`; `None` means all.
    pub holds_for_kernel: Option<String>,
    /// How the source contradicts itself, if it does. Our value is then not expected to agree.
    pub contradiction: Option<String>,
    /// Why our value does not agree although it should, if that is documented: then it is no failure.
    pub known_miss: Option<String>,
    /// Why our value may differ, for the reader.
    pub why: Option<String>,
}

/// How a result compares with a published value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The result is about the value.
    About,
    /// The result is at most the value.
    Below,
    /// The result is at least the value.
    Above,
}

impl Comparison {
    /// The sign before the value in scenario files.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::About => "",
            Comparison::Below => "<",
            Comparison::Above => ">",
        }
    }
}

impl Published {
    /// The metric's path, as in `flows.bulk.goodput`, or `flows.a.goodput / flows.b.goodput`.
    pub fn metric_path(&self) -> String {
        match &self.over {
            None => self.figure.to_string(),
            Some(over) => format!("{} / {over}", self.figure),
        }
    }

    /// `bit/s`, `s`, `B` or `1`.
    pub fn unit(&self) -> &'static str {
        match self.over {
            None => self.figure.unit(),
            Some(_) => "1",
        }
    }

    /// True if our value agrees with it; `None` without a published value.
    pub fn agrees(&self, ours: f64) -> Option<bool> {
        let ratio = ours / self.value? - 1.0;
        Some(match self.comparison {
            Comparison::About => ratio.abs() <= self.tolerance,
            Comparison::Below => ratio <= self.tolerance,
            Comparison::Above => ratio >= -self.tolerance,
        })
    }

    /// True if the figure applies to a kernel of this `release` (`uname -r`).
    pub fn holds_on(&self, release: &str) -> bool {
        match &self.holds_for_kernel {
            None => true,
            Some(range) => match (range.parse::<KernelRequirement>(), release.parse::<KernelVersion>()) {
                (Ok(range), Ok(kernel)) => range.matches(kernel),
                _ => false,
            },
        }
    }
}

/// Decodes the published figures of a file with these `variants` and this `base`.
pub(crate) fn decode_published(
    root: &Table,
    variants: &[&str],
    base: &Scenario,
    problems: &mut Problems,
) -> Vec<Published> {
    let Some(node) = root.get("published") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"published\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[published]] above each figure");
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for item in items {
        let Some(figure) = decode_published_figure(item, variants, base, problems) else { continue };
        if !seen.insert((figure.id.clone(), figure.variant.clone(), figure.metric_path())) {
            problems
                .add(item.span, format!("\"{}\" appears twice for the same variant and metric", figure.id));
        }
        all.push(figure);
    }
    all
}

fn decode_published_figure(
    node: &Node,
    variants: &[&str],
    base: &Scenario,
    problems: &mut Problems,
) -> Option<Published> {
    let mut reader = Reader::new(node, &PUBLISHED, problems)?;
    let id = reader.required_text("id", "\"L8-default\"");
    if id.as_deref().is_some_and(|id| id.trim().is_empty()) {
        reader.report("id", "the id is empty", "write the id of the published result, as in \"L8-default\"");
    }
    let variant = decode_variant(variants, &mut reader);
    reader.required("metric", "\"flows.bulk.goodput\"");
    let figure = decode_figure("metric", base, &mut reader);
    let over = decode_figure("over", base, &mut reader);
    let window = reader.size("window");
    let unit = figure.as_ref().map(|figure| if over.is_some() { "1" } else { figure.unit() });
    let value = unit.and_then(|unit| decode_value(unit, &mut reader));
    let needs_tolerance = !matches!(value, Some((_, None) | (Comparison::Below | Comparison::Above, _)));
    if needs_tolerance {
        reader.required("tolerance", "\"10%\"");
    }
    let tolerance = reader.share("tolerance");
    let contradiction = reader.text("contradiction");
    let known_miss = reader.text("known_miss");
    let why = reader.text("why");
    let holds_for_kernel = reader.node("holds_for").and_then(|n| decode_holds_for(n, reader.problems()));
    let (comparison, value) = value?;
    Some(Published {
        id: id?,
        variant,
        figure: figure?,
        over,
        window,
        value,
        comparison,
        tolerance: if needs_tolerance { tolerance? } else { tolerance.unwrap_or(0.0) },
        holds_for_kernel,
        contradiction,
        known_miss,
        why,
    })
}

fn decode_variant(variants: &[&str], reader: &mut Reader) -> Option<String> {
    if !variants.is_empty() {
        reader.required("variant", &format!("\"{}\"", variants[0]));
    }
    let variant = reader.text("variant")?;
    if !variants.contains(&variant.as_str()) {
        reader.report(
            "variant",
            format!("unknown variant \"{variant}\""),
            suggest(&variant, variants.iter().copied()),
        );
    }
    Some(variant)
}

fn decode_figure(key: &str, base: &Scenario, reader: &mut Reader) -> Option<MetricPath> {
    let text = reader.text(key)?;
    let figure = MetricPath::parse(&text, &base.flows, &base.links);
    figure.map_err(|(message, help)| reader.report(key, message, help)).ok()
}

/// Decodes a value in the unit, a bound (`<20mbit`, `>98%`), or `none`.
fn decode_value(unit: &str, reader: &mut Reader) -> Option<(Comparison, Option<f64>)> {
    let example = match unit {
        "bit/s" => "\"3gbit\"",
        "s" => "\"20ms\"",
        "B" => "\"25MB\"",
        _ => "\"98%\"",
    };
    if reader.required("value", example)?.text() == Some("none") {
        return Some((Comparison::About, None));
    }
    let (comparison, value) = reader.parsed("value", |text| {
        let text = text.trim();
        let (comparison, rest) = match (text.strip_prefix('<'), text.strip_prefix('>')) {
            (Some(rest), _) => (Comparison::Below, rest),
            (_, Some(rest)) => (Comparison::Above, rest),
            _ => (Comparison::About, text),
        };
        Ok((comparison, in_unit(rest, unit)?))
    })?;
    if value > 0.0 {
        return Some((comparison, Some(value)));
    }
    reader.report("value", "\"value\" cannot be zero", format!("write for example value = {example}"));
    None
}

fn in_unit(text: &str, unit: &str) -> Result<f64, ParseError> {
    Ok(match unit {
        "bit/s" => text.parse::<BitRate>()?.as_f64(),
        "s" => text.parse::<Time>()?.as_secs_f64(),
        "B" => text.parse::<Bytes>()?.as_f64(),
        _ => number(text)?,
    })
}

/// Parses a number of any size, or a percentage.
fn number(text: &str) -> Result<f64, ParseError> {
    let (digits, scale) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    let number: Option<f64> = digits.parse().ok().filter(|n: &f64| n.is_finite());
    let wrong = || ParseError::NotANumber { input: text.into(), example: "98% or 2.39" };
    Ok(number.ok_or_else(wrong)? / scale)
}

fn decode_holds_for(node: &Node, problems: &mut Problems) -> Option<String> {
    let mut reader = Reader::new(node, &HOLDS_FOR, problems)?;
    let kernel = reader.text("kernel")?;
    if kernel.parse::<KernelRequirement>().is_err() {
        reader.report(
            "kernel",
            format!("{kernel:?} is not a range of kernels"),
            "write for example \"<6.6\" or \">=6.6\"",
        );
    }
    Some(kernel)
}
