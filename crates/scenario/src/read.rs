//! Reads the keys of one table, checks their types, and reports unknown keys.

use std::{ops::RangeInclusive, str::FromStr};

use units::{BitRate, Bytes, Instant, ParseError, Time};

use crate::{
    error::Problems,
    suggest::{nearest, suggest},
    tree::{Node, Span, Table, Value},
};

/// Largest rate of any key.
pub(crate) const MAX_RATE: BitRate = BitRate(1_000_000_000_000);
/// Longest time of any key, so that sums of times never overflow.
pub(crate) const MAX_TIME: Time = Time::from_secs(30 * 24 * 3600);

/// The keys that a table may have.
pub(crate) struct Keys {
    /// The table's name in messages, as in `a link`.
    pub what: &'static str,
    /// Valid keys.
    pub known: &'static [&'static str],
    /// A nested table whose keys a file may have written directly in this table by mistake: its key in this
    /// table, and its keys.
    pub nested: Option<(&'static str, &'static Keys)>,
}

/// Reads one table. A missing or wrong key reads as `None`; wrong keys are reported.
pub(crate) struct Reader<'a> {
    table: &'a Table,
    span: Span,
    what: &'static str,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    /// Reads `node`, which must be a table with only these keys.
    pub fn new(node: &'a Node, keys: &Keys, problems: &'a mut Problems) -> Option<Self> {
        match node.table() {
            Some(table) => Some(Self::of_table(table, node.span, keys, problems)),
            None => {
                problems.add(node.span, format!("{} is a table, not {}", keys.what, node.kind()));
                None
            }
        }
    }

    /// Reads `table`, written at `span`.
    pub fn of_table(table: &'a Table, span: Span, keys: &Keys, problems: &'a mut Problems) -> Self {
        for entry in &table.0 {
            check_key(&entry.key, entry.key_span, keys, problems);
        }
        Reader { table, span, what: keys.what, problems }
    }

    /// The mistakes found so far.
    pub fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// The value of `key`, of any type.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// The value of `key`; reports a missing key.
    pub fn required(&mut self, key: &str, example: &str) -> Option<&'a Node> {
        let node = self.table.get(key);
        if node.is_none() {
            self.problems.add_help(
                self.span,
                format!("{} needs \"{key}\"", self.what),
                format!("for example {key} = {example}"),
            );
        }
        node
    }

    /// A string.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let node = self.node(key)?;
        if node.text().is_none() {
            self.problems.add(node.span, format!("\"{key}\" is a string, not {}", node.kind()));
        }
        node.text().map(str::to_owned)
    }

    /// A string; reports a missing key.
    pub fn required_text(&mut self, key: &str, example: &str) -> Option<String> {
        self.required(key, example)?;
        self.text(key)
    }

    /// A whole number in `range`, of `unit` (empty for plain numbers).
    pub fn integer(&mut self, key: &str, range: RangeInclusive<u64>, unit: &str) -> Option<u64> {
        let node = self.node(key)?;
        let right = format!("write a whole number from {} to {}{unit}", range.start(), range.end());
        let Value::Integer(number) = node.value else {
            self.problems.add_help(node.span, format!("\"{key}\" is an integer, not {}", node.kind()), right);
            return None;
        };
        match u64::try_from(number).ok().filter(|n| range.contains(n)) {
            Some(number) => Some(number),
            None => {
                self.problems.add_help(node.span, format!("\"{key}\" cannot be {number}"), right);
                None
            }
        }
    }

    /// A rate above zero.
    pub fn rate(&mut self, key: &str) -> Option<BitRate> {
        let rate: BitRate = self.quantity(key)?;
        self.positive(key, rate, "10gbit").filter(|_| rate <= MAX_RATE).or_else(|| {
            if rate > MAX_RATE {
                self.report(key, format!("\"{key}\" exceeds {MAX_RATE}"), "write a rate up to 1Tbit");
            }
            None
        })
    }

    /// A size above zero.
    pub fn size(&mut self, key: &str) -> Option<Bytes> {
        let size = self.quantity(key)?;
        self.positive(key, size, "25MB")
    }

    /// A time, which may be zero.
    pub fn time(&mut self, key: &str) -> Option<Time> {
        let time = self.quantity(key)?;
        if time > MAX_TIME {
            self.report(key, format!("\"{key}\" exceeds 30 days"), "write a shorter time");
            return None;
        }
        Some(time)
    }

    /// A time since the run's start, which may be zero.
    pub fn instant(&mut self, key: &str) -> Option<Instant> {
        self.time(key).map(|since_start| Instant::ZERO + since_start)
    }

    /// A time above zero.
    pub fn positive_time(&mut self, key: &str) -> Option<Time> {
        let time = self.time(key)?;
        self.positive(key, time, "20s")
    }

    /// A share from 0 to 1, as a string or a number.
    pub fn share(&mut self, key: &str) -> Option<f64> {
        self.parsed(key, units::parse_share)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let node = self.node(key)?;
        match node.value {
            Value::Boolean(yes) => Some(yes),
            _ => {
                let message = format!("\"{key}\" is true or false, not {}", node.kind());
                self.problems.add_help(node.span, message, format!("write {key} = true, without quotes"));
                None
            }
        }
    }

    /// A number within `range`, with or without a point.
    pub fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let node = self.node(key)?;
        let number = match node.value {
            Value::Integer(i) => i as f64,
            Value::Float(f) => f,
            _ => {
                self.problems.add(node.span, format!("\"{key}\" is a number, not {}", node.kind()));
                return None;
            }
        };
        if range.contains(&number) {
            return Some(number);
        }
        let help = format!("write a number from {} to {}", range.start(), range.end());
        self.problems.add_help(node.span, format!("\"{key}\" cannot be {number}"), help);
        None
    }

    /// One of some words; returns its meaning.
    pub fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let help = suggest(&text, words.iter().map(|(word, _)| *word));
            self.report(key, format!("\"{key}\" cannot be \"{text}\""), help);
        }
        found
    }

    /// One string, or a list of strings, each with its span.
    pub fn texts(&mut self, key: &str) -> Vec<(&'a str, Span)> {
        self.node(key).map(|node| texts(node, key, self.problems)).unwrap_or_default()
    }

    /// Any quantity of `units`.
    pub fn quantity<T: FromStr<Err = ParseError>>(&mut self, key: &str) -> Option<T> {
        self.parsed(key, str::parse)
    }

    /// Reports a mistake in the value of `key`.
    pub fn report(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let span = self.node(key).map_or(self.span, |n| n.span);
        self.problems.add_help(span, message, help);
    }

    /// The value of `key` through a parser of `units`, whose error has the help.
    pub fn parsed<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, ParseError>) -> Option<T> {
        let node = self.node(key)?;
        let text = match &node.value {
            Value::Text(s) => s.clone(),
            Value::Integer(i) => i.to_string(),
            // 1.0 must not become the ambiguous 1.
            Value::Float(f) => format!("{f:?}"),
            _ => {
                self.problems.add(node.span, format!("\"{key}\" is a string, not {}", node.kind()));
                return None;
            }
        };
        parse(&text).map_err(|e| self.problems.add(node.span, format!("{key}: {e}"))).ok()
    }

    fn positive<T: Default + PartialEq>(&mut self, key: &str, value: T, example: &str) -> Option<T> {
        if value == T::default() {
            self.report(
                key,
                format!("\"{key}\" cannot be zero"),
                format!("write for example {key} = \"{example}\""),
            );
            return None;
        }
        Some(value)
    }
}

/// The string or the list of strings in `node`, each with its span.
pub(crate) fn texts<'a>(node: &'a Node, key: &str, problems: &mut Problems) -> Vec<(&'a str, Span)> {
    let items = node.list().unwrap_or(std::slice::from_ref(node));
    let mut all = Vec::new();
    for item in items {
        match item.text() {
            Some(text) => all.push((text, item.span)),
            None => {
                let message = format!("\"{key}\" is a string or a list of strings, not {}", item.kind());
                problems.add(item.span, message);
            }
        }
    }
    all
}

/// Reports a key that the table cannot have.
pub(crate) fn check_key(key: &str, span: Span, keys: &Keys, problems: &mut Problems) {
    if keys.known.contains(&key) {
        return;
    }
    let in_nested = keys.nested.filter(|_| nearest(key, keys.known).is_none());
    let help = in_nested
        .and_then(|(table, nested)| Some((table, nearest(key, nested.known)?)))
        .map(|(table, key)| format!("did you mean {table} = {{ {key} = .. }}?"))
        .unwrap_or_else(|| suggest(key, keys.known.iter().copied()));
    problems.add_help(span, format!("unknown key \"{key}\" in {}", keys.what), help);
}
