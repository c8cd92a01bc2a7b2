//! Errors of probes.

use units::BitRate;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the server, or a socket.
    #[error(transparent)]
    Link(#[from] iperf3::Error),
    /// A train exceeds the limit of the load.
    #[error("the method needs a train of {needs} within a second: allow it with --max-rate")]
    TooLarge {
        /// The rate that would have to be allowed.
        needs: BitRate,
    },
    /// The server's report is invalid.
    #[error("the server's report of train {train} {what}")]
    Report {
        /// The train's number.
        train: u32,
        /// The contradiction.
        what: &'static str,
    },
}

impl From<traffic::Error> for Error {
    fn from(error: traffic::Error) -> Self {
        Error::Link(error.into())
    }
}
