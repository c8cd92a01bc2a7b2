//! Errors of transfers.

use std::{io, time::Duration};

use bulk::{tsunami::SessionError, udt::CloseReason};

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] traffic::Error),
    /// The connection to a server failed, or the server refuses.
    #[error(transparent)]
    Server(iperf3::Error),
    /// The peer reports that it failed.
    #[error("the peer failed: {0}")]
    Peer(String),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer sent an invalid message.
    #[error("the peer violated the protocol: {0}")]
    Protocol(String),
    /// The peer did not reply in time.
    #[error("no {what} from the peer within {} s", after.as_secs())]
    Timeout {
        /// The expected message.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The ends have different tokens, or only one has one.
    #[error("{0}")]
    Token(&'static str),
    /// The UDT connection ended.
    #[error("UDT: {0}")]
    Udt(CloseReason),
    /// The QUIC connection failed.
    #[error("QUIC: {0}")]
    Quic(#[from] quic::Error),
    /// The Tsunami session ended.
    #[error("Tsunami: {0}")]
    Tsunami(SessionError),
    /// A file has different bytes at the receiver.
    #[error(
        "{name} arrived with different contents (BLAKE3 {received}, sent {sent}): did it change while it was sent?"
    )]
    Hash {
        /// The file.
        name: String,
        /// The sender's hash.
        sent: String,
        /// The receiver's hash.
        received: String,
    },
    /// A file is shorter than when the transfer began.
    #[error("{0} became shorter while it was sent")]
    Shrunk(String),
    /// A name that a receiver does not accept.
    #[error("invalid file name {0:?}: it must be relative, without . and .. components")]
    Name(String),
    /// The name of a file that a receiver is writing.
    #[error("{0:?} is the name of an incomplete file of a receiver; rename it to send it")]
    TemporaryName(String),
    /// The options or the files are unsuitable, or a thread of the transfer has failed; the text has the
    /// reason.
    #[error("{0}")]
    Input(String),
    /// A signal ended the transfer.
    #[error("interrupted")]
    Interrupted,
}

impl From<iperf3::Error> for Error {
    fn from(error: iperf3::Error) -> Error {
        match error {
            iperf3::Error::Interrupted => Error::Interrupted,
            other => Error::Server(other),
        }
    }
}

/// An error of a system call, with the operation.
pub(crate) fn failed(attempted: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let attempted = attempted.into();
    move |source| Error::Io(traffic::Error { attempted, source })
}
