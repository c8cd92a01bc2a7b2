//! Decodes the queue discipline of a direction: a name, or a table of its parameters.

use net::{Codel, Discipline, DualPi2, Fq, FqCodel, QueueLimit, Red, Xcp};
use units::{Bytes, Time};

use crate::{
    decode_queue::read_queue,
    read::{Keys, Reader},
    suggest::suggest,
    tree::Node,
};

pub(crate) const KINDS: [(&str, Keys); 8] = [
    ("droptail", Keys { what: "the qdisc droptail", known: &["kind", "mark_above"], nested: None }),
    ("drophead", Keys { what: "the qdisc drophead", known: &["kind"], nested: None }),
    (
        "red",
        Keys {
            what: "the qdisc red",
            known: &["kind", "min", "max", "probability", "weight", "gentle", "ecn"],
            nested: None,
        },
    ),
    ("codel", Keys { what: "the qdisc codel", known: &["kind", "target", "interval", "ecn"], nested: None }),
    (
        "fq_codel",
        Keys {
            what: "the qdisc fq_codel",
            known: &["kind", "target", "interval", "ecn", "flows", "quantum"],
            nested: None,
        },
    ),
    ("fq", Keys { what: "the qdisc fq", known: &["kind", "flows", "quantum"], nested: None }),
    (
        "dualpi2",
        Keys {
            what: "the qdisc dualpi2",
            known: &["kind", "target", "update", "alpha", "beta", "coupling", "step"],
            nested: None,
        },
    ),
    ("xcp", Keys { what: "the qdisc xcp", known: &["kind", "alpha", "beta", "shuffle"], nested: None }),
];
/// The disciplines that mark packets if `ecn` is true.
const MARKING: [&str; 3] = ["red", "codel", "fq_codel"];
/// Sally Floyd, "RED: Discussions of Setting Parameters" (1997): max_p 0.1, max_th three times min_th.
const RED_PROBABILITY: f64 = 0.1;
const RED_MAX_OVER_MIN: u64 = 3;
/// Floyd and Jacobson 1993, section 6: w_q = 0.002.
const RED_WEIGHT: f64 = 0.002;
/// IP bytes per packet by which a limit in packets is converted to bytes.
const RED_PACKET_BYTES: u64 = 1500;
const MAX_FLOWS: u64 = 65536;
/// The lower end lets a packet of the smallest MTU out in one round.
const QUANTUM: std::ops::RangeInclusive<u64> = 68..=1_000_000;
const GAIN: std::ops::RangeInclusive<f64> = 0.0..=1000.0;

/// Decodes the discipline of a direction with this queue limit and overhead per packet.
pub(crate) fn decode_qdisc(direction: &mut Reader, limit: QueueLimit, overhead: u32) -> Discipline {
    let ecn = direction.boolean("ecn");
    let node = direction.node("qdisc");
    let kind = match node {
        None => "droptail".to_owned(),
        Some(node) => match kind_of(node, direction) {
            Some(kind) => kind,
            None => return Discipline::default(),
        },
    };
    let Some((_, keys)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let help = suggest(&kind, KINDS.iter().map(|(name, _)| *name));
        direction.report("qdisc", format!("unknown qdisc \"{kind}\""), help);
        return Discipline::default();
    };
    if ecn == Some(true) && !MARKING.contains(&kind.as_str()) {
        let help = match kind.as_str() {
            "droptail" => {
                "set a threshold: qdisc = { kind = \"droptail\", mark_above = \"100p\" }".to_owned()
            }
            "dualpi2" => "dualpi2 always marks: remove it".to_owned(),
            _ => format!("qdiscs that mark: {}", MARKING.join(", ")),
        };
        direction.report("ecn", format!("\"ecn\" has no effect with the qdisc {kind}"), help);
    }
    let empty = crate::tree::Table::default();
    let table = node.and_then(Node::table).unwrap_or(&empty);
    let span = node.map_or(crate::tree::FILE_START, |n| n.span);
    let mut reader = Reader::of_table(table, span, keys, direction.problems());
    let ecn = reader.boolean("ecn").or(ecn);
    match kind.as_str() {
        "drophead" => Discipline::DropHead,
        "red" => Discipline::Red(red(&mut reader, limit, overhead, ecn)),
        "codel" => Discipline::Codel(codel(&mut reader, Codel::default(), ecn)),
        "fq_codel" => {
            let default = FqCodel::default();
            let codel = codel(&mut reader, default.codel, ecn);
            let (flows, quantum) = round_robin(&mut reader, default.flows, default.quantum);
            Discipline::FqCodel(FqCodel { codel, flows, quantum })
        }
        "fq" => {
            let default = Fq::default();
            let (flows, quantum) = round_robin(&mut reader, default.flows, default.quantum);
            Discipline::Fq(Fq { flows, quantum })
        }
        "dualpi2" => Discipline::DualPi2(dualpi2(&mut reader)),
        "xcp" => Discipline::Xcp(xcp(&mut reader)),
        _ => Discipline::DropTail { mark_above: read_queue("mark_above", &mut reader) },
    }
}

