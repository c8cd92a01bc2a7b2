//! Decodes the loss of a direction: a share, or a table of a loss model.

use net::{GilbertElliott, LossModel, LossUnit};
use units::{Instant, Time};

use crate::{
    error::Problems,
    read::{Keys, MAX_TIME, Reader, texts},
    suggest::suggest,
    tree::{Node, Value},
};

const KNOWN: &[&str] = &[
    "model",
    "unit",
    "rate",
    "to_bad",
    "to_good",
    "loss_bad",
    "loss_good",
    "every",
    "packets",
    "at",
    "count",
];
pub(crate) const LOSS: Keys = Keys { what: "a loss", known: KNOWN, nested: None };
const EXAMPLE: &str =
    "write a rate, every, packets or at, or model = \"gilbert-elliott\" with to_bad and to_good";
/// The keys of each model, in addition to `model` and `unit`.
const MODELS: [(&str, &[&str]); 5] = [
    ("independent", &["rate"]),
    ("gilbert-elliott", &["to_bad", "to_good", "loss_bad", "loss_good"]),
    ("every", &["every"]),
    ("packets", &["packets"]),
    ("at", &["at", "count"]),
];

/// Decodes the loss of a direction: `loss = "1%"` or `loss = { every = 100 }`.
pub(crate) fn decode_loss(direction: &mut Reader) -> (LossModel, LossUnit) {
    let model = match direction.node("loss") {
        Some(node) if node.table().is_some() => decode_table(node, direction.problems()),
        _ => direction.share("loss").map(|share| (LossModel::Independent(share), LossUnit::Segment)),
    };
    match model {
        // A share of zero is not a loss, whatever its unit.
        None | Some((LossModel::None, _)) => (LossModel::None, LossUnit::Segment),
        Some((LossModel::Independent(0.0), _)) => (LossModel::None, LossUnit::Segment),
        Some(model) => model,
    }
}

/// True if this table is a complete loss, rather than a change of one.
pub(crate) fn names_a_loss(node: &Node) -> bool {
    let selects_model = |key: &str| matches!(key, "model" | "rate" | "every" | "packets" | "at");
    node.table().is_some_and(|t| t.0.iter().any(|e| selects_model(&e.key)))
}

fn decode_table(node: &Node, problems: &mut Problems) -> Option<(LossModel, LossUnit)> {
    let mut reader = Reader::new(node, &LOSS, problems)?;
    let unit =
        reader.choice("unit", &[("segment", LossUnit::Segment), ("super-packet", LossUnit::SuperPacket)]);
    let model = model_name(&mut reader)?;
    let keys = MODELS.iter().find(|(name, _)| *name == model).map_or(&[][..], |(_, keys)| keys);
    for entry in node.table().into_iter().flat_map(|t| &t.0) {
        let key = entry.key.as_str();
        if KNOWN.contains(&key) && !keys.contains(&key) && !matches!(key, "model" | "unit") {
            let help = format!("it has {}", keys.join(", "));
            reader.problems().add_help(
                entry.key_span,
                format!("the loss model \"{model}\" has no key \"{key}\""),
                help,
            );
        }
    }
    let model = match model {
        "independent" => {
            reader.required("rate", "\"1%\"");
            LossModel::Independent(reader.share("rate")?)
        }
        "gilbert-elliott" => LossModel::GilbertElliott(gilbert_elliott(&mut reader)?),
        "every" => LossModel::Every(reader.integer("every", 1..=u64::MAX, "")?),
        "packets" => LossModel::Packets(packets(&mut reader)?),
        _ => {
            let at = loss_times(&mut reader);
            let count = reader.integer("count", 1..=u32::MAX.into(), "").unwrap_or(1) as u32;
            LossModel::Times { at: at?, count }
        }
    };
    Some((model, unit.unwrap_or_default()))
}

/// The model by name, or else by the keys of the table.
fn model_name(reader: &mut Reader) -> Option<&'static str> {
    if reader.node("model").is_some() {
        let text = reader.text("model")?;
        let known = MODELS.map(|(name, _)| name);
        let found = known.into_iter().find(|name| *name == text);
        if found.is_none() {
            reader.report("model", format!("unknown loss model \"{text}\""), suggest(&text, known));
        }
        return found;
    }
    let found = ["rate", "every", "packets", "at"].into_iter().find(|key| reader.node(key).is_some());
    match found {
        Some("rate") => Some("independent"),
        Some(name) => Some(name),
        None => {
            reader.report("", "this loss has no model", EXAMPLE);
            None
        }
    }
}

fn gilbert_elliott(reader: &mut Reader) -> Option<GilbertElliott> {
    reader.required("to_bad", "\"0.1%\"");
    reader.required("to_good", "\"10%\"");
    let mut share = |key, default| match reader.node(key) {
        // A probability of 1 is common here, so a bare 1 is accepted as 100 %.
        Some(Node { value: Value::Integer(1), .. }) => Some(1.0),
        Some(_) => reader.share(key),
        None => default,
    };
    let (to_bad, to_good) = (share("to_bad", None), share("to_good", None));
    let (loss_bad, loss_good) = (share("loss_bad", Some(1.0)), share("loss_good", Some(0.0)));
    Some(GilbertElliott { to_bad: to_bad?, to_good: to_good?, loss_bad: loss_bad?, loss_good: loss_good? })
}

/// Decodes packet numbers, which start at 1, and sorts them.
fn packets(reader: &mut Reader) -> Option<Vec<u64>> {
    let node = reader.required("packets", "[3, 10]")?;
    let mut all = Vec::new();
    for item in node.list().unwrap_or(std::slice::from_ref(node)) {
        let number = match item.value {
            Value::Integer(n) => u64::try_from(n).ok().filter(|n| *n > 0),
            _ => None,
        };
        match number {
            Some(number) => all.push(number),
            None => {
                let help = "write whole numbers; the first packet is 1";
                reader.problems().add_help(item.span, "this is not a packet number", help);
                return None;
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        reader.report("packets", "\"packets\" is empty", "write for example packets = [3, 10]");
    }
    Some(all)
}

fn loss_times(reader: &mut Reader) -> Option<Vec<Instant>> {
    let node = reader.required("at", "[\"5s\"]")?;
    let mut all = Vec::new();
    for (text, span) in texts(node, "at", reader.problems()) {
        match text.parse::<Time>() {
            Ok(time) if time <= MAX_TIME => all.push(Instant::ZERO + time),
            Ok(_) => reader.problems().add_help(span, "\"at\" exceeds 30 days", "write a shorter time"),
            Err(e) => reader.problems().add(span, format!("at: {e}")),
        }
    }
    all.sort_unstable();
    if node.list().is_some_and(|items| items.is_empty()) {
        reader.report("at", "\"at\" is empty", "write for example at = [\"5s\"]");
    }
    Some(all)
}
