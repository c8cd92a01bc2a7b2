//! Published figures that a scenario should reproduce.

use std::collections::BTreeSet;

use units::{BitRate, Bytes, Instant, KernelRequirement, KernelVersion, ParseError, Time};

use crate::{
    error::Problems,
    figure::MetricPath,
    metric::Metric,
    read::{Keys, Reader},
    suggest::suggest,
    tree::{Node, Table},
    types::Scenario,
};

pub(crate) const PUBLISHED: Keys = Keys {
    what: "a published figure",
    known: &[
        "id",
        "kind",
        "claim",
        "variant",
        "against",
        "beside",
        "variants",
        "knee_over",
        "metric",
        "between",
        "over",
        "window",
        "value",
        "tolerance",
        "holds_for",
        "contradiction",
        "known_miss",
        "experiment",
        "does_not_apply",
        "why",
    ],
    nested: None,
};
pub(crate) const PER_ENGINE: Keys =
    Keys { what: "a text per engine", known: &["model", "sim", "lab", "kernel", "hosts"], nested: None };
pub(crate) const HOLDS_FOR: Keys = Keys { what: "holds_for", known: &["kernel"], nested: None };

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its id in the list of published results, as in `L8-default`.
    pub id: String,
    /// The kind of the figure.
    pub kind: Kind,
    /// The source's statement in words, if it gives no figure.
    pub claim: Option<String>,
    /// The variant that it is about; `None` if the scenario has no variants, or if the figure is of several.
    pub variant: Option<String>,
    /// How the runs of several variants make one figure.
    pub across: Across,
    /// For the same experiment with today's kernel: the variant with the source's kernel, whose figure is
    /// shown beside this one.
    pub beside: Option<String>,
    /// The metric.
    pub figure: MetricPath,
    /// The part of the run over which a goodput is taken; `None`: the part that the metric itself defines.
    pub between: Option<(Instant, Instant)>,
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
    /// Why an engine's value does not agree although it should, if that is documented: then it is not a
    /// failure.
    pub known_miss: PerEngine,
    /// The experiment that shows the cause of an engine's miss: a command, or the name of a variant.
    pub experiment: PerEngine,
    /// Why an engine's value does not apply to the figure: the engine ignores the effect that determines it.
    pub does_not_apply: PerEngine,
    /// Why our value may differ, for the reader.
    pub why: Option<String>,
}

/// The kind of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The source prints it, or states it in words.
    #[default]
    Published,
    /// Computed from the source's own formula or figures.
    Derived,
    /// Measured by this project: no reproduction.
    MeasuredByUs,
}

/// How the runs of several variants make one figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Across {
    /// The figure of one variant.
    #[default]
    One,
    /// The metric divided by that of this variant.
    Against(String),
    /// The smallest value of the metric among these variants, divided by the largest: 1 if all are the same.
    Level(Vec<String>),
    /// The smallest size of a buffer from which on the metric is level: within [`KNEE_TOLERANCE`] of its
    /// largest value.
    Knee {
        /// The variants, each with another size.
        variants: Vec<String>,
        /// The flow.
        flow: String,
        /// Whether the size is that of the send buffer; else of the receive buffer.
        is_send_buffer: bool,
    },
}

/// Relative deviation from the largest value at which a line is level.
pub const KNEE_TOLERANCE: f64 = 0.02;

/// A text for all engines, or for some.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerEngine {
    all: Option<String>,
    engines: Vec<(&'static str, String)>,
}

