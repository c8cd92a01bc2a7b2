//! The journal of an outbox: the uploads and records that its program has begun in the store. If the program
//! is killed, the one that takes over the outbox reads there which of them it must complete or remove.
//!
//! A line of JSON is appended before the first object of an unfinished record is uploaded, and after each
//! multipart upload has been given its id. Lines are not synced to disk, because a killed process does not
//! lose them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use record::Error;
use serde::{Deserialize, Serialize};

/// The file in the outbox. Files that are directly in an outbox are not uploaded.
const FILE: &str = ".journal";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The directory in the store of a record that is uploaded while it is being written.
    Record(String),
    /// A multipart upload.
    Upload { path: String, id: String },
}

/// The journal of one outbox.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    /// Multipart uploads, as path and id, that may not have ended.
    uploads: Mutex<BTreeSet<(String, String)>>,
    records: Mutex<BTreeSet<String>>,
}

impl Journal {
    /// Opens the journal of an outbox, or creates it.
    pub(crate) fn open(outbox: &Path) -> Result<Self, Error> {
        let path = outbox.join(FILE);
        let failed = |source| Error::Io { action: "open", path: path.clone(), source };
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(failed)?,
        };
        let file = File::options().append(true).create(true).open(&path).map_err(failed)?;
        let (mut uploads, mut records) = (BTreeSet::new(), BTreeSet::new());
        // The program may have been killed within the last line.
        for line in text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
            match line {
                Line::Record(key) => {
                    records.insert(key);
                }
                Line::Upload { path, id } => {
                    uploads.insert((path, id));
                }
            }
        }
        Ok(Journal {
            path,
            file: Mutex::new(file),
            uploads: Mutex::new(uploads),
            records: Mutex::new(records),
        })
    }

    /// The directories in the store of the records that were uploaded while they were being written.
    pub(crate) fn records(&self) -> Vec<String> {
        lock(&self.records).iter().cloned().collect()
    }

    /// Multipart uploads, as path and id, that may not have ended.
    pub(crate) fn uploads(&self) -> Vec<(String, String)> {
        lock(&self.uploads).iter().cloned().collect()
    }

    /// Notes that objects of an unfinished record are uploaded from now on.
    pub(crate) fn add_record(&self, key: &str) -> Result<(), Error> {
        if lock(&self.records).insert(key.to_owned()) {
            self.append(&Line::Record(key.to_owned()))?;
        }
        Ok(())
    }

    /// Notes that parts of an object are uploaded from now on.
    pub(crate) fn add_upload(&self, path: &str, id: &str) -> Result<(), Error> {
        let (path, id) = (path.to_owned(), id.to_owned());
        lock(&self.uploads).insert((path.clone(), id.clone()));
        self.append(&Line::Upload { path, id })
    }

    /// Records that a multipart upload has ended. Its line remains: the end of an upload that does not exist
    /// is not an error.
    pub(crate) fn close_upload(&self, path: &str, id: &str) {
        lock(&self.uploads).remove(&(path.to_owned(), id.to_owned()));
    }

    /// Removes the file. Nothing that it names may then be removed from the store.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "remove", path: self.path.clone(), source };
        fs::remove_file(&self.path).map_err(failed)
    }

    fn append(&self, line: &Line) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "write", path: self.path.clone(), source };
        let mut bytes = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        // One write: a line is there as a whole, or the last one.
        lock(&self.file).write_all(&bytes).map_err(failed)
    }
}

/// Locks a mutex even if a thread has panicked: the data that it guards is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_program_reads_the_entries_of_a_killed_program() {
        let outbox = tempfile::tempdir().unwrap();
        let journal = Journal::open(outbox.path()).unwrap();
        journal.add_record("lab8/run=1").unwrap();
        journal.add_record("lab8/run=1").unwrap();
        journal.add_upload("lab8/run=1/trace.parquet", "a b\n\"c\"").unwrap();
        journal.add_upload("lab8/run=1/flows.parquet", "d").unwrap();
        journal.close_upload("lab8/run=1/flows.parquet", "d");
        let open = [("lab8/run=1/trace.parquet".to_owned(), "a b\n\"c\"".to_owned())];
        assert_eq!(journal.uploads(), open);
        // Killed while it wrote.
        File::options()
            .append(true)
            .open(outbox.path().join(FILE))
            .unwrap()
            .write_all(b"{\"record\": \"x")
            .unwrap();
        let next = Journal::open(outbox.path()).unwrap();
        assert_eq!(next.records(), ["lab8/run=1"]);
        assert_eq!(next.uploads().len(), 2, "whether an upload had ended is not in the file");
        next.remove().unwrap();
        assert!(Journal::open(outbox.path()).unwrap().uploads().is_empty());
    }
}
