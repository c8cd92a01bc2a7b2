//! The location of records: a directory of this machine, or an object store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::find::select;
use crate::layout::{RUN_PARTITION, SUMMARY, directory_name};
use crate::remove::refuse_other_directory;
use crate::{Error, Run, RunEntry, RunStore, check_writable, list, names, remove};

/// The location of records.
#[derive(Debug, Clone)]
pub struct RunsLocation(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Directory(PathBuf),
    Store(Arc<dyn RunStore>),
}

impl From<PathBuf> for RunsLocation {
    fn from(directory: PathBuf) -> Self {
        RunsLocation(Kind::Directory(directory))
    }
}

impl From<&Path> for RunsLocation {
    fn from(directory: &Path) -> Self {
        directory.to_owned().into()
    }
}

impl From<Arc<dyn RunStore>> for RunsLocation {
    fn from(store: Arc<dyn RunStore>) -> Self {
        RunsLocation(Kind::Store(store))
    }
}

/// The directory, or the address of the store.
impl fmt::Display for RunsLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Directory(directory) => directory.display().fmt(f),
            Kind::Store(store) => f.write_str(store.url()),
        }
    }
}

impl RunsLocation {
    /// The directory to which records are written; for an object store, the outbox.
    ///
    /// # Errors
    /// If the outbox cannot be created, or the object store cannot be written.
    pub fn writable(&self) -> Result<PathBuf, Error> {
        match &self.0 {
            Kind::Directory(directory) => Ok(directory.clone()),
            Kind::Store(store) => store.outbox(),
        }
    }

    /// The directory of records that can be read, as of the last [`RunsLocation::list`]; for an object store,
    /// the cache.
    pub fn readable(&self) -> &Path {
        match &self.0 {
            Kind::Directory(directory) => directory,
            Kind::Store(store) => store.cache(),
        }
    }

    /// Checks that records can be written.
    ///
    /// # Errors
    /// If records cannot be written.
    pub fn check_writable(&self) -> Result<(), Error> {
        match &self.0 {
            Kind::Directory(directory) => check_writable(directory),
            Kind::Store(store) => store.outbox().map(drop),
        }
    }

    /// Waits until all written records are in the object store.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn finish(&self) -> Result<(), Error> {
        match &self.0 {
            Kind::Directory(_) => Ok(()),
            Kind::Store(store) => store.finish(),
        }
    }

    /// The name of a record that was written to [`RunsLocation::writable`]: its directory, or its address in
    /// the store.
    pub fn name_of(&self, directory: &Path) -> String {
        match &self.0 {
            Kind::Directory(_) => directory.display().to_string(),
            Kind::Store(store) => store.url_of(directory),
        }
    }

    /// Brings [`RunsLocation::readable`] up to date; a directory always is.
    ///
    /// # Errors
    /// If the object store cannot be read.
    pub fn refresh(&self) -> Result<(), Error> {
        match &self.0 {
            Kind::Directory(_) => Ok(()),
            Kind::Store(store) => store.refresh(),
        }
    }

    /// Brings up to date those files below a directory of [`RunsLocation::readable`] that are not records.
    ///
    /// # Errors
    /// If the object store cannot be read.
    pub fn refresh_files(&self, directory: &str) -> Result<(), Error> {
        match &self.0 {
            Kind::Directory(_) => Ok(()),
            Kind::Store(store) => store.refresh_files(directory),
        }
    }

    /// All records, newest last, in the order of [`list()`].
    ///
    /// # Errors
    /// If a directory or the object store cannot be read.
    pub fn list(&self) -> Result<Vec<RunEntry>, Error> {
        let store = match &self.0 {
            Kind::Directory(directory) => return list(directory),
            Kind::Store(store) => store,
        };
        store.refresh()?;
        let in_store = |run: Run| run.in_store(Arc::clone(store));
        // The remainder of an interrupted removal has the name of a record and nothing else of one.
        let has_name = |path: &Path| directory_name(path).is_some_and(|name| name.starts_with(RUN_PARTITION));
        let as_stored = |entry: RunEntry| RunEntry {
            is_record: entry.is_record || has_name(&entry.path),
            run: entry.run.map(in_store),
            ..entry
        };
        Ok(list(store.cache())?.into_iter().map(as_stored).collect())
    }

    /// The record that `key` names, as in [`crate::find`]; also by its address in the store.
    ///
    /// # Errors
    /// If no run or several runs match, or it cannot be read.
    pub fn find(&self, key: &str) -> Result<Run, Error> {
        if Path::new(key).join(SUMMARY).exists() {
            return Run::open(Path::new(key));
        }
        self.find_entry(key)?.run
    }

    /// The entry of the list that `key` names.
    ///
    /// # Errors
    /// If no run or several runs match, or the list cannot be read.
    pub fn find_entry(&self, key: &str) -> Result<RunEntry, Error> {
        let location = self.to_string();
        let inside = match &self.0 {
            Kind::Directory(_) => None,
            Kind::Store(_) => key.strip_prefix(&location).and_then(|inside| inside.strip_prefix('/')),
        };
        select(self.list()?, &location, inside.unwrap_or(key))
    }

    /// Opens the record in `directory` of [`RunsLocation::readable`].
    ///
    /// # Errors
    /// If its summary cannot be read.
    pub fn open(&self, directory: &Path) -> Result<Run, Error> {
        let run = Run::open(directory)?;
        let Kind::Store(store) = &self.0 else { return Ok(run) };
        let run = match run.partial {
            true => {
                store.refresh()?;
                Run::open(directory)?
            }
            false => run,
        };
        Ok(run.in_store(Arc::clone(store)))
    }

    /// The scenario and the id of each record; for an object store, of each record in the cache.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn names(&self) -> Result<Vec<(String, String)>, Error> {
        names(self.readable())
    }

    /// Removes a record.
    ///
    /// # Errors
    /// If it is being written on this machine, is not a record, or cannot be removed.
    pub fn remove(&self, entry: &RunEntry) -> Result<(), Error> {
        refuse_other_directory(entry)?;
        match &self.0 {
            Kind::Directory(_) => remove(entry),
            Kind::Store(store) => store.remove(&entry.path),
        }
    }
}
