//! The list of the files to be sent, with their names at the receiver.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, Observer, error::failed, name};

/// A file to send, and its name at the receiver.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: String,
}

/// Lists the regular files among `files` and in its directories. The name of a file in a directory begins
/// with the directory's name.
pub(super) fn list_files(files: &[PathBuf], observer: &dyn Observer) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for path in files {
        let absolute = fs::canonicalize(path).map_err(failed(format!("open {}", path.display())))?;
        let name = absolute.file_name().unwrap_or_default();
        let name = name.to_str().ok_or_else(|| not_text(path))?;
        add(path, name.to_string(), &mut entries, observer)?;
    }
    let mut names = BTreeMap::new();
    for Entry { path, name } in &entries {
        if let Some(other) = names.insert(name, path) {
            let (other, path) = (other.display(), path.display());
            let text = format!(
                "{other} and {path} would both be {name:?} at the receiver: rename one, or send them into different directories"
            );
            return Err(Error::Input(text));
        }
    }
    if entries.is_empty() {
        return Err(Error::Input("there is no file to send".into()));
    }
    Ok(entries)
}

fn not_text(path: &Path) -> Error {
    Error::Input(format!("the file name {} is not UTF-8, so it cannot be sent", path.display()))
}

fn add(path: &Path, name: String, entries: &mut Vec<Entry>, observer: &dyn Observer) -> Result<(), Error> {
    let what = || format!("open {}", path.display());
    let kind = fs::metadata(path).map_err(failed(what()))?.file_type();
    if kind.is_file() {
        entries.push(Entry { path: path.to_path_buf(), name });
    } else if kind.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .map_err(failed(what()))?;
        inside.sort_by_key(fs::DirEntry::file_name);
        for entry in inside {
            let file_name = entry.file_name();
            let part = file_name.to_str().ok_or_else(|| not_text(&entry.path()))?;
            let kind = entry.file_type().map_err(failed(what()))?;
            if name::is_temporary(part) {
                observer.note(&format!(
                    "{} is an incomplete file of a receiver, skipped",
                    entry.path().display()
                ));
            } else if kind.is_file() || kind.is_dir() {
                let name = if name.is_empty() { part.to_string() } else { format!("{name}/{part}") };
                add(&entry.path(), name, entries, observer)?;
            } else {
                observer.note(&format!("{} is not a regular file, skipped", entry.path().display()));
            }
        }
    } else {
        return Err(Error::Input(format!("{} is neither a regular file nor a directory", path.display())));
    }
    Ok(())
}
