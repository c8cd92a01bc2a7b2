//! Decodes links and their changes during a run.

use net::PipeSpec;

use crate::{
    decode_direction::{DIRECTION, decode_direction, empty_direction, overlay_direction},
    error::Problems,
    name::{NamedKind, check_name},
    read::{Keys, Reader},
    trace_file::Files,
    tree::{Node, Table},
    types::{Link, LinkChange},
};

pub(crate) const LINK: Keys = Keys {
    what: "a link",
    known: &["name", "ends", "forward", "backward", "both", "changes"],
    nested: Some(("both", &DIRECTION)),
};
pub(crate) const CHANGE: Keys =
    Keys { what: "a change of a link", known: &["at", "forward", "backward", "both"], nested: None };
const SIDES: [&str; 2] = ["forward", "backward"];

/// Decodes the links of a normalised tree.
pub(crate) fn decode_links(root: &Table, files: &Files, problems: &mut Problems) -> Vec<Link> {
    let Some(node) = root.get("links") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"links\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[links]] above each link");
        return Vec::new();
    };
    items.iter().filter_map(|item| decode_link(item, files, problems)).collect()
}

/// The name of the link that `node` describes: its `name`, or else its ends joined by `-`.
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

fn decode_link(node: &Node, files: &Files, problems: &mut Problems) -> Option<Link> {
    let mut reader = Reader::new(node, &LINK, problems)?;
    if let Some(name) = reader.text("name") {
        let span = reader.node("name").map_or(node.span, |n| n.span);
        check_name(NamedKind::Link, &name, span, reader.problems());
    }
    let [forward, backward] = SIDES.map(|side| {
        reader.node(side).map_or_else(PipeSpec::default, |n| decode_direction(n, files, reader.problems()))
    });
    let changes = decode_changes(&mut reader, files);
    let ends = reader.required("ends", "[\"h1\", \"s1\"]")?;
    let [Some(a), Some(b)] = ends.items().iter().map(Node::text).collect::<Vec<_>>()[..] else {
        reader.report(
            "ends",
            "\"ends\" must name the two ends of the link",
            "for example ends = [\"h1\", \"s1\"]",
        );
        return None;
    };
    Some(Link { name: link_name(node)?, ends: [a.to_owned(), b.to_owned()], forward, backward, changes })
}

/// Decodes the changes in order of time. Each is overlaid on the state before it.
fn decode_changes(link: &mut Reader, files: &Files) -> Vec<LinkChange> {
    let Some(node) = link.node("changes") else { return Vec::new() };
    let mut state = SIDES.map(|side| link.node(side).cloned().unwrap_or_else(|| empty_direction(node)));
    let Some(items) = node.list() else {
        let message = format!("\"changes\" is a list of tables, not {}", node.kind());
        link.report(
            "changes",
            message,
            "write for example changes = [{ at = \"30s\", both = { delay = \"50ms\" } }]",
        );
        return Vec::new();
    };
    let mut timed = Vec::new();
    for item in items {
        let Some(mut reader) = Reader::new(item, &CHANGE, link.problems()) else { continue };
        reader.required("at", "\"30s\"");
        let at = reader.instant("at");
        if SIDES.iter().all(|side| reader.node(side).is_none()) {
            let help = "write for example both = { delay = \"50ms\" }";
            reader.report("", "this change has no effect", help);
        }
        let Some(at) = at else { continue };
        if timed.iter().any(|(other, _)| *other == at) {
            reader.report("at", format!("two changes at {at}"), "put both into one change");
        }
        timed.push((at, item));
    }
    timed.sort_by_key(|(at, _)| *at);
    let mut changes = Vec::new();
    for (at, item) in timed {
        let [forward, backward] = [0, 1].map(|side| {
            if let Some(top) = item.table().and_then(|t| t.get(SIDES[side])) {
                overlay_direction(&mut state[side], top.clone());
            }
            decode_direction(&state[side], files, link.problems())
        });
        changes.push(LinkChange { at, forward, backward });
    }
    changes
}
