//! Errors of this crate.

use std::io;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation}: {cause}")]
    Os {
        /// The operation and its object.
        operation: String,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The kernel lacks a feature that tracing needs, or the user lacks the privilege.
    #[error("{0}")]
    Missing(String),
    /// The connection was closed, or no process that this user can see owns it any longer.
    #[error("{0} is closed, or its owner is not visible (root is needed for other users' connections)")]
    Closed(String),
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Attempted<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|cause| Error::Os { operation: operation(), cause })
    }
}
