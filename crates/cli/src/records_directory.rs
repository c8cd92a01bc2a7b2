//! The directory for a command's records, or none (`--no-record`, or a read-only directory).

use std::path::{Path, PathBuf};

use anyhow::Context;
use experiment::{CompletedRun, EngineChoice, Retention};
use tempfile::TempDir;

use crate::{exit::Exit, output};

/// The directory of a command's records.
#[derive(Debug)]
pub enum RecordsDirectory {
    /// This directory of runs.
    Directory(PathBuf),
    /// No records are kept. Lab and guest runs write theirs to this directory, which is removed at the end.
    Temporary(TempDir),
    /// No records are written.
    None,
}

impl RecordsDirectory {
    /// The directory for runs of these engines: none if `is_disabled`, or if `runs_dir` is read-only.
    ///
    /// # Errors
    /// The directory cannot be written for another reason than missing permission, or the temporary directory
    /// cannot be created.
    pub fn choose(runs_dir: &Path, engines: &[EngineChoice], is_disabled: bool) -> anyhow::Result<Self> {
        if !is_disabled {
            match record::check_writable(runs_dir) {
                Ok(()) => return Ok(RecordsDirectory::Directory(runs_dir.to_owned())),
                Err(error) if error.is_read_only() => output::note(&format!(
                    "longfat: no record is kept: {error}. Choose a directory with --runs DIR or LONGFAT_RUNS"
                )),
                Err(error) => return Err(error.into()),
            }
        }
        let needs_none = |engine: &EngineChoice| matches!(engine, EngineChoice::Model | EngineChoice::Sim);
        match engines.iter().all(needs_none) {
            true => Ok(RecordsDirectory::None),
            false => {
                let created = tempfile::Builder::new().prefix("longfat-run-").tempdir();
                Ok(RecordsDirectory::Temporary(
                    created.context("cannot create a temporary directory for the run")?,
                ))
            }
        }
    }

    /// Refuses an option that needs records that are kept.
    ///
    /// # Errors
    /// No records are kept.
    pub fn require_for(&self, option: &str) -> anyhow::Result<()> {
        match self {
            RecordsDirectory::Directory(_) => Ok(()),
            RecordsDirectory::Temporary(_) | RecordsDirectory::None => {
                let message =
                    format!("{option} needs a record: choose a directory of records with --runs DIR");
                Err(Exit::BadInput(message).into())
            }
        }
    }

    /// Which data runs retain.
    pub fn retention(&self) -> Retention<'_> {
        match self {
            RecordsDirectory::Directory(path) => Retention::Record(path),
            RecordsDirectory::Temporary(directory) => Retention::Record(directory.path()),
            RecordsDirectory::None => Retention::Nothing,
        }
    }

    /// Removes the paths of records that are not kept from the summaries.
    pub fn forget_temporary(&self, completed: &mut [CompletedRun]) {
        if !matches!(self, RecordsDirectory::Directory(_)) {
            completed.iter_mut().for_each(|run| run.summary.record = None);
        }
    }
}
