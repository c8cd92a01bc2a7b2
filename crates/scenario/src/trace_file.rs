//! Files that a scenario names: read by whoever parses the scenario, each once.

use std::{cell::RefCell, collections::BTreeMap};

/// Reads the file that a scenario names, as written there; the error says why not.
pub type Load<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Files read so far, and how to read more.
pub(crate) struct Files<'a> {
    load: &'a Load<'a>,
    read: RefCell<BTreeMap<String, String>>,
}

impl<'a> Files<'a> {
    /// Nothing but what was `read` before is known; the rest comes through `load`.
    pub fn new(load: &'a Load<'a>, read: BTreeMap<String, String>) -> Self {
        Files { load, read: RefCell::new(read) }
    }

    /// The text of the file at `path`, which is relative to the scenario and does not leave its folder.
    pub fn text(&self, path: &str) -> Result<String, String> {
        if !is_plain(path) {
            return Err("only files in the scenario's folder and below can be named".into());
        }
        if let Some(text) = self.read.borrow().get(path) {
            return Ok(text.clone());
        }
        let text = (self.load)(path)?;
        self.read.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }

    /// What was read.
    pub fn into_read(self) -> BTreeMap<String, String> {
        self.read.into_inner()
    }
}

/// For scenarios that name no files.
pub(crate) fn no_files(_: &str) -> Result<String, String> {
    Err("no files can be read here".into())
}

/// Relative, with no step out of the folder.
fn is_plain(path: &str) -> bool {
    let odd = |c: char| c.is_control() || c == '\\';
    !path.chars().any(odd) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_asked_for_and_each_once() {
        let asked = RefCell::new(Vec::new());
        let load = |path: &str| {
            asked.borrow_mut().push(path.to_owned());
            Ok(format!("text of {path}"))
        };
        let files = Files::new(&load, BTreeMap::new());
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./x", "a\\b", "a\nb"] {
            assert!(files.text(bad).unwrap_err().contains("only files"), "{bad:?}");
        }
        for _ in 0..2 {
            assert_eq!(files.text("traces/lte.trace").unwrap(), "text of traces/lte.trace");
        }
        assert_eq!(*asked.borrow(), ["traces/lte.trace"]);
    }
}
