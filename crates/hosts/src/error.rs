//! Why a run between hosts fails.

pub(crate) use engine_common::error_chain as chain;

/// Why a run between hosts fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario, the locations or the options are unsuitable; the text has the reason.
    #[error("{0}")]
    BadInput(String),
    /// A host or this machine does not permit what the scenario needs; the text states how to permit it.
    #[error("{0}")]
    NotPermitted(String),
    /// A server failed, or cannot be reached.
    #[error("host {host} at {address}")]
    Server {
        /// The host's name in the scenario.
        host: String,
        /// Its address.
        address: String,
        /// The cause.
        source: iperf3::Error,
    },
    /// A flow failed.
    #[error("flow {flow}: {reason}")]
    Flow {
        /// The flow's name.
        flow: String,
        /// The cause.
        reason: String,
    },
    /// The settings of this machine cannot be changed or restored.
    #[error(transparent)]
    Settings(#[from] tune::Error),
    /// The receiver of the rows failed.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] traffic::Error),
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
}
