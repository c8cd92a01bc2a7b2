//! Why a text is not iperf3's JSON.

/// What is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No JSON at all, or cut off.
    #[error("reading iperf3's JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but not iperf3's.
    #[error("reading iperf3's JSON: {key}: {reason}")]
    Shape {
        /// Where in the document, as in `start.test_start.protocol`.
        key: String,
        /// What is wrong there.
        reason: String,
    },
    /// Another number of tests than the one that was asked for.
    #[error("reading iperf3's JSON: it holds {0} tests, not one")]
    Count(usize),
}

impl Error {
    pub(super) fn shape(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Shape { key: key.into(), reason: reason.into() }
    }
}
