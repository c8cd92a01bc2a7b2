//! Overlays layers on the base: a variant, or a `--set` of the command line.
//!
//! Short forms are expanded first, in the base and in each layer: `hosts."*"` becomes keys of every host,
//! `both` becomes `forward` and `backward`, and nested sysctl tables become dotted names. Then each layer is
//! merged. Hosts, links and flows are matched by name, although links and flows are lists in the base; in a
//! layer `"*"` is all of them. A later layer overrides earlier ones, so a variant's `"*"` overrides the
//! base's keys of one host.

use crate::{
    decode_cc::names_a_cc,
    decode_direction::{DIRECTION, overlay_direction, write_out},
    decode_flows::TCP,
    decode_hosts::HOST,
    decode_links::link_name,
    decode_routers::{NAMES, write_out_names},
    error::Problems,
    read::{Keys, check_key},
    suggest::suggest,
    tree::{Entry, Node, Table, Value},
};

/// The keys that a layer may change.
pub(crate) const LAYER: Keys = Keys {
    what: "a variant or --set",
    known: &[
        "title", "duration", "sample", "seed", "repeat", "sysctl", "hosts", "routers", "links", "flows",
        "capture",
    ],
    nested: None,
};

/// The name that means all hosts, links or flows.
const ALL: &str = "*";

/// Expands the short forms of a scenario's base.
pub(crate) fn normalise(root: &mut Table) {
    if let Some(hosts) = root.get_mut("hosts").and_then(Node::table_mut) {
        hosts.0.iter_mut().for_each(|h| flatten_sysctl(&mut h.node));
        if let Some(all) = hosts.remove(ALL) {
            for host in hosts.0.iter_mut().filter(|h| h.node.table().is_some()) {
                let own = std::mem::replace(&mut host.node, all.node.clone());
                let span = own.span;
                host.node.overlay(own);
                host.node.span = span;
            }
        }
    }
    if let Some(routers) = root.get_mut("routers").and_then(Node::table_mut) {
        write_out_names(routers);
    }
    if let Some(Value::List(links)) = root.get_mut("links").map(|n| &mut n.value) {
        links.iter_mut().for_each(expand_both);
    }
}

/// Returns `base` with `layer` merged into it. `base` must be normalised; `layer` is as written.
pub(crate) fn apply(base: &Table, layer: &Table, problems: &mut Problems) -> Table {
    let mut merged = base.clone();
    for entry in &layer.0 {
        match entry.key.as_str() {
            "hosts" => overlay_hosts(&mut merged, &entry.node, problems),
            "routers" => overlay_routers(&mut merged, &entry.node, problems),
            "links" => overlay_named(&mut merged, &LINKS, &entry.node, problems),
            "flows" => overlay_named(&mut merged, &FLOWS, &entry.node, problems),
            key if LAYER.known.contains(&key) => merged.overlay_entry(entry.clone()),
            key => match location_hint(key, &merged) {
                Some(help) => {
                    let message = format!("unknown key \"{key}\" in {}", LAYER.what);
                    problems.add_help(entry.key_span, message, help);
                }
                None => check_key(key, entry.key_span, &LAYER, problems),
            },
        }
    }
    merged
}

/// Help for a key that only links, flows or hosts have: its whole path in this scenario.
fn location_hint(key: &str, root: &Table) -> Option<String> {
    let meant = match key {
        "bandwidth" | "bw" | "capacity" => "rate",
        "latency" | "rtt" => "delay",
        key => key,
    };
    let path = if DIRECTION.known.contains(&meant) && meant != "mtu" {
        let links = root.items("links");
        let has =
            |link: &&Node, key: &str| forward_of(link).is_some_and(|direction| direction.get(key).is_some());
        let link = links.iter().find(|link| has(link, meant)).or(links.iter().find(|link| has(link, "rate")));
        format!("links.{}.forward.{meant}", quoted_key(&link_name(link.or(links.first())?)?))
    } else if TCP.known.contains(&meant) {
        let names: Vec<String> = root.items("flows").iter().filter_map(FLOWS.name).collect();
        match names.as_slice() {
            [] => return None,
            [one] => format!("flows.{}.{meant}", quoted_key(one)),
            _ => format!("flows.*.{meant}"),
        }
    } else if HOST.known.contains(&meant) {
        format!("hosts.*.{meant}")
    } else if key == "net" {
        "hosts.*.sysctl.\"net.ipv4...\"".to_owned()
    } else {
        return None;
    };
    Some(match key {
        "rtt" => format!(
            "the round-trip time is the sum of the delays of both directions: write {}, half of the round-trip time",
            path.replace(".forward.", ".both.")
        ),
        _ => format!("write {path}"),
    })
}

fn forward_of(link: &Node) -> Option<&Table> {
    link.table()?.get("forward")?.table()
}

