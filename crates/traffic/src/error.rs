//! Errors of flows.

use std::io;

/// A failed operation, usually on a flow's socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempted}: {source}")]
pub struct Error {
    /// The operation and its object: `connect to 10.0.0.2:5201`.
    pub attempted: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

/// Adds the attempted operation to an I/O error.
pub trait Attempted<T> {
    /// On failure, adds the attempted operation: `set up a stream`.
    ///
    /// # Errors
    /// The I/O error with that text.
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error { attempted: what(), source })
    }
}
