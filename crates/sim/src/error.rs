//! Errors before and during a run.

/// An error of the simulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario's links, addresses or routes do not fit together.
    #[error("cannot build the network: {0}")]
    Network(#[from] net::TopologyError),
    /// No path joins the flow's hosts, or they have no common IP version.
    #[error("flow {0}: no path from its sender to its receiver")]
    NoPath(String),
    /// A host's sysctl has a value that the kernel would reject.
    #[error("host {host}: {name} = {value:?} is not {expected}")]
    Sysctl {
        /// The host's name.
        host: String,
        /// The sysctl.
        name: String,
        /// Its value.
        value: String,
        /// The valid value, with its article.
        expected: &'static str,
    },
    /// [`crate::Controllers`] has no congestion control for a flow.
    #[error("cannot create the congestion control of flow {flow}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The protocol needs an operating system, which WebAssembly lacks.
    #[error("flow {flow}: flows of kind {kind} cannot be simulated in WebAssembly; use `longfat run`")]
    NotOnThisTarget {
        /// The flow's name.
        flow: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The observer rejected rows.
    #[error("cannot store the simulated rows")]
    Observer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Livelock: virtual time does not advance. A defect of the simulator.
    #[error("the simulation does not get past {0}; please report this")]
    Stuck(units::Instant),
}
