//! What can go wrong with a probe.

use units::BitRate;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket, or the other end.
    #[error(transparent)]
    Link(#[from] crate::iperf3::Error),
    /// A train is larger than the limit on the load allows.
    #[error("a train that is needed makes {needs} within a second: allow it with --max-rate")]
    TooLarge {
        /// What would have to be allowed.
        needs: BitRate,
    },
    /// What the server told cannot be.
    #[error("the server's report of train {train} {what}")]
    Report {
        /// Which.
        train: u32,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Error::Link(error.into())
    }
}
