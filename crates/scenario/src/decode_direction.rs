//! Decodes one direction of a link.

use crate::{
    decode_hosts::MTU,
    decode_loss::{decode_loss, names_a_loss},
    decode_qdisc::decode_qdisc,
    decode_queue::read_queue,
    decode_trace::decode_trace,
    error::Problems,
    read::{Keys, Reader},
    trace_file::Files,
    tree::{Entry, Node, Table, Value},
};
use net::{Distribution, Jitter, OPPORTUNITY_BYTES, PipeSpec, QueueLimit, Rate, RateTrace, Reorder};
use units::Time;

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
    nested: None,
};
/// Bytes that mahimahi counts per packet in addition to IP: the TUN device's header (`PACKET_SIZE` is 1504).
const MAHIMAHI_OVERHEAD_BYTES: u32 = OPPORTUNITY_BYTES as u32 - 1500;
const DISTRIBUTIONS: [(&str, Distribution); 3] =
    [("uniform", Distribution::Uniform), ("normal", Distribution::Normal), ("pareto", Distribution::Pareto)];

/// Decodes one direction of a link.
pub(crate) fn decode_direction(node: &Node, files: &Files, problems: &mut Problems) -> PipeSpec {
    let Some(mut reader) = Reader::new(node, &DIRECTION, problems) else { return PipeSpec::default() };
    let rate = decode_rate(&mut reader, files);
    let queue = read_queue("queue", &mut reader);
    let is_limited = reader.node("rate").is_some() || reader.node("trace").is_some();
    if !is_limited {
        for key in ["queue", "burst", "qdisc", "ecn"] {
            if reader.node(key).is_some() {
                let message = format!("\"{key}\" has no effect without \"rate\"");
                reader.report(key, message, "give this direction a rate");
            }
        }
    } else if reader.node("trace").is_some() && reader.node("burst").is_some() {
        reader.report("burst", "\"burst\" has no effect with a trace", "remove it");
    }
    let queue = if is_limited { queue.unwrap_or(PipeSpec::DEFAULT_QUEUE) } else { QueueLimit::Unlimited };
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

/// Overlays a direction with the keys of a layer or a change. A rate replaces a trace and a trace replaces a
/// rate and its burst. A loss, a qdisc or a trace that is complete by itself replaces the previous one as a
/// whole.
pub(crate) fn overlay_direction(below: &mut Node, top: Node) {
    if let (Some(table), Some(above)) = (below.table_mut(), top.table()) {
        let mut replaced: Vec<&str> = Vec::new();
        if above.get("rate").is_some() || above.get("trace").is_some() {
            replaced.extend(["trace", "trace_format", "trace_period"]);
        }
        if above.get("trace").is_some() {
            replaced.extend(["rate", "burst"]);
        }
        if above.get("loss").is_some_and(names_a_loss) {
            replaced.push("loss");
        }
        if above.get("qdisc").and_then(Node::table).is_some_and(|t| t.get("kind").is_some()) {
            replaced.push("qdisc");
        }
        table.0.retain(|entry| !replaced.contains(&entry.key.as_str()));
        write_out("qdisc", "kind", table, above);
        write_out("loss", "rate", table, above);
    }
    below.overlay(top);
}

/// Expands `qdisc = "codel"` to `qdisc = { kind = "codel" }` if `above` changes one of its parameters.
pub(crate) fn write_out(key: &str, inner: &str, below: &mut Table, above: &Table) {
    let changed = above.get(key).is_some_and(|node| node.table().is_some());
    let Some(node) = below.get_mut(key).filter(|node| changed && node.table().is_none()) else { return };
    let entry = Entry { key: inner.to_owned(), key_span: node.span, node: node.clone() };
    node.value = Value::Table(Table(vec![entry]));
}

/// A direction without keys, as if written at `node`.
pub(crate) fn empty_direction(node: &Node) -> Node {
    Node { span: node.span, value: Value::Table(Table::default()) }
}

fn decode_rate(reader: &mut Reader, files: &Files) -> Rate {
    let trace = decode_trace(reader, files);
    if reader.node("trace").is_none() {
        return reader.rate("rate").map_or(Rate::Unlimited, Rate::Constant);
    }
    if reader.node("rate").is_some() {
        reader.report("rate", "a direction has a rate or a trace, not both", "remove one of them");
    }
    trace.map_or(Rate::Unlimited, Rate::Trace)
}

/// The overhead if the file has none. With a mahimahi trace it is such that an opportunity carries exactly
/// 1500 B of IP.
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
                reader.report(
                    key,
                    format!("\"{key}\" needs \"jitter\""),
                    "write for example jitter = \"2ms\"",
                );
            }
        }
    }
    let spread = spread.filter(|spread| *spread > Time::ZERO)?;
    Some(Jitter { spread, distribution, reorders })
}

fn decode_reorder(reader: &mut Reader) -> Option<Reorder> {
    let probability = reader.share("reorder");
    let gap = reader.integer("reorder_gap", 1..=u32::MAX.into(), "").unwrap_or(1) as u32;
    if reader.node("reorder").is_none() && reader.node("reorder_gap").is_some() {
        reader.report(
            "reorder_gap",
            "\"reorder_gap\" needs \"reorder\"",
            "write for example reorder = \"1%\"",
        );
    }
    Some(Reorder { probability: probability.filter(|p| *p > 0.0)?, gap })
}
