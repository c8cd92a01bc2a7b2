//! The file that holds the original settings of changed connections until they are restored.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::setting::Setting;
use crate::{Error, error::Attempted};

const FILE_NAME: &str = "modified-connections.json";

/// The original settings of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The kernel's socket cookie.
    pub(crate) cookie: u64,
    /// Inode of the socket, by which /proc/PID/fd names it.
    pub(crate) inode: u32,
    /// The connection's addresses, for messages.
    pub(crate) connection: String,
    /// Each changed setting, as it was before its first change.
    pub(crate) original: Vec<Setting>,
}

/// The original settings of all changed connections, in a file. It is locked while this value lives.
#[derive(Debug)]
pub struct ModificationJournal {
    path: PathBuf,
    pub(crate) entries: Vec<Entry>,
    _lock: File,
}

impl ModificationJournal {
    /// Reads the journal in a directory that only this user can write to. Waits until no other process uses
    /// it.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn open(directory: &Path) -> Result<ModificationJournal, Error> {
        let path = directory.join(FILE_NAME);
        let lock = || {
            let directory = File::open(directory)?;
            directory.lock()?;
            Ok(directory)
        };
        let lock = lock().attempted(|| format!("lock {}", directory.display()))?;
        let entries = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
        };
        let entries = entries.attempted(|| format!("read {}", path.display()))?;
        Ok(ModificationJournal { path, entries, _lock: lock })
    }

    /// Adds the original value of a setting of a connection, unless the journal has an older one, and writes
    /// the file.
    pub(crate) fn record(&mut self, entry: &Entry, original: Setting) -> Result<(), Error> {
        let index = self.entries.iter().position(|known| known.cookie == entry.cookie);
        let index = index.unwrap_or_else(|| {
            self.entries.push(entry.clone());
            self.entries.len() - 1
        });
        let known = &mut self.entries[index].original;
        if known.iter().any(|setting| setting.key() == original.key()) {
            return Ok(());
        }
        known.push(original);
        self.write()
    }

    /// Writes the file; removes it if there are no entries.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let write = || {
            if self.entries.is_empty() {
                return os::file::remove(&self.path);
            }
            os::file::replace(&self.path, serde_json::to_string(&self.entries)?.as_bytes(), 0o600)
        };
        write().attempted(|| format!("write {}", self.path.display()))
    }
}
