//! From a tree to one direction of a link.

use net::{Distribution, Jitter, OPPORTUNITY_BYTES, PipeSpec, QueueLimit, Rate, RateTrace, Reorder};
use units::{Bytes, ParseError};

use crate::{
    decode_hosts::MTU,
    decode_loss::{decode_loss, names_a_loss},
    decode_qdisc::decode_qdisc,
    decode_trace::decode_trace,
    error::Problems,
    read::{Keys, Reader},
    trace_file::Files,
    tree::{Entry, Node, Table, Value},
};

pub(crate) const DIRECTION: Keys = Keys {
    what: "a link's direction",
    known: &[
        "rate",
        "delay",
        "queue",
        "loss",
        "burst",
        "overhead",
        "mtu",
        "down",
        "trace",
        "trace_format",
        "trace_period",
        "jitter",
        "distribution",
        "jitter_reorders",
        "duplicate",
        "corrupt",
        "reorder",
        "reorder_gap",
        "qdisc",
        "ecn",
    ],
    later: &["slot"],
};
/// What mahimahi counts of a packet beside its IP bytes: the TUN device's header (`PACKET_SIZE` is 1504).
const MAHIMAHI_OVERHEAD_BYTES: u32 = OPPORTUNITY_BYTES as u32 - 1500;
const DISTRIBUTIONS: [(&str, Distribution); 3] =
    [("uniform", Distribution::Uniform), ("normal", Distribution::Normal), ("pareto", Distribution::Pareto)];

/// One direction of a link.
pub(crate) fn decode_direction(node: &Node, files: &Files, problems: &mut Problems) -> PipeSpec {
    let Some(mut reader) = Reader::new(node, &DIRECTION, problems) else { return PipeSpec::default() };
    let rate = decode_rate(&mut reader, files);
    let queue = read_queue("queue", &mut reader);
    let limited = reader.node("rate").is_some() || reader.node("trace").is_some();
    if !limited {
        for key in ["queue", "burst", "qdisc", "ecn"] {
            if reader.node(key).is_some() {
                let article = if key == "ecn" { "" } else { "a " };
                let message = format!("{article}{key} without a rate does nothing");
                reader.note(key, message, "give this direction a \"rate\"");
            }
        }
    }
    let queue = if limited { queue.unwrap_or(PipeSpec::DEFAULT_QUEUE) } else { QueueLimit::Unlimited };
    let overhead = reader
        .integer("overhead", 0..=1000, " bytes")
        .map_or_else(|| default_overhead(&rate), |bytes| bytes as u32);
    let (loss, loss_unit) = decode_loss(&mut reader);
    PipeSpec {
        rate,
        burst: reader.size("burst"),
        overhead,
        queue,
        discipline: decode_qdisc(&mut reader, queue, overhead),
        delay: reader.time("delay").unwrap_or_default(),
        jitter: decode_jitter(&mut reader),
        loss,
        loss_unit,
        duplicate: reader.share("duplicate").unwrap_or(0.0),
        corrupt: reader.share("corrupt").unwrap_or(0.0),
        reorder: decode_reorder(&mut reader),
        mtu: reader.integer("mtu", MTU, " bytes").map(|bytes| bytes as u32),
        down: reader.boolean("down").unwrap_or(false),
    }
}

/// Lays what a layer or a change says of a direction over what is known of it. A rate replaces a trace and a
/// trace a rate; a loss, a qdisc and a trace that are complete by themselves replace those before as a whole.
pub(crate) fn overlay_direction(below: &mut Node, top: Node) {
    if let (Some(table), Some(above)) = (below.table_mut(), top.table()) {
        let mut gone: Vec<&str> = Vec::new();
        if above.get("rate").is_some() || above.get("trace").is_some() {
            gone.extend(["trace", "trace_format", "trace_period"]);
        }
        if above.get("trace").is_some() {
            gone.push("rate");
        }
        if above.get("loss").is_some_and(names_a_loss) {
            gone.push("loss");
        }
        if above.get("qdisc").and_then(Node::table).is_some_and(|t| t.get("kind").is_some()) {
            gone.push("qdisc");
        }
        table.0.retain(|entry| !gone.contains(&entry.key.as_str()));
        write_out("qdisc", "kind", table, above);
        write_out("loss", "rate", table, above);
    }
    below.overlay(top);
}

/// `qdisc = "codel"` becomes `qdisc = { kind = "codel" }` where `above` changes something of it.
pub(crate) fn write_out(key: &str, inner: &str, below: &mut Table, above: &Table) {
    let changed = above.get(key).is_some_and(|node| node.table().is_some());
    let Some(node) = below.get_mut(key).filter(|node| changed && node.table().is_none()) else { return };
    let entry = Entry { key: inner.to_owned(), key_span: node.span, node: node.clone() };
    node.value = Value::Table(Table(vec![entry]));
}

