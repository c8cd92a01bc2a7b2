//! `--set PATH=VALUE` as a layer: the path as in a variant, the value as TOML or as a plain string.

use crate::{
    error::Problems,
    tree::{Entry, Node, Span, Table, Value, parse_value},
};

/// The layer of `path=value`. `source` is the index of this option among the sources.
pub(crate) fn set_layer(path: &str, value: &str, source: usize, problems: &mut Problems) -> Table {
    let whole = Span { source, start: 0, end: path.len() };
    let Some(keys) = split_path(path) else {
        problems.add_help(
            whole,
            "this is not the path of a setting",
            "write for example flows.bulk.cc, links.s1-s2.forward.loss or hosts.*.mtu",
        );
        return Table::default();
    };
    layer_of(keys, whole, parse_value(value, source, path.len() + 1))
}

/// The layer that sets the value at this path of keys, all written at `whole`.
pub(crate) fn layer_of(keys: Vec<String>, whole: Span, innermost: Node) -> Table {
    let root = keys.into_iter().rev().fold(innermost, |node, key| {
        let table = Table(vec![Entry { key, key_span: whole, node }]);
        Node { span: whole, value: Value::Table(table) }
    });
    match root.value {
        Value::Table(layer) => layer,
        _ => Table::default(),
    }
}

/// The keys of a dotted path; a key in double quotes may contain dots. `None` if a key is empty or a quote is
/// not closed.
pub(crate) fn split_path(path: &str) -> Option<Vec<String>> {
    let mut keys = vec![String::new()];
    let mut quoted = false;
    for c in path.trim().chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => keys.push(String::new()),
            c => keys.last_mut()?.push(c),
        }
    }
    // No key of a scenario is nested this deeply.
    let is_valid = !quoted && keys.len() <= 32 && keys.iter().all(|k| !k.is_empty());
    is_valid.then_some(keys)
}

/// Whether a value at `path` that is applied after the one at `field` replaces it: the paths are the same, or
/// `path` is wider (`*` for a name, `both` for a direction).
pub fn replaces(path: &str, field: &str) -> bool {
    let (Some(path), Some(field)) = (split_path(path), split_path(field)) else { return false };
    let (path, field) = (with_whole_sysctl(path), with_whole_sysctl(field));
    let is_direction = |key: &str| matches!(key, "forward" | "backward");
    let is_replaced = |depth: usize, key: &str, replaced: &str| match (path[0].as_str(), depth) {
        _ if key == replaced => true,
        ("hosts" | "links" | "flows", 1) => key == "*",
        ("links", 2) => key == "both" && is_direction(replaced),
        _ => false,
    };
    path.len() == field.len()
        && path
            .iter()
            .zip(&field)
            .enumerate()
            .all(|(depth, (key, replaced))| is_replaced(depth, key, replaced))
}

/// Joins the keys of a sysctl's name, which may be quoted or not.
fn with_whole_sysctl(mut keys: Vec<String>) -> Vec<String> {
    if keys.len() > 4 && keys[0] == "hosts" && keys[2] == "sysctl" {
        let name = keys.split_off(3).join(".");
        keys.push(name);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(split_path("a.b-c.*").unwrap(), ["a", "b-c", "*"]);
        assert_eq!(
            split_path("hosts.\"*\".sysctl.\"net.ipv4.x\"").unwrap(),
            ["hosts", "*", "sysctl", "net.ipv4.x"]
        );
        for bad in ["", ".", "a.", ".a", "a..b", "a.\"b", "a.\"\""] {
            assert!(split_path(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_wider_path_replaces_a_narrower_one() {
        for (path, field) in [
            ("flows.bulk.cc", "flows.bulk.cc"),
            ("flows.*.cc", "flows.bulk.cc"),
            ("flows.\"*\".cc", "flows.\"bulk\".cc"),
            ("links.a-b.both.delay", "links.a-b.forward.delay"),
            ("links.*.both.delay", "links.\"a-b\".backward.delay"),
            ("hosts.*.sysctl.net.ipv4.tcp_sack", "hosts.h1.sysctl.\"net.ipv4.tcp_sack\""),
            ("duration", "duration"),
        ] {
            assert!(replaces(path, field), "{path} {field}");
        }
        for (path, field) in [
            ("flows.bulk.cc", "flows.*.cc"),
            ("links.a-b.forward.delay", "links.a-b.both.delay"),
            ("links.a-b.both.delay", "links.a-b.both.loss"),
            ("links.a-b.both.delay", "links.b-c.both.delay"),
            ("flows.a.both", "flows.a.forward"),
            ("flows.a", "flows.a.cc"),
            ("", "duration"),
        ] {
            assert!(!replaces(path, field), "{path} {field}");
        }
    }
}
