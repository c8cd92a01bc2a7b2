//! Import of bwctl's limits files (`bwctld.limits`; the grammar and the checks are those of `bwctld/policy.c`
//! of bwctl 1.6).
//!
//! Differences from bwctl:
//!
//! 1. bwctl checks the permissions (`allow_...`) of a request's own class only, so that a class may allow
//!    tests that its parent forbids. Here all ancestors must allow it too. The import widens such parents,
//!    and gives the requests that were assigned to them a separate class.
//! 2. `minimum_ttl` and `allow_no_endpoint` have no counterpart; they are skipped, with a note.
//! 3. bwctl refuses a user without a key in its keys file. The import does not read that file.

use std::collections::{BTreeMap, BTreeSet};

use units::{BitRate, Time};

use crate::{Class, Error, Limits, Net};

/// bwctld's limits without a limits file: `default with duration=30, max_time_error=10`.
const EMPTY_FILE: (u64, u64) = (30, 10);

/// bwctl's defaults of `allow_open_mode`, `allow_tcp` and `allow_udp`.
const PERMISSIONS: [(&str, bool); 3] = [("allow_open_mode", true), ("allow_tcp", true), ("allow_udp", false)];

/// An entry that the import skipped or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The entry, and the reason.
    pub text: String,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The limits.
    pub limits: Limits,
    /// The skipped and changed entries.
    pub notes: Vec<ImportNote>,
}

/// A class as bwctl resolves it: all values with those that it inherits.
#[derive(Debug, Clone, Default)]
struct Resolved {
    parent: Option<String>,
    /// The numeric limits by their keys; 0: no limit.
    numbers: BTreeMap<&'static str, u64>,
    permissions: [bool; 3],
}

const NUMBERS: [&str; 6] =
    ["bandwidth", "pending", "event_horizon", "duration", "max_time_error", "minimum_ttl"];

#[derive(Debug, Default)]
struct Reader {
    classes: BTreeMap<String, Resolved>,
    root: Option<String>,
    default: Option<String>,
    nets: BTreeMap<Net, String>,
    users: BTreeMap<String, String>,
    notes: Vec<ImportNote>,
}

/// Reads a bwctl limits file.
///
/// # Errors
/// The first line that bwctld would not accept either.
pub fn import(text: &str) -> Result<Imported, Error> {
    let mut reader = Reader::default();
    for (line, text) in logical_lines(text) {
        reader.line(line, &text).map_err(|message| Error::Line { line, message })?;
    }
    if reader.root.is_none() {
        reader.note(0, "no limits: bwctld's own default, a duration of 30 s and a clock error of 10 s");
        let numbers = BTreeMap::from([("duration", EMPTY_FILE.0), ("max_time_error", EMPTY_FILE.1)]);
        let permissions = PERMISSIONS.map(|(_, default)| default);
        reader.classes.insert("default".into(), Resolved { parent: None, numbers, permissions });
        reader.root = Some("default".into());
    }
    let limits = reader.limits();
    limits.validate()?;
    Ok(Imported { limits, notes: reader.notes })
}

/// The lines that are neither empty nor comments, each with the number of its first line; a backslash at the
/// end continues a line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continued: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if continued.is_none() && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        let (mut first, mut whole) = continued.take().unwrap_or((number + 1, String::new()));
        if whole.is_empty() {
            first = number + 1;
        }
        match line.strip_suffix('\\') {
            Some(begin) => {
                whole.push_str(begin);
                whole.push(' ');
                continued = Some((first, whole));
            }
            None => {
                whole.push_str(line);
                lines.push((first, whole));
            }
        }
    }
    lines.extend(continued);
    lines
}

