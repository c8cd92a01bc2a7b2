//! Why a Tsunami session ended.

use super::wire;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The other end has another protocol revision.
    #[error("the peer has protocol revision {0:08x}, not {expected:08x}", expected = wire::REVISION)]
    Revision(u32),
    /// The secrets differ.
    #[error("the peer does not know the secret")]
    Secret,
    /// The server does not have the file.
    #[error("the server refuses the file (code {0})")]
    Refused(u8),
    /// An invalid message.
    #[error("the peer sent an invalid {0}")]
    Invalid(&'static str),
    /// The receiver is silent.
    #[error("the receiver has not reported for 15 s")]
    NoFeedback,
}