impl PerEngine {
    /// The text for the engine of this name (`model`, `sim`, `lab`, `kernel`, `hosts`).
    pub fn of(&self, engine: &str) -> Option<&str> {
        let own = self.engines.iter().find(|(name, _)| *name == engine).map(|(_, text)| text);
        own.or(self.all.as_ref()).map(String::as_str)
    }
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
        let part = |(from, to): &(Instant, Instant)| format!(" from {from} to {to}");
        let figure = format!("{}{}", self.figure, self.between.as_ref().map(part).unwrap_or_default());
        let figure = match &self.over {
            None => figure,
            Some(over) => format!("{figure} / {over}"),
        };
        match &self.across {
            Across::One => figure,
            Across::Against(other) => format!("{figure}, against {other}"),
            Across::Level(variants) => format!("{figure}, smallest / largest of {}", variants.join(", ")),
            Across::Knee { flow, is_send_buffer, .. } => {
                let buffer = if *is_send_buffer { "send_buffer" } else { "receive_buffer" };
                format!("knee of {figure} over flows.{flow}.{buffer}")
            }
        }
    }

    /// The variants whose runs the figure needs; `None` in a file without variants.
    pub fn variants(&self) -> Vec<Option<&str>> {
        let own = self.variant.as_deref();
        match &self.across {
            Across::One => vec![own],
            Across::Against(other) => vec![own, Some(other)],
            Across::Level(variants) | Across::Knee { variants, .. } => {
                variants.iter().map(|name| Some(name.as_str())).collect()
            }
        }
    }

    /// Whether the figure needs runs of several variants.
    pub fn is_across_variants(&self) -> bool {
        self.across != Across::One
    }

    /// `bit/s`, `s`, `B` or `1`.
    pub fn unit(&self) -> &'static str {
        match (&self.across, &self.over) {
            (Across::Knee { .. }, _) => "B",
            (Across::One, None) => self.figure.unit(),
            _ => "1",
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
        if !seen.insert((figure.id.clone(), figure.kind, figure.variant.clone(), figure.metric_path())) {
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
    let kinds =
        [("published", Kind::Published), ("derived", Kind::Derived), ("measured_by_us", Kind::MeasuredByUs)];
    let kind = reader.choice("kind", &kinds).unwrap_or_default();
    let claim = reader.text("claim");
    let across = decode_across(variants, base, &mut reader);
    let variant = match &across {
        Across::One | Across::Against(_) => decode_variant(variants, &mut reader),
        Across::Level(_) | Across::Knee { .. } => {
            if reader.node("variant").is_some() {
                reader.report(
                    "variant",
                    "a figure has a variant or variants, not both",
                    "remove one of the keys",
                );
            }
            None
        }
    };
    let beside = decode_beside(variants, variant.as_deref(), &mut reader);
    reader.required("metric", "\"flows.bulk.goodput\"");
    let figure = decode_figure("metric", base, &mut reader);
    let over = decode_figure("over", base, &mut reader);
    let between = decode_between(figure.as_ref(), &mut reader);
    let window = reader.size("window");
    let unit = figure.as_ref().map(|figure| match (&across, &over) {
        (Across::Knee { .. }, _) => "B",
        (Across::One, None) => figure.unit(),
        _ => "1",
    });
    let value = unit.and_then(|unit| decode_value(unit, &mut reader));
    let needs_tolerance = !matches!(value, Some((_, None) | (Comparison::Below | Comparison::Above, _)));
    if needs_tolerance {
        reader.required("tolerance", "\"10%\"");
    }
    let tolerance = reader.share("tolerance");
    let contradiction = reader.text("contradiction");
    let known_miss = decode_per_engine("known_miss", &mut reader);
    let experiment = decode_per_engine("experiment", &mut reader);
    let does_not_apply = decode_per_engine("does_not_apply", &mut reader);
    let why = reader.text("why");
    let holds_for_kernel = reader.node("holds_for").and_then(|n| decode_holds_for(n, reader.problems()));
    let (comparison, value) = value?;
    Some(Published {
        id: id?,
        kind,
        claim,
        variant,
        across,
        beside,
        figure: figure?,
        between,
        over,
        window,
        value,
        comparison,
        tolerance: if needs_tolerance { tolerance? } else { tolerance.unwrap_or(0.0) },
        holds_for_kernel,
        contradiction,
        known_miss,
        experiment,
        does_not_apply,
        why,
    })
}

fn decode_across(variants: &[&str], base: &Scenario, reader: &mut Reader) -> Across {
    let is_known = |name: &str, key: &str, reader: &mut Reader| {
        let known = variants.contains(&name);
        if !known {
            reader.report(
                key,
                format!("unknown variant \"{name}\""),
                suggest(name, variants.iter().copied()),
            );
        }
        known
    };
    let several: Vec<String> =
        reader.texts("variants").into_iter().map(|(name, _)| name.to_owned()).collect();
    let unknown = several.iter().filter(|name| !is_known(name, "variants", reader)).count();
    if unknown > 0 {
        return Across::One;
    }
    if let Some(other) = reader.text("against") {
        if !several.is_empty() {
            let help = "\"against\" compares with one variant, \"variants\" compares all of them";
            reader.report("against", "a figure has \"against\" or \"variants\", not both", help);
        }
        return if is_known(&other, "against", reader) { Across::Against(other) } else { Across::One };
    }
    let knee = reader.text("knee_over");
    if reader.node("variants").is_some() || knee.is_some() {
        if several.len() < 2 {
            let help = "write for example variants = [\"20k\", \"40k\"]";
            reader.report("variants", "the figure needs at least two variants", help);
            return Across::One;
        }
    } else {
        return Across::One;
    }
    let Some(field) = knee else { return Across::Level(several) };
    let parts: Vec<&str> = field.split('.').collect();
    match parts[..] {
        ["flows", flow, buffer @ ("send_buffer" | "receive_buffer")]
            if base.flows.iter().any(|one| one.name == flow) =>
        {
            Across::Knee { variants: several, flow: flow.to_owned(), is_send_buffer: buffer == "send_buffer" }
        }
        _ => {
            let help = "write flows.NAME.send_buffer or flows.NAME.receive_buffer";
            reader.report("knee_over", format!("\"{field}\" is not a buffer of a flow"), help);
            Across::One
        }
    }
}

/// Decodes the part of a run over which a flow's goodput is taken.
fn decode_between(figure: Option<&MetricPath>, reader: &mut Reader) -> Option<(Instant, Instant)> {
    const HELP: &str = "write for example between = [\"5s\", \"5.08s\"]";
    let ends = reader.texts("between");
    reader.node("between")?;
    if !matches!(figure, Some(MetricPath::Flow { metric: Metric::Goodput, .. })) {
        reader.report(
            "between",
            "only the goodput of a flow has parts",
            "write metric = \"flows.NAME.goodput\"",
        );
        return None;
    }
    let times: Vec<Time> = ends.iter().filter_map(|(text, _)| text.parse().ok()).collect();
    match times[..] {
        [from, to] if from < to => Some((Instant::ZERO + from, Instant::ZERO + to)),
        _ => {
            reader.report("between", "\"between\" is a start and a later end", HELP);
            None
        }
    }
}

/// Decodes a text, or a table with a text per engine.
fn decode_per_engine(key: &str, reader: &mut Reader) -> PerEngine {
    let Some(node) = reader.node(key) else { return PerEngine::default() };
    if node.table().is_none() {
        return PerEngine { all: reader.text(key), engines: Vec::new() };
    }
    let Some(mut own) = Reader::new(node, &PER_ENGINE, reader.problems()) else {
        return PerEngine::default();
    };
    let texts = PER_ENGINE.known.iter().filter_map(|engine| Some((*engine, own.text(engine)?)));
    PerEngine { all: None, engines: texts.collect() }
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

/// Decodes the variant with the source's kernel that belongs to `variant`, which has today's.
fn decode_beside(variants: &[&str], variant: Option<&str>, reader: &mut Reader) -> Option<String> {
    let beside = reader.text("beside")?;
    if !variants.contains(&beside.as_str()) {
        let help = suggest(&beside, variants.iter().copied());
        reader.report("beside", format!("unknown variant \"{beside}\""), help);
        return None;
    }
    if variant.is_none_or(|own| own == beside) {
        let help = "\"variant\" has today's kernel; name the variant with the kernel of the source";
        reader.report("beside", "\"beside\" needs another variant than that of the figure", help);
        return None;
    }
    Some(beside)
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
