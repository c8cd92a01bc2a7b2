//! Errors of a file as a whole. Individual malformed packets are skipped.

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file begins with the magic number of neither format.
    #[error("neither a pcap nor a pcapng file")]
    NotACapture,
    /// A pcap file ends within its header.
    #[error("the file ends within its header")]
    TruncatedHeader,
    /// It contains no output of `ss -tin`.
    #[error(
        "it contains no output of `ss -tin` (a line with \"rtt:\" and \"cwnd:\" below one with two addresses)"
    )]
    NotAnSsLog,
}
