//! What is wrong with a file as a whole. What is wrong with single packets costs those alone.

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It begins like neither kind.
    #[error("it is neither a pcap nor a pcapng file")]
    Unknown,
    /// A pcap file's header is not all there.
    #[error("it ends within its header")]
    Cut,
    /// No line of it is of `ss -tin`.
    #[error(
        "no line of it is of `ss -tin` (a line with \"rtt:\" and \"cwnd:\" below one with two addresses)"
    )]
    NoSs,
}