/// A key of a path, in quotes where it has dots.
fn quoted_key(key: &str) -> String {
    if key.contains('.') { format!("\"{key}\"") } else { key.to_owned() }
}

fn overlay_hosts(merged: &mut Table, layer: &Node, problems: &mut Problems) {
    let (Some(hosts), Some(layer_hosts)) = (merged.get_mut("hosts").and_then(Node::table_mut), layer.table())
    else {
        problems.add(layer.span, format!("\"hosts\" is a table of hosts, not {}", layer.kind()));
        return;
    };
    // "*" is applied first, so that the keys of one host in the same layer override it.
    let (all, named): (Vec<&Entry>, Vec<&Entry>) = layer_hosts.0.iter().partition(|e| e.key == ALL);
    for entry in all.into_iter().chain(named) {
        let mut top = entry.node.clone();
        flatten_sysctl(&mut top);
        if entry.key == ALL {
            hosts.0.iter_mut().for_each(|host| host.node.overlay(top.clone()));
        } else if let Some(host) = hosts.get_mut(&entry.key) {
            host.overlay(top);
        } else {
            let help = suggest(&entry.key, hosts.0.iter().map(|h| h.key.as_str()));
            problems.add_help(entry.key_span, format!("unknown host \"{}\"", entry.key), help);
        }
    }
}

fn overlay_routers(merged: &mut Table, layer: &Node, problems: &mut Problems) {
    let Some(layer_routers) = layer.table() else {
        problems.add(layer.span, format!("\"routers\" is a table of routers, not {}", layer.kind()));
        return;
    };
    let none = &mut Table::default();
    let routers = merged.get_mut("routers").and_then(Node::table_mut).unwrap_or(none);
    for entry in &layer_routers.0 {
        match routers.get_mut(&entry.key).filter(|_| entry.key != NAMES) {
            Some(router) => router.overlay(entry.node.clone()),
            None => {
                let names = routers.0.iter().map(|r| r.key.as_str()).filter(|name| *name != NAMES);
                let help = suggest(&entry.key, names);
                problems.add_help(entry.key_span, format!("unknown router \"{}\"", entry.key), help);
            }
        }
    }
}

/// A list of the base whose items a layer addresses by name.
struct NamedList {
    key: &'static str,
    item: &'static str,
    example: &'static str,
    name: fn(&Node) -> Option<String>,
    /// Keys that determine the name, so that a layer cannot change them.
    fixed: &'static [&'static str],
}

const LINKS: NamedList = NamedList {
    key: "links",
    item: "link",
    example: "links.\"s1-s2\".forward.loss = \"1%\"",
    name: link_name,
    fixed: &["name", "ends"],
};
const FLOWS: NamedList = NamedList {
    key: "flows",
    item: "flow",
    example: "flows.bulk.cc = \"reno\"",
    name: |node| node.table()?.get("name")?.text().map(str::to_owned),
    fixed: &["name"],
};

fn overlay_named(merged: &mut Table, list: &NamedList, layer: &Node, problems: &mut Problems) {
    let Some(layer_items) = layer.table() else {
        let message = format!("here {} are addressed by name", list.key);
        problems.add_help(layer.span, message, format!("write for example {}", list.example));
        return;
    };
    let Some(Value::List(items)) = merged.get_mut(list.key).map(|n| &mut n.value) else { return };
    let names: Vec<Option<String>> = items.iter().map(list.name).collect();
    // "*" is applied first, as for hosts.
    let (all, named): (Vec<&Entry>, Vec<&Entry>) = layer_items.0.iter().partition(|e| e.key == ALL);
    for entry in all.into_iter().chain(named) {
        let is_meant = |name: &Option<String>| entry.key == ALL || name.as_deref() == Some(&entry.key);
        let meant: Vec<usize> = (0..names.len()).filter(|at| is_meant(&names[*at])).collect();
        if meant.is_empty() {
            let help = suggest(&entry.key, names.iter().flatten().map(String::as_str));
            problems.add_help(entry.key_span, format!("unknown {} \"{}\"", list.item, entry.key), help);
            continue;
        }
        let mut top = entry.node.clone();
        expand_both(&mut top);
        for fixed in list.fixed {
            if let Some(changed) = top.table_mut().and_then(|t| t.remove(fixed)) {
                let message = format!("the {fixed} of a {} cannot be changed here", list.item);
                problems.add_help(changed.key_span, message, "write a separate scenario");
            }
        }
        meant.into_iter().for_each(|at| overlay_item(&mut items[at], top.clone()));
    }
}