/// A number with bwctl's suffixes: k, m and g are powers of 1000.
fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (end, 'k' | 'K') => (&text[..end], 1_000),
        (end, 'm' | 'M') => (&text[..end], 1_000_000),
        (end, 'g' | 'G') => (&text[..end], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The first word, and the remainder.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

impl Reader {
    fn note(&mut self, line: usize, text: impl Into<String>) {
        self.notes.push(ImportNote { line, text: text.into() });
    }

    fn line(&mut self, line: usize, text: &str) -> Result<(), String> {
        let (keyword, rest) = word(text);
        if keyword.eq_ignore_ascii_case("limit") {
            self.limit(line, rest)
        } else if keyword.eq_ignore_ascii_case("assign") {
            self.assign(rest)
        } else {
            Err(format!("{keyword:?} is neither limit nor assign"))
        }
    }

    fn limit(&mut self, line: usize, text: &str) -> Result<(), String> {
        let (name, rest) = word(text);
        let (with, rest) = word(rest);
        if name.is_empty() || !with.eq_ignore_ascii_case("with") {
            return Err("the form is: limit NAME with KEY=VALUE, KEY=VALUE".into());
        }
        if self.classes.contains_key(name) {
            return Err(format!("the class {name} is defined twice"));
        }
        let mut parent = None;
        let mut numbers: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut permissions: [Option<bool>; 3] = [None; 3];
        let mut has_no_endpoint = false;
        for pair in rest.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("{pair:?} has no value"));
            };
            let (key, value) = (key.trim(), value.trim());
            let switch = || match value {
                _ if value.eq_ignore_ascii_case("on") => Ok(true),
                _ if value.eq_ignore_ascii_case("off") => Ok(false),
                _ => Err(format!("{key} is on or off, not {value:?}")),
            };
            if key.eq_ignore_ascii_case("parent") {
                if parent.replace(value.to_owned()).is_some() {
                    return Err(format!("{name} has two parents"));
                }
            } else if key.eq_ignore_ascii_case("allow_no_endpoint") {
                switch()?;
                has_no_endpoint = true;
            } else if let Some(index) =
                PERMISSIONS.iter().position(|(known, _)| key.eq_ignore_ascii_case(known))
            {
                if permissions[index].replace(switch()?).is_some() {
                    return Err(format!("{key} has two values"));
                }
            } else if let Some(known) = NUMBERS.iter().find(|known| key.eq_ignore_ascii_case(known)) {
                let number = number(value).ok_or_else(|| format!("{key}: {value:?} is not a number"))?;
                if numbers.insert(known, number).is_some() {
                    return Err(format!("{key} has two values"));
                }
            } else {
                return Err(format!("unknown limit {key:?}"));
            }
        }
        if has_no_endpoint {
            self.note(line, format!("class {name}: allow_no_endpoint is skipped: longfat has no such limit"));
        }
        if numbers.contains_key("minimum_ttl") {
            self.note(line, format!("class {name}: minimum_ttl is skipped: longfat has no such limit"));
        }
        let above = match (&parent, &self.root) {
            (None, None) => None,
            (Some(_), None) => return Err(format!("{name} is the root, the first class, and has a parent")),
            (None, Some(root)) => return Err(format!("{name} needs parent=NAME; the root is {root}")),
            (Some(parent), Some(_)) => {
                let above =
                    self.classes.get(parent).ok_or_else(|| format!("the class {parent} is not defined"))?;
                Some(above.clone())
            }
        };
        let inherited =
            above.as_ref().map_or(PERMISSIONS.map(|(_, default)| default), |above| above.permissions);
        let mut resolved = Resolved { parent, numbers, permissions: inherited };
        for (index, permission) in permissions.into_iter().enumerate() {
            resolved.permissions[index] = permission.unwrap_or(inherited[index]);
        }
        for (key, limit) in above.iter().flat_map(|above| &above.numbers) {
            let own = resolved.numbers.entry(key).or_insert(*limit);
            if *limit > 0 && (*own == 0 || *own > *limit) {
                let text = format!("class {name}: {key} is that of its parent, which is smaller: {limit}");
                if *own > 0 {
                    self.notes.push(ImportNote { line, text });
                }
                *own = *limit;
            }
        }
        if self.root.is_none() {
            self.root = Some(name.into());
        }
        self.classes.insert(name.into(), resolved);
        Ok(())
    }

    fn assign(&mut self, text: &str) -> Result<(), String> {
        let (kind, rest) = word(text);
        let is = |expected: &str| kind.eq_ignore_ascii_case(expected);
        let (identity, class) = if is("default") {
            ("", word(rest).0)
        } else {
            let (identity, rest) = word(rest);
            (identity, word(rest).0)
        };
        if class.is_empty() {
            return Err(
                "the form is: assign default CLASS, assign net NETWORK CLASS or assign user NAME CLASS"
                    .into(),
            );
        }
        if !self.classes.contains_key(class) {
            return Err(format!("the class {class} is not defined"));
        }
        if is("default") {
            if self.default.replace(class.into()).is_some() {
                return Err("the default is assigned twice".into());
            }
        } else if is("net") {
            let net: Net = identity.parse().map_err(|error: crate::NetError| error.to_string())?;
            if net.length == 0 {
                return Err("bwctl has no networks with a prefix length of 0; use assign default".into());
            }
            if self.nets.insert(net, class.into()).is_some() {
                return Err(format!("the network {net} is assigned twice"));
            }
        } else if is("user") {
            if self.users.insert(identity.into(), class.into()).is_some() {
                return Err(format!("the user {identity} is assigned twice"));
            }
        } else {
            return Err(format!("{kind:?} is neither default, net nor user"));
        }
        Ok(())
    }

    /// A class and those below it.
    fn has_below(&self, above: &str, name: &str) -> bool {
        let mut at = Some(name);
        while let Some(class) = at {
            if class == above {
                return true;
            }
            at = self.classes[class].parent.as_deref();
        }
        false
    }

    fn limits(&mut self) -> Limits {
        let mut limits = Limits {
            default: self.default.clone().or(self.root.clone()),
            nets: self.nets.clone(),
            users: self.users.clone(),
            ..Limits::default()
        };
        let mut widened = BTreeSet::new();
        let names: Vec<String> = self.classes.keys().cloned().collect();
        for name in &names {
            let own = &self.classes[name];
            let mut permissions = own.permissions;
            for below in names.iter().filter(|below| self.has_below(name, below)) {
                for (index, allows) in permissions.iter_mut().enumerate() {
                    *allows |= self.classes[below].permissions[index];
                }
            }
            if permissions != own.permissions {
                widened.insert(name.clone());
            }
            limits.classes.insert(name.clone(), class(own, permissions));
        }
        for name in widened {
            let mut itself = format!("{name}-itself");
            while limits.classes.contains_key(&itself) {
                itself.push('-');
            }
            let own = Resolved { parent: Some(name.clone()), ..self.classes[&name].clone() };
            let assigned =
                limits.default.iter_mut().chain(limits.nets.values_mut()).chain(limits.users.values_mut());
            let mut is_used = false;
            for class in assigned.filter(|class| **class == name) {
                class.clone_from(&itself);
                is_used = true;
            }
            let moved = if is_used {
                format!("; its users and networks are now assigned to {itself}")
            } else {
                String::new()
            };
            self.note(0, format!("class {name} allows what a class below it allows (bwctl checks permissions of the request's class only){moved}"));
            if is_used {
                limits.classes.insert(itself, class(&own, own.permissions));
            }
        }
        limits
    }
}

fn class(resolved: &Resolved, permissions: [bool; 3]) -> Class {
    let number = |key: &str| resolved.numbers.get(key).copied().filter(|number| *number > 0);
    let seconds = |key: &str| number(key).map(Time::from_secs);
    Class {
        parent: resolved.parent.clone(),
        max_rate: number("bandwidth").map(BitRate),
        max_duration: seconds("duration"),
        max_horizon: seconds("event_horizon"),
        max_pending: number("pending"),
        max_time_error: seconds("max_time_error"),
        max_priority: None,
        allow_open: Some(permissions[0]),
        allow_tcp: Some(permissions[1]),
        allow_udp: Some(permissions[2]),
    }
}
