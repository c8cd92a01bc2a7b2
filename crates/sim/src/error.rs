//! What can go wrong before or during a run.

/// An error of the simulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario's links, addresses or routes do not fit together.
    #[error("cannot build the network: {0}")]
    Network(#[from] net::TopologyError),
    /// A flow has no way, or its ends share no version of IP.
    #[error("flow {0} has no way from its sender to its receiver")]
    NoWay(String),
    /// A setting of a host that cannot be read.
    #[error("host {host} has {name} = {value:?}, which is no {expected}")]
    Sysctl {
        /// The host's name.
        host: String,
        /// The setting.
        name: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// No congestion control could be made for a flow.
    #[error("cannot make the congestion control of flow {flow}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The observer could not take rows.
    #[error("cannot keep what was simulated")]
    Observer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Time stands still: a defect of the simulator.
    #[error("the simulation does not get past {0}; please report this")]
    Stuck(units::Time),
}
