//! Errors of a method. A test that fails is not an error: its result is a document.

/// Why a method has no reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is not the document that this method reads.
    #[error("{0}")]
    Input(String),
    /// The machine failed.
    #[error("{what}: {cause}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        cause: String,
    },
}