/// Merges a layer's link or flow into that of the base. Only links have directions; only flows have a
/// congestion control.
fn overlay_item(item: &mut Node, mut top: Node) {
    for side in ["forward", "backward"] {
        let Some(below) = item.table_mut().and_then(|t| t.get_mut(side)) else { continue };
        if let Some(above) = top.table_mut().and_then(|t| t.remove(side)) {
            overlay_direction(below, above.node);
        }
    }
    if let (Some(below), Some(above)) = (item.table_mut(), top.table()) {
        // A cc with a name does not inherit parameters of the previous cc.
        if above.get("cc").is_some_and(names_a_cc) {
            below.remove("cc");
        }
        write_out("cc", "name", below, above);
    }
    item.overlay(top);
}

/// Expands `both` to `forward` and `backward`, whose own keys override those of `both`; also in the link's
/// `changes`.
fn expand_both(link: &mut Node) {
    let Some(table) = link.table_mut() else { return };
    if let Some(Value::List(changes)) = table.get_mut("changes").map(|n| &mut n.value) {
        changes.iter_mut().for_each(expand_both);
    }
    let Some(both) = table.remove("both") else { return };
    for side in ["forward", "backward"] {
        let mut entry = Entry { key: side.to_owned(), ..both.clone() };
        if let Some(own) = table.remove(side) {
            entry.key_span = own.key_span;
            overlay_direction(&mut entry.node, own.node);
        }
        table.0.push(entry);
    }
}

/// Expands `sysctl.net.ipv4.tcp_rmem = ..` to `sysctl."net.ipv4.tcp_rmem" = ..`.
fn flatten_sysctl(host: &mut Node) {
    let Some(sysctl) = host.table_mut().and_then(|t| t.get_mut("sysctl")).and_then(Node::table_mut) else {
        return;
    };
    let mut flat = Table::default();
    for entry in std::mem::take(&mut sysctl.0) {
        flatten(entry, &mut flat);
    }
    *sysctl = flat;
}

fn flatten(entry: Entry, flat: &mut Table) {
    let Value::Table(inner) = entry.node.value else {
        flat.overlay_entry(entry);
        return;
    };
    for deeper in inner.0 {
        flatten(Entry { key: format!("{}.{}", entry.key, deeper.key), ..deeper }, flat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Step, parse_document};

    const BASE: &str = r#"
        hosts."*".sysctl = { "net.a" = 1, "net.b" = 1 }
        hosts.h1.sysctl.net.b = 2
        hosts.h2.mtu = 9000
        [[links]]
        ends = ["h1", "h2"]
        both = { rate = "1gbit", delay = "1ms" }
        backward = { delay = "2ms" }
    "#;

    fn base() -> Table {
        let mut root = parse_document(BASE, 0).unwrap();
        normalise(&mut root);
        root
    }

    fn value(root: &Table, path: &[&str]) -> String {
        let mut node = root.get(path[0]).unwrap();
        for key in &path[1..] {
            node = match node.list() {
                Some(items) => &items[key.parse::<usize>().unwrap()],
                None => node.table().unwrap().get(key).unwrap_or_else(|| panic!("no {key} in {node:?}")),
            };
        }
        match &node.value {
            Value::Integer(i) => i.to_string(),
            _ => node.text().unwrap().to_owned(),
        }
    }

    #[test]
    fn short_forms_are_expanded() {
        let root = base();
        assert_eq!(value(&root, &["hosts", "h1", "sysctl", "net.a"]), "1");
        assert_eq!(value(&root, &["hosts", "h1", "sysctl", "net.b"]), "2");
        assert_eq!(value(&root, &["hosts", "h2", "sysctl", "net.b"]), "1");
        assert_eq!(value(&root, &["links", "0", "forward", "delay"]), "1ms");
        assert_eq!(value(&root, &["links", "0", "backward", "delay"]), "2ms");
        assert_eq!(value(&root, &["links", "0", "backward", "rate"]), "1gbit");
        assert!(root.get("hosts").unwrap().table().unwrap().get("*").is_none());
    }

    #[test]
    fn a_layer_overrides_the_base() {
        let layer = r#"
            hosts."*".sysctl."net.b" = 3
            hosts.h2.sysctl."net.b" = 4
            links."h1-h2".both.delay = "5ms"
            links."h1-h2".forward.delay = "6ms"
        "#;
        let mut problems = Problems::default();
        let root = apply(&base(), &parse_document(layer, 1).unwrap(), &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(value(&root, &["hosts", "h1", "sysctl", "net.b"]), "3");
        assert_eq!(value(&root, &["hosts", "h2", "sysctl", "net.b"]), "4");
        assert_eq!(value(&root, &["links", "0", "forward", "delay"]), "6ms");
        assert_eq!(value(&root, &["links", "0", "backward", "delay"]), "5ms");
        let path = [Step::Key("links"), Step::Index(0), Step::Key("backward"), Step::Key("delay")];
        assert_eq!(root.span_at(&path).unwrap().source, 1);
    }
}
