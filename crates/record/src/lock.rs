//! The lock of a record that is being written.

use std::fs::File;
use std::path::Path;

/// Locks a record's directory for its writer. `None` on file systems without locks.
pub(crate) fn lock(directory: &Path) -> Option<File> {
    let directory = File::open(directory).ok()?;
    directory.try_lock().ok().map(|()| directory)
}
