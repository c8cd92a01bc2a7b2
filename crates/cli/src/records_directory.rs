//! The directory for a command's records, or none (`--no-record`, or a read-only directory).

use std::path::{Path, PathBuf};

use anyhow::Context;
use experiment::{CompletedRun, EngineChoice, Retention};
use record::RunsLocation;
use tempfile::TempDir;

use crate::{exit::Exit, output};

/// The directory of a command's records.
#[derive(Debug)]
pub enum RecordsDirectory {
    /// Records are kept, and written to this directory.
    Kept(RunsLocation, PathBuf),
    /// No records are kept. Lab and guest runs write theirs to this directory, which is removed at the end.
    Temporary(TempDir),
    /// No records are written.
    None,
}

impl RecordsDirectory {
    /// The directory for runs of these engines: none if `is_disabled`, or if the directory is read-only.
    ///
    /// # Errors
    /// Records cannot be written for another reason than missing permission, or the temporary directory
    /// cannot be created.
    pub fn choose(runs: &RunsLocation, engines: &[EngineChoice], is_disabled: bool) -> anyhow::Result<Self> {
        if !is_disabled {
            match runs.check_writable() {
                Ok(()) => return Ok(RecordsDirectory::Kept(runs.clone(), runs.writable()?)),
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
            RecordsDirectory::Kept(..) => Ok(()),
            RecordsDirectory::Temporary(_) | RecordsDirectory::None => {
                let message =
                    format!("{option} needs a record: choose a directory of records with --runs DIR");
                Err(Exit::BadInput(message).into())
            }
        }
    }

    /// The data that runs retain.
    pub fn retention(&self) -> Retention<'_> {
        match self {
            RecordsDirectory::Kept(_, path) => Retention::Record(path),
            RecordsDirectory::Temporary(directory) => Retention::Record(directory.path()),
            RecordsDirectory::None => Retention::Nothing,
        }
    }

    /// Names the records in the summaries: by their directory or their address in an object store, or not at
    /// all if they are not kept.
    pub fn name_records(&self, completed: &mut [CompletedRun]) {
        for run in completed {
            let written = run.summary.record.take();
            if let (RecordsDirectory::Kept(runs, _), Some(written)) = (self, written) {
                run.summary.record = Some(runs.name_of(Path::new(&written)));
            }
        }
    }
}
