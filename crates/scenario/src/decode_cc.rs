//! Decodes a flow's congestion control: a name, a table that names one of the program's algorithms, or a
//! file.

use crate::{
    cc::{Cc, CcValue, CcValues},
    error::Problems,
    name::check_cc,
    read::Reader,
    trace_file::Files,
    tree::{Entry, FILE_START, Node, Table, Value},
};

const EXAMPLE: &str = "write for example cc = \"cubic\", cc = { name = \"griddt\", a = 7 } or \
                       cc = { file = \"my.bpf.c\", set = { beta = 819 } }";
/// Largest file. Far larger than any algorithm; records contain the whole text.
const MAX_TEXT_BYTES: usize = 1_000_000;

/// The congestion control of a flow, if it has one.
pub(crate) fn decode_cc(flow: &mut Reader, files: &Files) -> Option<Cc> {
    let node = flow.node("cc")?;
    let problems = flow.problems();
    match &node.value {
        Value::Text(name) => {
            check_cc(name, node.span, problems);
            Some(Cc::Named(name.clone()))
        }
        Value::Table(table) if table.get("file").is_some() => decode_file(table, files, problems),
        Value::Table(table) => decode_own(table, node, problems),
        _ => {
            let message = format!("\"cc\" is a string or a table, not {}", node.kind());
            problems.add_help(node.span, message, EXAMPLE);
            None
        }
    }
}

/// True if this table names an algorithm or a file, rather than only changing parameters.
pub(crate) fn names_a_cc(node: &Node) -> bool {
    node.table().is_some_and(|t| t.get("name").is_some() || t.get("file").is_some())
}

/// The entry that sets `parameter` in a `cc` table.
pub(crate) fn parameter<'a>(cc: &'a Node, parameter: &str) -> Option<&'a Entry> {
    let find = |table: &'a Table| table.0.iter().find(|e| e.key == parameter);
    let set = cc.table()?.get("set").and_then(Node::table);
    // In the table of a file, only `set` has parameters.
    let own = cc.table().filter(|t| t.get("file").is_none());
    set.and_then(find).or_else(|| own.and_then(find))
}

fn decode_own(table: &Table, node: &Node, problems: &mut Problems) -> Option<Cc> {
    let mut set = CcValues::new();
    let mut name = None;
    for entry in &table.0 {
        match entry.key.as_str() {
            "name" => name = name_of(entry, problems),
            "text" => problems.add_help(entry.key_span, "\"text\" needs \"file\"", "remove it"),
            "set" => put_set(&entry.node, &mut set, problems),
            _ => put(entry, &mut set, problems),
        }
    }
    if table.get("name").is_none() {
        problems.add_help(node.span, "this cc has no algorithm", EXAMPLE);
    }
    Some(Cc::Own { name: name?, set })
}

fn decode_file(table: &Table, files: &Files, problems: &mut Problems) -> Option<Cc> {
    let (mut set, mut path, mut inline, mut name) = (CcValues::new(), None, None, None);
    for entry in &table.0 {
        match entry.key.as_str() {
            "file" => path = text(entry, problems),
            "text" => inline = text(entry, problems),
            "name" => name = name_of(entry, problems),
            "set" => put_set(&entry.node, &mut set, problems),
            key => {
                let message = format!("unknown key \"{key}\" in a cc of a file");
                let help = format!("parameters of a file are written as set = {{ {key} = .. }}");
                problems.add_help(entry.key_span, message, help);
            }
        }
    }
    let path = path?;
    // The scenario in a record contains the text.
    let text = match inline.map_or_else(|| files.text(&path), Ok) {
        Ok(text) if text.len() > MAX_TEXT_BYTES => Err(format!("longer than {MAX_TEXT_BYTES} bytes")),
        Ok(text) if text.contains('\0') => Err("not a text file".into()),
        other => other,
    };
    match text {
        Ok(text) => Some(Cc::File { path, text: text.into(), name, set }),
        Err(why) => {
            let span = table.get("file").map_or(FILE_START, |n| n.span);
            problems.add(span, format!("cc: cannot use \"{path}\": {why}"));
            None
        }
    }
}

fn text(entry: &Entry, problems: &mut Problems) -> Option<String> {
    let text = entry.node.text();
    if text.is_none() {
        let message = format!("\"{}\" is a string, not {}", entry.key, entry.node.kind());
        problems.add(entry.node.span, message);
    }
    text.map(str::to_owned)
}

fn name_of(entry: &Entry, problems: &mut Problems) -> Option<String> {
    let name = text(entry, problems)?;
    check_cc(&name, entry.node.span, problems);
    Some(name)
}

fn put_set(values: &Node, set: &mut CcValues, problems: &mut Problems) {
    match values.table() {
        Some(table) => table.0.iter().for_each(|entry| put(entry, set, problems)),
        None => problems.add_help(
            values.span,
            format!("\"set\" is a table of parameters, not {}", values.kind()),
            "write for example set = { beta = 819 }",
        ),
    }
}

/// Adds one parameter: a C variable's name, and a number or a boolean.
fn put(entry: &Entry, set: &mut CcValues, problems: &mut Problems) {
    let key = entry.key.as_str();
    let starts_well = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let help = "parameters are variables of a C file: letters, digits and _";
        problems.add_help(entry.key_span, format!("{key:?} cannot name a parameter"), help);
        return;
    }
    let value = match &entry.node.value {
        Value::Integer(number) => match i64::try_from(*number) {
            Ok(number) => CcValue::Integer(number),
            Err(_) => {
                let help = format!("write a number up to {}", i64::MAX);
                problems.add_help(entry.node.span, format!("\"{key}\" cannot be {number}"), help);
                return;
            }
        },
        Value::Float(number) if number.is_finite() => CcValue::Decimal(*number),
        Value::Boolean(yes) => CcValue::Boolean(*yes),
        Value::Float(number) => {
            let message = format!("\"{key}\" cannot be {number}");
            problems.add_help(entry.node.span, message, format!("write for example {key} = 7"));
            return;
        }
        _ => {
            let message =
                format!("the parameter \"{key}\" is a number or a boolean, not {}", entry.node.kind());
            problems.add_help(entry.node.span, message, format!("write for example {key} = 7"));
            return;
        }
    };
    if set.insert(key.to_owned(), value).is_some() {
        problems.add_help(entry.key_span, format!("\"{key}\" is set twice"), "set it once");
    }
}
