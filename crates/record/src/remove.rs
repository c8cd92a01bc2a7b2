//! Removes records. A record that is being written is refused, and no half-removed record is ever listed.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Context;
use crate::writer::{create_directories, remove_empty};
use crate::{Error, RunEntry};

/// Ending of the hidden directory that a record becomes before its files are removed.
const REMOVED: &str = ".removed";
/// Hidden directory that [`check_writable`] creates for a moment.
const TRIAL: &str = ".longfat-trial";

/// Removes a record, and its scenario's directory if that is empty then.
///
/// The record is renamed first, so that it disappears from the list at once. Remains of an interrupted
/// removal are removed by the next one of the same scenario.
///
/// # Errors
/// If the record is being written, cannot be renamed or removed, or the directory is not a record.
pub fn remove(entry: &RunEntry) -> Result<(), Error> {
    refuse_other_directory(entry)?;
    let path = &entry.path;
    let directory = File::open(path).context("read", path)?;
    // Only a lock of another process refuses: file systems without locks have none.
    if matches!(directory.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(Error::InUse { name: entry.name() });
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let hidden = parent.join(format!(".{}{REMOVED}", entry.id));
    remove_hidden(parent);
    fs::rename(path, &hidden).context("remove", path)?;
    fs::remove_dir_all(&hidden).context("remove", &hidden)?;
    // Not empty: it has other runs.
    let _ = fs::remove_dir(parent);
    Ok(())
}

/// Refuses a directory that is not a record, for instance if `--runs` names a directory of other files.
pub(crate) fn refuse_other_directory(entry: &RunEntry) -> Result<(), Error> {
    match entry.is_record {
        true => Ok(()),
        false => Err(Error::NotRecord { path: entry.path.clone() }),
    }
}

/// Checks that records can be written below `runs_dir`; nothing remains of the trial.
///
/// # Errors
/// If a directory cannot be created there.
pub fn check_writable(runs_dir: &Path) -> Result<(), Error> {
    let mut created: Vec<PathBuf> = Vec::new();
    let trial = runs_dir.join(format!("{TRIAL}-{}", std::process::id()));
    let tried = create_directories(runs_dir, &mut created)
        .and_then(|()| fs::create_dir(&trial).context("create", &trial))
        .and_then(|()| fs::remove_dir(&trial).context("remove", &trial));
    remove_empty(&created);
    tried
}

/// Removes the remainders of interrupted removals from a scenario's directory. Best effort: they are not
/// listed.
fn remove_hidden(scenario_dir: &Path) {
    for entry in fs::read_dir(scenario_dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(REMOVED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Error {
    /// Whether the operating system refuses to write there: permission denied, or a read-only file system.
    pub fn is_read_only(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    }
}
