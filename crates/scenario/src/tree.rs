//! A TOML document as a tree with the position of every key and value.
//!
//! The `toml` crate parses. This module copies its spanned values into owned ones that can be overlaid (a
//! variant on the base) and keep their positions.

use toml::de::{DeTable, DeValue};

/// Bytes `start..end` of one source: 0 is the file, the others are command line options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

/// The start of the file: the position of mistakes about something that is missing.
pub(crate) const FILE_START: Span = Span { source: 0, start: 0, end: 0 };

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub span: Span,
    pub value: Value,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Table),
    /// A type that no key of a scenario has, in words.
    Other(&'static str),
}

/// A table, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(pub Vec<Entry>);

/// A key, its position, and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

/// One step of a path into the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Node {
    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        if let Value::Table(t) = &self.value { Some(t) } else { None }
    }

    /// The table, if it is one, for changes.
    pub fn table_mut(&mut self) -> Option<&mut Table> {
        if let Value::Table(t) = &mut self.value { Some(t) } else { None }
    }

    /// The list, if it is one.
    pub fn list(&self) -> Option<&[Node]> {
        if let Value::List(items) = &self.value { Some(items) } else { None }
    }

    /// The items of the list; none if it is not a list.
    pub fn items(&self) -> &[Node] {
        self.list().unwrap_or_default()
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(s) = &self.value { Some(s) } else { None }
    }

    /// The type in words, with an article.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Boolean(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(words) => words,
        }
    }

    /// Overlays this value with `top`: tables merge, other values are replaced.
    pub fn overlay(&mut self, top: Node) {
        match (&mut self.value, top.value) {
            (Value::Table(below), Value::Table(above)) => below.overlay(above),
            (below, above) => {
                *below = above;
                self.span = top.span;
            }
        }
    }
}

impl Table {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|e| e.key == key).map(|e| &e.node)
    }

    /// The value of `key`, for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|e| e.key == key).map(|e| &mut e.node)
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.0.iter().position(|e| e.key == key)?;
        Some(self.0.remove(at))
    }

    /// The items of the list `key`; none if it is missing or not a list.
    pub fn items(&self, key: &str) -> &[Node] {
        self.get(key).map_or(&[], Node::items)
    }

    /// Overlays this table with one entry.
    pub fn overlay_entry(&mut self, top: Entry) {
        match self.0.iter_mut().find(|e| e.key == top.key) {
            Some(below) => {
                let replaced =
                    !matches!((&below.node.value, &top.node.value), (Value::Table(_), Value::Table(_)));
                if replaced {
                    below.key_span = top.key_span;
                }
                below.node.overlay(top.node);
            }
            None => self.0.push(top),
        }
    }

    /// Overlays this table with `top`.
    pub fn overlay(&mut self, top: Table) {
        for entry in top.0 {
            self.overlay_entry(entry);
        }
    }

    /// The span of the value at `path`, or of the deepest existing value on the path.
    pub fn span_at(&self, path: &[Step]) -> Option<Span> {
        let (Step::Key(first), rest) = path.split_first()? else { return None };
        let mut node = self.get(first)?;
        for step in rest {
            let next = match step {
                Step::Key(key) => node.table().and_then(|t| t.get(key)),
                Step::Index(index) => node.items().get(*index),
            };
            match next {
                Some(deeper) => node = deeper,
                None => break,
            }
        }
        Some(node.span)
    }
}

/// Parses a document; the error is the parser's message and its position.
pub(crate) fn parse_document(text: &str, source: usize) -> Result<Table, (String, Span)> {
    match DeTable::parse(text) {
        Ok(root) => Ok(own_table(root.get_ref(), source, 0)),
        Err(e) => {
            let range = e.span().unwrap_or(0..0);
            Err((e.message().to_owned(), Span { source, start: range.start, end: range.end }))
        }
    }
}

/// Parses one value that begins at byte `offset` of its source. A text that is not a TOML value is a string.
pub(crate) fn parse_value(text: &str, source: usize, offset: usize) -> Node {
    match DeValue::parse(text) {
        Ok(value) => own_node(&value, source, offset),
        Err(_) => Node {
            span: Span { source, start: offset, end: offset + text.len() },
            value: Value::Text(text.to_owned()),
        },
    }
}

fn own_table(table: &DeTable, source: usize, offset: usize) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: own_span(key.span(), source, offset),
            node: own_node(value, source, offset),
        })
        .collect();
    entries.sort_by_key(|e| e.key_span);
    Table(entries)
}

fn own_node(node: &toml::Spanned<DeValue>, source: usize, offset: usize) -> Node {
    let value = match node.get_ref() {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("a number this large"),
        },
        DeValue::Float(f) => match f.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => Value::Other("an invalid number"),
        },
        DeValue::Boolean(yes) => Value::Boolean(*yes),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::List(items.iter().map(|i| own_node(i, source, offset)).collect()),
        DeValue::Table(t) => Value::Table(own_table(t, source, offset)),
    };
    Node { span: own_span(node.span(), source, offset), value }
}

fn own_span(range: std::ops::Range<usize>, source: usize, offset: usize) -> Span {
    Span { source, start: range.start + offset, end: range.end + offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_span() {
        let text = "a = 1\n[t]\nb = \"x\"\n[[l]]\nc = [true, 2.5]\n";
        let root = parse_document(text, 0).unwrap();
        let written = |path: &[Step]| {
            let span = root.span_at(path).unwrap();
            &text[span.start..span.end]
        };
        assert_eq!(written(&[Step::Key("a")]), "1");
        assert_eq!(written(&[Step::Key("t"), Step::Key("b")]), "\"x\"");
        assert_eq!(written(&[Step::Key("l"), Step::Index(0), Step::Key("c"), Step::Index(1)]), "2.5");
        assert_eq!(written(&[Step::Key("l"), Step::Index(0), Step::Key("no")]), "[[l]]");
        assert!(root.span_at(&[Step::Key("no")]).is_none());
    }

    #[test]
    fn an_overlay_merges_tables_and_replaces_other_values() {
        let mut below = parse_document("t = { a = 1, b = 2 }\nx = 1", 0).unwrap();
        below.overlay(parse_document("t = { b = \"3\", c = 4 }\nx = { y = 1 }", 1).unwrap());
        let t = below.get("t").unwrap().table().unwrap();
        assert!(matches!(t.get("a").unwrap().value, Value::Integer(1)));
        assert_eq!(t.get("b").unwrap().text(), Some("3"));
        assert_eq!(t.get("b").unwrap().span.source, 1);
        assert_eq!(t.get("a").unwrap().span.source, 0);
        assert!(t.get("c").is_some() && below.get("x").unwrap().table().is_some());
    }

    #[test]
    fn other_texts_than_toml_are_strings() {
        for text in ["1%", "20ms", "10gbit", "10.0.0.1/8", "4096 87380 16777216", "reno", "", "a b", "[1"] {
            assert_eq!(parse_value(text, 1, 0).text(), Some(text));
        }
        assert!(matches!(parse_value("5", 1, 0).value, Value::Integer(5)));
        assert!(matches!(parse_value("0.5", 1, 0).value, Value::Float(f) if f == 0.5));
        assert_eq!(parse_value("\"5\"", 1, 4).text(), Some("5"));
        assert_eq!(parse_value("\"5\"", 1, 4).span, Span { source: 1, start: 4, end: 7 });
    }
}
