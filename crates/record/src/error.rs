//! Errors of records. Every message names the operation and the file.

use std::io;
use std::path::{Path, PathBuf};

/// Why a record could not be written, found or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation, as in `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An object store refused, or could not be reached.
    #[error("cannot {action} {url}: {reason}")]
    Store {
        /// The operation, as in `read`.
        action: &'static str,
        /// The address of the store or of an object in it.
        url: String,
        /// Why it failed, and what to do.
        reason: String,
    },
    /// A Parquet file is damaged or was not written by this program.
    #[error("cannot read {}: {reason}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The rows could not be encoded.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The file that was to be written.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// A summary is damaged or of a schema that this program does not know.
    #[error("cannot read {}: {reason}", path.display())]
    Summary {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The record was already removed after an earlier failure.
    #[error("the record {} was removed after an earlier error", path.display())]
    Removed {
        /// The directory in which it was being written.
        path: PathBuf,
    },
    /// No run matches the key.
    #[error("no run \"{key}\" in {location}: {hint}")]
    NotFound {
        /// The key, as the user wrote it.
        key: String,
        /// The directory or the object store that was searched.
        location: String,
        /// Existing names.
        hint: String,
    },
    /// The record is being written by a run that has not ended.
    #[error("{name} is being written; end that run first")]
    InUse {
        /// The run as `scenario/id`.
        name: String,
    },
    /// A directory that is to be removed is not a record.
    #[error("{} is not a record (it has no scenario.toml and no summary of longfat) and is not removed", path.display())]
    NotRecord {
        /// The directory.
        path: PathBuf,
    },
    /// Symbolic links lead from the record to files outside the directory of records. Servers of records do
    /// not read such a record.
    #[error("{} has or is a symbolic link to files outside the directory of records; move them there, or use their directory (--runs)", path.display())]
    Outside {
        /// The record's directory.
        path: PathBuf,
    },
    /// Several runs match the key.
    #[error("\"{key}\" matches several runs: {}", candidates.join(", "))]
    Ambiguous {
        /// The key, as the user wrote it.
        key: String,
        /// The matching runs, each as `scenario/id`; the directories if they are records of one run.
        candidates: Vec<String>,
    },
}

/// Names the operation and the path of an I/O result.
pub(crate) trait Context<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source })
    }
}