/// The discipline's name: the string, or the `kind` of the table.
fn kind_of(node: &Node, direction: &mut Reader) -> Option<String> {
    match (node.text(), node.table()) {
        (Some(text), _) => Some(text.to_owned()),
        (None, Some(table)) => match table.get("kind").map(Node::text) {
            Some(Some(text)) => Some(text.to_owned()),
            Some(None) => {
                direction.report("qdisc", "the kind of a qdisc is a string", "write kind = \"codel\"");
                None
            }
            None => {
                direction.report("qdisc", "a qdisc needs \"kind\"", "for example kind = \"codel\"");
                None
            }
        },
        _ => {
            let message = format!("\"qdisc\" is a name or a table, not {}", node.kind());
            direction.report("qdisc", message, "write for example qdisc = \"codel\"");
            None
        }
    }
}

fn red(reader: &mut Reader, limit: QueueLimit, overhead: u32, ecn: Option<bool>) -> Red {
    let limit = limit.bytes(RED_PACKET_BYTES + u64::from(overhead)).map_or(0, |bytes| bytes.0);
    let max = reader.size("max").unwrap_or(Bytes((limit / 2).max(RED_MAX_OVER_MIN)));
    let min = reader.size("min").unwrap_or(Bytes((max.0 / RED_MAX_OVER_MIN).max(1)));
    if min >= max {
        let key = if reader.node("min").is_some() { "min" } else { "max" };
        reader.report(
            key,
            format!("RED's min of {min} is not below its max of {max}"),
            "write a smaller min",
        );
    }
    let max_probability = reader.share("probability").unwrap_or(RED_PROBABILITY);
    if max_probability == 0.0 {
        reader.report("probability", "\"probability\" cannot be zero", "write for example probability = 0.1");
    }
    let weight = reader.number("weight", 1e-6..=1.0).unwrap_or(RED_WEIGHT);
    let gentle = reader.boolean("gentle").unwrap_or(true);
    Red { min, max, max_probability, weight, gentle, ecn: ecn.unwrap_or(false) }
}

fn codel(reader: &mut Reader, default: Codel, ecn: Option<bool>) -> Codel {
    Codel {
        target: reader.positive_time("target").unwrap_or(default.target),
        interval: reader.positive_time("interval").unwrap_or(default.interval),
        ecn: ecn.unwrap_or(default.ecn),
    }
}

fn round_robin(reader: &mut Reader, flows: u32, quantum: u32) -> (u32, u32) {
    (
        reader.integer("flows", 1..=MAX_FLOWS, "").map_or(flows, |n| n as u32),
        reader.integer("quantum", QUANTUM, " bytes").map_or(quantum, |n| n as u32),
    )
}

fn dualpi2(reader: &mut Reader) -> DualPi2 {
    let default = DualPi2::default();
    let time = |reader: &mut Reader, key, default: Time| reader.positive_time(key).unwrap_or(default);
    DualPi2 {
        target: time(reader, "target", default.target),
        update: time(reader, "update", default.update),
        alpha: reader.number("alpha", GAIN).unwrap_or(default.alpha),
        beta: reader.number("beta", GAIN).unwrap_or(default.beta),
        coupling: reader.number("coupling", GAIN).unwrap_or(default.coupling),
        step: time(reader, "step", default.step),
    }
}

fn xcp(reader: &mut Reader) -> Xcp {
    let default = Xcp::default();
    Xcp {
        alpha: reader.number("alpha", GAIN).unwrap_or(default.alpha),
        beta: reader.number("beta", GAIN).unwrap_or(default.beta),
        shuffle: reader.number("shuffle", 0.0..=1.0).unwrap_or(default.shuffle),
    }
}
