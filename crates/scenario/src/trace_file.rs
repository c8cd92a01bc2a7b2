//! Files that a scenario names. The caller's function reads them, each once.

use std::{cell::RefCell, collections::BTreeMap};

/// Reads a file by its path as written in a scenario; the error is why it cannot be read.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// The files read so far, and the function that reads more.
pub(crate) struct Files<'a> {
    load: &'a ReadFile<'a>,
    read: RefCell<BTreeMap<String, String>>,
}

impl<'a> Files<'a> {
    /// Starts with the texts in `read`; `load` reads other files.
    pub fn new(load: &'a ReadFile<'a>, read: BTreeMap<String, String>) -> Self {
        Files { load, read: RefCell::new(read) }
    }

    /// The text of the file at `path`, which must be relative to the scenario and inside its folder.
    pub fn text(&self, path: &str) -> Result<String, String> {
        if !is_inside_folder(path) {
            return Err("only files in the scenario's folder and its subfolders are allowed".into());
        }
        if let Some(text) = self.read.borrow().get(path) {
            return Ok(text.clone());
        }
        let text = (self.load)(path)?;
        self.read.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }

    /// The texts read, by path.
    pub fn into_read(self) -> BTreeMap<String, String> {
        self.read.into_inner()
    }
}

/// The function for callers that do not allow files.
pub(crate) fn no_files(_: &str) -> Result<String, String> {
    Err("files cannot be read here".into())
}

/// True for a relative path that stays in the folder.
fn is_inside_folder(path: &str) -> bool {
    let is_forbidden = |c: char| c.is_control() || c == '\\';
    !path.chars().any(is_forbidden) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_paths_inside_the_folder_and_each_once() {
        let requested = RefCell::new(Vec::new());
        let load = |path: &str| {
            requested.borrow_mut().push(path.to_owned());
            Ok(format!("text of {path}"))
        };
        let files = Files::new(&load, BTreeMap::new());
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./x", "a\\b", "a\nb"] {
            assert!(files.text(bad).unwrap_err().contains("only files"), "{bad:?}");
        }
        for _ in 0..2 {
            assert_eq!(files.text("traces/lte.trace").unwrap(), "text of traces/lte.trace");
        }
        assert_eq!(*requested.borrow(), ["traces/lte.trace"]);
    }
}
