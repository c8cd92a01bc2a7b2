//! What can go wrong when a host is changed.

use std::{io, path::PathBuf};

/// Why a host could not be tuned, checked or put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted, with its object.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A setting was written and reads otherwise.
    #[error("the kernel made \"{got}\" of {name} = \"{value}\"; everything was put back")]
    NotTaken {
        /// The sysctl.
        name: String,
        /// What was written.
        value: String,
        /// What it reads.
        got: String,
    },
    /// A setting could not be written; those before it were put back.
    #[error("cannot set {name} to \"{value}\": {source}; everything was put back")]
    Setting {
        /// The sysctl.
        name: String,
        /// What was to be written.
        value: String,
        /// Why not.
        source: io::Error,
    },
    /// Putting back failed as well: the journal stays, and `revert` can be tried again.
    #[error("{first}; and it could not all be put back ({then}): run longfat tune --revert")]
    NotPutBack {
        /// Why applying failed.
        first: Box<Error>,
        /// Why putting back failed.
        then: Box<Error>,
    },
    /// The journal is not one that this program wrote.
    #[error("the journal {path} cannot be read ({why}); nothing was changed")]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The journal is of another network namespace.
    #[error("what {0} tells of was set in another network namespace; run this there")]
    Elsewhere(PathBuf),
    /// Live values with and without a file are journalled apart, and would be put back in the wrong order.
    #[error("what was set before was set with{} a file; run longfat tune --revert first", if *with_file { "" } else { "out" })]
    SetOtherwise {
        /// How it was.
        with_file: bool,
    },
}

impl Error {
    /// The kernel's error, where there was one: a missing privilege is another thing than a failure.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::System { source, .. } | Error::Setting { source, .. } => Some(source.kind()),
            Error::NotPutBack { first, .. } => first.kind(),
            _ => None,
        }
    }
}

/// Says what was attempted where the operating system refuses.
pub(crate) trait Attempted<T> {
    /// Adds `what`, as in "read /proc/meminfo".
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}
