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
}
