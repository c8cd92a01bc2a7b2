//! Errors of reading and changing a host's settings.

use std::{io, path::PathBuf};

/// Why a host could not be tuned, checked or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation and its object.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A setting was written, and has another value afterwards; all settings were restored.
    #[error("{name} was set to \"{value}\" but reads \"{actual}\"; all settings were restored")]
    ValueNotAccepted {
        /// The sysctl.
        name: String,
        /// The written value.
        value: String,
        /// The value afterwards.
        actual: String,
    },
    /// A setting could not be written; all settings before it were restored.
    #[error("cannot set {name} to \"{value}\": {source}; all settings were restored")]
    SetFailed {
        /// The sysctl.
        name: String,
        /// The value to be written.
        value: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Restoring failed as well: the journal remains, and `revert` can be repeated.
    #[error("{first}; and not all settings could be restored ({then}): run longfat tune --revert")]
    RestoreFailed {
        /// Why applying failed.
        first: Box<Error>,
        /// Why restoring failed.
        then: Box<Error>,
    },
    /// The journal is malformed, or names settings or files that this program does not change.
    #[error("the journal {path} cannot be read ({why}); nothing was changed")]
    Journal {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The journal belongs to another network namespace of this machine, or to one that no longer exists: the
    /// kernel does not report which.
    #[error(
        "the settings in {journal} were applied in another network namespace; run the command there, or change only \
        this namespace with --apply --live. If that namespace no longer exists, as after the restart of a container, \
        remove {journal}{}",
        file.as_ref().map_or(String::new(), |file| format!(" and {}", file.display()))
    )]
    OtherNamespace {
        /// The journal.
        journal: PathBuf,
        /// The sysctl file that was written.
        file: Option<PathBuf>,
    },
    /// Earlier settings were applied in the other mode, with or without a file. The two modes have separate
    /// journals, which would restore values in the wrong order.
    #[error(
        "earlier settings were applied with{} a file; run longfat tune --revert first",
        if *with_file { "" } else { "out" }
    )]
    FileModeMismatch {
        /// The mode of the earlier settings.
        with_file: bool,
    },
}

impl Error {
    /// The kind of the system's error, if there was one, so that a missing privilege can be distinguished
    /// from a failure.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::System { source, .. } | Error::SetFailed { source, .. } => Some(source.kind()),
            Error::RestoreFailed { first, .. } => first.kind(),
            _ => None,
        }
    }
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Attempted<T> {
    /// Adds `what`, as in "read /proc/meminfo".
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}
