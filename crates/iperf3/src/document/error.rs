//! Errors in iperf3's JSON.

/// Why a text is not valid JSON of iperf3.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or truncated.
    #[error("invalid iperf3 JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but not iperf3's.
    #[error("invalid iperf3 JSON: {key}: {reason}")]
    Shape {
        /// The path in the document, such as `start.test_start.protocol`.
        key: String,
        /// The error at this path.
        reason: String,
    },
    /// Not exactly one test.
    #[error("invalid iperf3 JSON: the file contains {0} tests, not one")]
    Count(usize),
}

impl Error {
    pub(super) fn shape(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Shape { key: key.into(), reason: reason.into() }
    }
}
