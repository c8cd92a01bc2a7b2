//! Published figures that a scenario is to reproduce.

use std::collections::BTreeSet;

use units::{BitRate, KernelRequirement, KernelVersion, Time};

use crate::{
    error::Problems,
    metric::Metric,
    read::{Keys, Reader},
    suggest::suggest,
    tree::{Node, Table},
    types::Flow,
};

const PUBLISHED: Keys = Keys {
    what: "a published figure",
    known: &["id", "variant", "metric", "value", "tolerance", "holds_for", "why"],
    later: &[],
};
const HOLDS_FOR: Keys = Keys { what: "holds_for", known: &["kernel"], later: &["engine", "mtu"] };

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its id in the list of published results, as in `L8-default`.
    pub id: String,
    /// The variant it belongs to; `None` where the scenario has none.
    pub variant: Option<String>,
    /// The flow it is a figure of.
    pub flow: String,
    /// What it is a figure of.
    pub metric: Metric,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// Relative tolerance within which ours agrees.
    pub tolerance: f64,
    /// The kernels it holds for, as in `<6.6`; `None` is all.
    pub holds_for_kernel: Option<String>,
    /// Why it differs elsewhere, for the reader.
    pub why: Option<String>,
}

impl Published {
    /// What is measured, as in `flows.bulk.goodput`.
    pub fn metric_path(&self) -> String {
        format!("flows.{}.{}", self.flow, self.metric.name())
    }

    /// True where the figure is expected of the kernel of this `release` (`uname -r`).
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

/// The published figures of a file with these `variants` and `flows`.
pub(crate) fn decode_published(
    root: &Table,
    variants: &[&str],
    flows: &[Flow],
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
        let Some(figure) = decode_one(item, variants, flows, problems) else { continue };
        if !seen.insert((figure.id.clone(), figure.variant.clone(), figure.metric_path())) {
            problems
                .add(item.span, format!("\"{}\" is there twice for the same variant and metric", figure.id));
        }
        all.push(figure);
    }
    all
}

fn decode_one(node: &Node, variants: &[&str], flows: &[Flow], problems: &mut Problems) -> Option<Published> {
    let mut reader = Reader::new(node, &PUBLISHED, problems)?;
    let id = reader.required_text("id", "\"L8-default\"");
    if id.as_deref().is_some_and(|id| id.trim().is_empty()) {
        reader.note("id", "the id is empty", "write the id of the published result, as in \"L8-default\"");
    }
    let variant = decode_variant(variants, &mut reader);
    let metric = decode_metric(flows, &mut reader);
    let value = metric.as_ref().and_then(|(_, metric)| decode_value(*metric, &mut reader));
    reader.required("tolerance", "\"10%\"");
    let tolerance = reader.share("tolerance");
    let why = reader.text("why");
    let holds_for_kernel = reader.node("holds_for").and_then(|n| decode_holds_for(n, reader.problems()));
    let (flow, metric) = metric?;
    Some(Published {
        id: id?,
        variant,
        flow,
        metric,
        value: value?,
        tolerance: tolerance?,
        holds_for_kernel,
        why,
    })
}

fn decode_variant(variants: &[&str], reader: &mut Reader) -> Option<String> {
    if !variants.is_empty() {
        reader.required("variant", &format!("\"{}\"", variants[0]));
    }
    let variant = reader.text("variant")?;
    if !variants.contains(&variant.as_str()) {
        reader.note(
            "variant",
            format!("unknown variant \"{variant}\""),
            suggest(&variant, variants.iter().copied()),
        );
    }
    Some(variant)
}

/// `flows.FLOW.METRIC`.
fn decode_metric(flows: &[Flow], reader: &mut Reader) -> Option<(String, Metric)> {
    let text = reader.required_text("metric", "\"flows.bulk.goodput\"")?;
    let parts: Vec<&str> = text.split('.').collect();
    let ["flows", flow, metric] = parts[..] else {
        reader.note(
            "metric",
            format!("unknown metric \"{text}\""),
            "write flows.NAME.METRIC, as in flows.bulk.goodput",
        );
        return None;
    };
    let Some(flow) = flows.iter().find(|f| f.name == flow) else {
        let help = suggest(flow, flows.iter().map(|f| f.name.as_str()));
        reader.note("metric", format!("unknown flow \"{flow}\""), help);
        return None;
    };
    let usable = || Metric::ALL.into_iter().filter(|m| m.applies_to(&flow.kind)).map(Metric::name);
    match Metric::from_name(metric) {
        Some(metric) if metric.applies_to(&flow.kind) => Some((flow.name.clone(), metric)),
        Some(_) => {
            let help = format!("it has {}", usable().collect::<Vec<_>>().join(", "));
            reader.note("metric", format!("a {} flow has no {metric}", flow.kind.name()), help);
            None
        }
        None => {
            reader.note("metric", format!("unknown metric \"{metric}\""), suggest(metric, usable()));
            None
        }
    }
}

fn decode_value(metric: Metric, reader: &mut Reader) -> Option<f64> {
    if metric.is_rate() {
        reader.required("value", "\"3gbit\"")?;
        reader.rate("value").map(BitRate::as_f64)
    } else {
        reader.required("value", "\"20ms\"")?;
        reader.positive_time("value").map(Time::as_secs_f64)
    }
}

fn decode_holds_for(node: &Node, problems: &mut Problems) -> Option<String> {
    let mut reader = Reader::new(node, &HOLDS_FOR, problems)?;
    let kernel = reader.text("kernel")?;
    if kernel.parse::<KernelRequirement>().is_err() {
        reader.note(
            "kernel",
            format!("{kernel:?} is no range of kernels"),
            "write for example \"<6.6\" or \">=6.6\"",
        );
    }
    Some(kernel)
}