/// A direction about which nothing is said, as if written at `place`.
pub(crate) fn empty_direction(place: &Node) -> Node {
    Node { span: place.span, value: Value::Table(Table::default()) }
}

fn decode_rate(reader: &mut Reader, files: &Files) -> Rate {
    let trace = decode_trace(reader, files);
    if reader.node("trace").is_none() {
        return reader.rate("rate").map_or(Rate::Unlimited, Rate::Constant);
    }
    if reader.node("rate").is_some() {
        reader.note("rate", "a direction has a rate or a trace, not both", "remove one of them");
    }
    trace.map_or(Rate::Unlimited, Rate::Trace)
}

/// An opportunity of a mahimahi trace carries a packet of 1500 B of IP whole.
fn default_overhead(rate: &Rate) -> u32 {
    match rate {
        Rate::Trace(trace) if matches!(**trace, RateTrace::Opportunities(_)) => MAHIMAHI_OVERHEAD_BYTES,
        _ => PipeSpec::DEFAULT_OVERHEAD_BYTES,
    }
}

fn decode_jitter(reader: &mut Reader) -> Option<Jitter> {
    let spread = reader.time("jitter");
    let distribution = reader.choice("distribution", &DISTRIBUTIONS).unwrap_or_default();
    let reorders = reader.boolean("jitter_reorders").unwrap_or(false);
    if reader.node("jitter").is_none() {
        for key in ["distribution", "jitter_reorders"] {
            if reader.node(key).is_some() {
                reader.note(
                    key,
                    format!("\"{key}\" goes with a jitter"),
                    "write for example jitter = \"2ms\"",
                );
            }
        }
    }
    let spread = spread.filter(|spread| spread.0 > 0)?;
    Some(Jitter { spread, distribution, reorders })
}

fn decode_reorder(reader: &mut Reader) -> Option<Reorder> {
    let probability = reader.share("reorder");
    let gap = reader.integer("reorder_gap", 1..=u32::MAX.into(), "").unwrap_or(1) as u32;
    if reader.node("reorder").is_none() && reader.node("reorder_gap").is_some() {
        reader.note(
            "reorder_gap",
            "\"reorder_gap\" goes with a reorder",
            "write for example reorder = \"1%\"",
        );
    }
    Some(Reorder { probability: probability.filter(|p| *p > 0.0)?, gap })
}

/// A queue's limit, which lets at least something through.
pub(crate) fn read_queue(key: &str, reader: &mut Reader) -> Option<QueueLimit> {
    let queue = reader.parsed(key, parse_queue)?;
    if matches!(queue, QueueLimit::Bytes(Bytes(0)) | QueueLimit::Packets(0)) {
        let message = match key {
            "queue" => "a queue of nothing lets nothing through".to_owned(),
            key => format!("\"{key}\" cannot be nothing"),
        };
        reader.note(key, message, "write for example \"25MB\" or \"100p\"");
    }
    Some(queue)
}

/// `25MB` or `100p`.
pub(crate) fn parse_queue(text: &str) -> Result<QueueLimit, ParseError> {
    let number = ["packets", "packet", "p"].iter().find_map(|unit| text.trim().strip_suffix(unit));
    match number.map(|n| n.trim().replace('_', "")) {
        Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => match n.parse() {
            Ok(packets) => Ok(QueueLimit::Packets(packets)),
            Err(_) if n.is_empty() => {
                Err(ParseError::NotANumber { input: text.into(), example: "100p or 25MB" })
            }
            Err(_) => Err(ParseError::TooLarge {
                input: text.into(),
                what: "queue",
                limit: "18446744073709551615p",
            }),
        },
        Some(_) => Err(ParseError::NotANumber { input: text.into(), example: "100p or 25MB" }),
        None => text.parse().map(QueueLimit::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues() {
        for (text, queue) in [
            ("100p", QueueLimit::Packets(100)),
            ("1_000 packets", QueueLimit::Packets(1000)),
            ("0p", QueueLimit::Packets(0)),
            ("25MB", QueueLimit::Bytes(Bytes(25_000_000))),
            ("25 MiB", QueueLimit::Bytes(Bytes(26_214_400))),
        ] {
            assert_eq!(parse_queue(text), Ok(queue), "{text}");
        }
        for bad in ["p", "", "-1p", "1.5p", "100", "25M", "99999999999999999999p", "é", "xp"] {
            assert!(parse_queue(bad).is_err(), "{bad}");
        }
    }
}
