//! From a tree to links.

use net::{LossModel, PipeSpec, QueueLimit, Rate};
use units::{Bytes, ParseError};

use crate::{
    error::Problems,
    name::{Named, check_name},
    read::{Keys, Reader},
    tree::{Node, Table},
    types::Link,
};

const LINK: Keys =
    Keys { what: "a link", known: &["name", "ends", "forward", "backward", "both"], later: &["mtu"] };
const DIRECTION: Keys = Keys {
    what: "a link's direction",
    known: &["rate", "delay", "queue", "loss", "burst", "overhead"],
    later: &[
        "jitter",
        "distribution",
        "reorder",
        "reordering",
        "duplicate",
        "duplication",
        "mtu",
        "qdisc",
        "ecn",
        "loss_model",
        "trace",
        "rate_trace",
    ],
};

/// The links of a normalised tree.
pub(crate) fn decode_links(root: &Table, problems: &mut Problems) -> Vec<Link> {
    let Some(node) = root.get("links") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"links\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[links]] above each link");
        return Vec::new();
    };
    items.iter().filter_map(|item| decode_link(item, problems)).collect()
}

/// The name of the link that `node` describes: the one given, or made of its ends.
pub(crate) fn link_name(node: &Node) -> Option<String> {
    let table = node.table()?;
    if let Some(name) = table.get("name") {
        return name.text().map(str::to_owned);
    }
    match table.items("ends") {
        [a, b] => Some(format!("{}-{}", a.text()?, b.text()?)),
        _ => None,
    }
}

fn decode_link(node: &Node, problems: &mut Problems) -> Option<Link> {
    let mut reader = Reader::new(node, &LINK, problems)?;
    if let Some(name) = reader.text("name") {
        let place = reader.node("name").map_or(node.span, |n| n.span);
        check_name(Named::Link, &name, place, reader.problems());
    }
    let forward = reader.node("forward").map(|n| decode_direction(n, reader.problems()));
    let backward = reader.node("backward").map(|n| decode_direction(n, reader.problems()));
    let ends = reader.required("ends", "[\"h1\", \"s1\"]")?;
    let [Some(a), Some(b)] = ends.items().iter().map(Node::text).collect::<Vec<_>>()[..] else {
        reader.note(
            "ends",
            "\"ends\" names the two things that a link joins",
            "for example ends = [\"h1\", \"s1\"]",
        );
        return None;
    };
    Some(Link {
        name: link_name(node)?,
        ends: [a.to_owned(), b.to_owned()],
        forward: forward.unwrap_or_default(),
        backward: backward.unwrap_or_default(),
        changes: Vec::new(),
    })
}

pub(crate) fn decode_direction(node: &Node, problems: &mut Problems) -> PipeSpec {
    let Some(mut reader) = Reader::new(node, &DIRECTION, problems) else { return PipeSpec::default() };
    let rate = reader.rate("rate");
    let queue = reader.parsed("queue", parse_queue);
    if reader.node("rate").is_none() {
        for key in ["queue", "burst"] {
            if reader.node(key).is_some() {
                reader.note(
                    key,
                    format!("a {key} without a rate does nothing"),
                    "give this direction a \"rate\"",
                );
            }
        }
    }
    if matches!(queue, Some(QueueLimit::Bytes(Bytes(0)) | QueueLimit::Packets(0))) {
        reader.note(
            "queue",
            "a queue of nothing lets nothing through",
            "write for example \"25MB\" or \"100p\"",
        );
    }
    PipeSpec {
        rate: rate.map_or(Rate::Unlimited, Rate::Constant),
        delay: reader.time("delay").unwrap_or_default(),
        queue: match rate {
            Some(_) => queue.unwrap_or(PipeSpec::DEFAULT_QUEUE),
            None => QueueLimit::Unlimited,
        },
        loss: match reader.share("loss") {
            Some(share) if share > 0.0 => LossModel::Independent(share),
            _ => LossModel::None,
        },
        burst: reader.size("burst"),
        overhead: reader
            .integer("overhead", 0..=1000, " bytes")
            .map_or(PipeSpec::DEFAULT_OVERHEAD_BYTES, |bytes| bytes as u32),
        ..PipeSpec::default()
    }
}

/// `25MB` or `100p`.
fn parse_queue(text: &str) -> Result<QueueLimit, ParseError> {
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
