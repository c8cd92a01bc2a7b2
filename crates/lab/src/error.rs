//! What can go wrong in the lab.

use std::{io, path::PathBuf};

/// An error of the lab. [`Error::is_missing`] tells what the machine lacks from what failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither root nor user namespaces.
    #[error(
        "the lab cannot make network namespaces: {source} ({cause}); {remedy}; --engine sim needs no namespaces"
    )]
    NoPrivilege {
        /// The kernel's error.
        source: io::Error,
        /// What forbids them.
        cause: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Neither a TAP device nor a packet socket, or not the kind that was asked for.
    #[error(
        "cannot {attempted}: {source}; `longfat lab check` tells what hosts can be connected by here, and what to do"
    )]
    NoPort {
        /// What was attempted, on what.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Fewer threads are allowed than a run needs.
    #[error(
        "cannot start {threads} thread{} at once, as this needs: {source}; raise the limit (docker run --pids-limit, TasksMax= \
         of a systemd service, ulimit -u) or take fewer flows",
        if *threads == 1 { "" } else { "s" }
    )]
    NoThreads {
        /// How many are needed at once.
        threads: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// Namespaces that only labs which stay up need.
    #[error("`longfat lab up` cannot {attempted}: {source}; {remedy}; `longfat run` works without")]
    NoStanding {
        /// What was attempted.
        attempted: &'static str,
        /// Why it failed.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A congestion control that the kernel has not.
    #[error("flow {flow}: this kernel has no congestion control {cc:?}; it has {available}")]
    NoCongestionControl {
        /// The flow.
        flow: String,
        /// What it asked for.
        cc: String,
        /// What there is.
        available: String,
    },
    /// A kind of flow that the lab has not yet.
    #[error("flow {flow}: the lab has no flows of kind {kind} yet; the simulator has: --engine sim")]
    NotInLab {
        /// The flow.
        flow: String,
        /// Its kind.
        kind: &'static str,
    },
    /// Datagrams that have no room for what the lab writes into them.
    #[error(
        "flow {flow}: the lab writes {least} bytes into each datagram, its number and time, and {packet} hold less; write \
         packet = \"{least}B\" or more, or run it with --engine sim"
    )]
    ShortDatagrams {
        /// The flow.
        flow: String,
        /// The datagrams' payload.
        packet: units::Bytes,
        /// What the lab needs.
        least: u64,
    },
    /// A setting that a network namespace has not, or that refuses the value.
    #[error("host {host}: cannot set {name} = {value:?}: {source}{hint}")]
    Sysctl {
        /// The host.
        host: String,
        /// The setting.
        name: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
        /// What to do, beginning with "; ", or empty.
        hint: &'static str,
    },
    /// A setting whose value reads back differently.
    #[error("host {host}: {name} was set to {value:?} but reads {got:?}")]
    SysctlRefused {
        /// The host.
        host: String,
        /// The setting.
        name: String,
        /// The value asked for.
        value: String,
        /// What the kernel made of it.
        got: String,
    },
    /// A transmit queue of a length that the kernel refuses.
    #[error(
        "{device}: this kernel refuses nic.tx_queue = {packets} packets: {source}; {}, or run it with --engine sim",
        max.map_or("write a smaller tx_queue".into(), |max| format!("it allows {max}: write tx_queue = {max} or less"))
    )]
    TxQueue {
        /// The host's device.
        device: String,
        /// What the scenario asks for.
        packets: u32,
        /// A length that the kernel accepts, where one was found.
        max: Option<u32>,
        /// The kernel's error.
        source: io::Error,
    },
    /// An operation of the system failed.
    #[error("cannot {attempted}: {source}")]
    System {
        /// What was attempted, on what.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A flow failed.
    #[error("flow {flow}: {source}")]
    Flow {
        /// The flow.
        flow: String,
        /// What failed.
        source: perf::Error,
    },
    /// The network's plan cannot work.
    #[error("the topology cannot be built: {0}")]
    Topology(#[from] net::TopologyError),
    /// The emulator ended before its time.
    #[error("the emulator stopped: {0}")]
    Emulator(String),
    /// The observer refused to go on (a full disk, say); its own error tells why.
    #[error("the run was given up: {0}")]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A lab of this name stays up already.
    #[error(
        "a lab called {name} is up already; end it with `longfat lab down {name}`, or give this one another --name"
    )]
    AlreadyUp {
        /// The name.
        name: String,
    },
    /// A journal entry that cannot be read.
    #[error("{path} is not a journal entry of longfat: {why}")]
    Journal {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// True where the machine lacks a privilege or a feature, and the lab itself did not fail.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::NoPrivilege { .. }
            | Error::NoPort { .. }
            | Error::NoThreads { .. }
            | Error::NoStanding { .. }
            | Error::NoCongestionControl { .. }
            | Error::NotInLab { .. }
            | Error::ShortDatagrams { .. }
            | Error::Sysctl { .. }
            | Error::TxQueue { .. } => true,
            Error::Flow { source, .. } => source.source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

impl Error {
    /// The kernel's error number, where a system call failed.
    pub(crate) fn os_error(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } | Error::NoPort { source, .. } | Error::NoThreads { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }
}

/// Adds what was attempted to an I/O error.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { attempted: what(), source })
    }
}
