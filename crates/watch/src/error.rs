//! What can go wrong while watching.

use std::io;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation that the system refused.
    #[error("cannot {operation}: {cause}")]
    Os {
        /// What was attempted, and on what.
        operation: String,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// This machine, or this user, cannot trace.
    #[error("{0}")]
    Missing(String),
}

/// Says what was attempted when an operation fails.
pub(crate) trait Attempted<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|cause| Error::Os { operation: operation(), cause })
    }
}
