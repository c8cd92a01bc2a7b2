//! Decodes routers. `fill.rs` assigns the addresses that a file omits.

use crate::{
    decode_interfaces::{decode_interfaces, decode_ports, decode_routes, links_of},
    error::Problems,
    name::{NamedKind, check_name},
    read::{Keys, Reader, texts},
    tree::{Entry, Node, Span, Table, Value},
    types::{Interface, Link, Router},
};

pub(crate) const ROUTER: Keys =
    Keys { what: "a router", known: &["interfaces", "ports", "routes"], nested: None };
/// The key that lists routers without a table.
pub(crate) const NAMES: &str = "names";

/// Expands `names`: gives each listed router a table, before the other routers.
pub(crate) fn write_out_names(routers: &mut Table) {
    let Some(names) = routers.get(NAMES) else { return };
    let names_span = names.span;
    let named: Vec<(String, Span)> =
        names.items().iter().filter_map(|n| Some((n.text()?.to_owned(), n.span))).collect();
    let mut all = Vec::new();
    for (name, span) in named {
        if name == NAMES || all.iter().any(|e: &Entry| e.key == name) {
            continue;
        }
        let own = routers.remove(&name);
        let empty = Node { span: names_span, value: Value::Table(Table::default()) };
        all.push(own.unwrap_or(Entry { key: name, key_span: span, node: empty }));
    }
    all.append(&mut routers.0);
    routers.0 = all;
}

/// Decodes the routers of a normalised tree with these links.
pub(crate) fn decode_routers(root: &Table, links: &[Link], problems: &mut Problems) -> Vec<Router> {
    let Some(node) = root.get("routers") else { return Vec::new() };
    let Some(table) = node.table() else {
        let message = format!("\"routers\" is a table of routers, not {}", node.kind());
        problems.add_help(
            node.span,
            message,
            "write [routers.r1], or names = [\"r1\", \"r2\"] under [routers]",
        );
        return Vec::new();
    };
    if let Some(names) = table.get(NAMES) {
        check_names(names, problems);
    }
    let routers = table.0.iter().filter(|entry| entry.key != NAMES);
    routers.filter_map(|entry| decode_router(entry, links, problems)).collect()
}

fn check_names(names: &Node, problems: &mut Problems) {
    if names.list().is_none() {
        let message = format!("\"names\" is a list of strings, not {}", names.kind());
        problems.add_help(names.span, message, "write names = [\"r1\", \"r2\"]");
        return;
    }
    let texts = texts(names, NAMES, problems);
    for (i, (name, span)) in texts.iter().enumerate() {
        if *name == NAMES {
            problems.add_help(*span, "no router can be called \"names\"", "give it another name");
        }
        if texts[..i].iter().any(|(other, _)| other == name) {
            problems.add_help(*span, format!("two routers are called \"{name}\""), "give it another name");
        }
    }
}

fn decode_router(entry: &Entry, links: &[Link], problems: &mut Problems) -> Option<Router> {
    check_name(NamedKind::Router, &entry.key, entry.key_span, problems);
    let mut reader = Reader::new(&entry.node, &ROUTER, problems)?;
    let name = entry.key.clone();
    let mut interfaces = vec![Interface::default(); links_of(&name, links).len()];
    decode_interfaces(&name, &mut reader, &mut interfaces);
    decode_ports(&name, &mut reader, links, &mut interfaces);
    let routes = decode_routes(&mut reader);
    Some(Router { name, interfaces, routes })
}
