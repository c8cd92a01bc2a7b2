//! What can go wrong with a flow.

use std::io;

/// A failed operation on a flow's socket, with what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {source}")]
pub struct Error {
    /// What was attempted, on what.
    pub attempted: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

/// Adds what was attempted to an I/O error.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error { attempted: what(), source })
    }
}
