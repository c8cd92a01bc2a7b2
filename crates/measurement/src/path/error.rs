//! Why a path could not be measured.

use std::{io, net::IpAddr};

use experiment::ErrorKind;

/// A measurement of a path that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name of the host cannot be resolved.
    #[error("cannot find {host}: {reason}")]
    UnknownHost {
        /// The name.
        host: String,
        /// The resolver's reason.
        reason: io::Error,
    },
    /// The name of the host resolves to no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// Echo requests cannot be sent, or their replies not be received.
    #[error("{error}{hint}", hint = echoes_hint(.0), error = .0)]
    Echoes(traffic::Error),
    /// No echo reply arrived.
    #[error("{host} replied to none of {count} echo requests")]
    NoReply {
        /// The other end.
        host: IpAddr,
        /// Echo requests that were sent.
        count: u32,
    },
    /// No process accepts connections there.
    #[error("cannot connect to {host} at port {port}: {reason}; is longfat serve running there?")]
    Connect {
        /// The other end.
        host: String,
        /// Its port.
        port: u16,
        /// The kernel's reason.
        reason: io::Error,
    },
    /// A test failed.
    #[error("the test with {host} failed")]
    Test {
        /// The other end.
        host: String,
        /// Why it failed.
        source: iperf3::Error,
    },
    /// A record could not be written.
    #[error(transparent)]
    Record(#[from] experiment::Error),
    /// The measurement was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Whether this process lacks the privilege to open a raw socket.
fn is_refused(error: &traffic::Error) -> bool {
    error.source.kind() == io::ErrorKind::PermissionDenied
}

fn echoes_hint(error: &traffic::Error) -> &'static str {
    if is_refused(error) {
        "; sending echo requests needs CAP_NET_RAW (try sudo)"
    } else {
        "; does a firewall refuse them?"
    }
}

impl Error {
    /// The kind of the failure, for exit codes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::UnknownHost { .. } | Error::NoAddress(_) => ErrorKind::BadInput,
            Error::Echoes(error) if is_refused(error) => ErrorKind::Missing,
            Error::Echoes(_) | Error::NoReply { .. } | Error::Connect { .. } | Error::Test { .. } => {
                ErrorKind::Failed
            }
            Error::Record(error) => error.kind(),
            Error::Interrupted => ErrorKind::Interrupted,
        }
    }
}
