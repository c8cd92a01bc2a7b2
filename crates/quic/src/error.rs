//! Errors of QUIC connections.

use std::{io, time::Duration};

use quinn_proto::ConnectionError;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] traffic::Error),
    /// The connection ended.
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    /// The certificate or the TLS configuration is invalid.
    #[error("cannot {attempted}: {why}")]
    Tls {
        /// The operation and its object.
        attempted: &'static str,
        /// Why it failed.
        why: String,
    },
    /// The congestion control cannot be used.
    #[error(transparent)]
    Congestion(#[from] cc::native::LibraryError),
    /// The peer did not reply in time.
    #[error("no {what} from the peer within {} s", after.as_secs())]
    Timeout {
        /// What was expected.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The peer reset or stopped the stream.
    #[error("the peer ended the stream")]
    StreamEnded,
}

/// An error of a system call, with the operation.
pub(crate) fn failed(attempted: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let attempted = attempted.into();
    move |source| Error::Io(traffic::Error { attempted, source })
}

/// An error of TLS, with the operation.
pub(crate) fn tls_failed<E: ToString>(attempted: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Tls { attempted, why: error.to_string() }
}
