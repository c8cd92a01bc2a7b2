//! The lab's error type.

use std::{io, path::PathBuf};

/// An error of the lab. [`Error::is_missing`] separates what the machine lacks from failures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither root nor user namespaces.
    #[error(
        "the lab cannot create network namespaces: {source} ({cause}); {remedy}; --engine sim needs no namespaces"
    )]
    NoPrivilege {
        /// The kernel's error.
        source: io::Error,
        /// The setting that forbids namespaces.
        cause: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// Neither a TAP device nor a packet socket, or not the requested one.
    #[error(
        "cannot {attempted}: {source}; `longfat lab check` reports how hosts can be connected on this machine, and what to do"
    )]
    NoPort {
        /// The operation and its object.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The machine allows fewer threads than a run needs.
    #[error(
        "cannot start the {threads} thread{} that this needs at once: {source}; raise the limit (docker run --pids-limit, TasksMax= \
         of a systemd service, ulimit -u) or use fewer flows",
        if *threads == 1 { "" } else { "s" }
    )]
    NoThreads {
        /// The number of threads needed at once.
        threads: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// No namespace of a kind that only `longfat lab up` needs.
    #[error("`longfat lab up` cannot {attempted}: {source}; {remedy}; `longfat run` does not need this")]
    NoStanding {
        /// The operation.
        attempted: &'static str,
        /// Why it failed.
        source: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// A congestion control that the kernel does not have.
    #[error("flow {flow}: this kernel has no congestion control {cc:?}; it has {available}")]
    NoCongestionControl {
        /// The flow.
        flow: String,
        /// The requested congestion control.
        cc: String,
        /// The available ones.
        available: String,
    },
    /// A kind of flow that the lab does not support.
    #[error("flow {flow}: the lab does not support flows of kind {kind}; the simulator does: --engine sim")]
    NotInLab {
        /// The flow.
        flow: String,
        /// Its kind.
        kind: &'static str,
    },
    /// Datagrams without space for the header that the lab writes into them.
    #[error(
        "flow {flow}: packet = {packet} is too small for the lab's header of {min} bytes (sequence number and time); write \
         packet = \"{min}B\" or more, or run it with --engine sim"
    )]
    ShortDatagrams {
        /// The flow.
        flow: String,
        /// The datagrams' payload.
        packet: units::Bytes,
        /// Minimum payload, bytes.
        min: u64,
    },
    /// A sysctl that a network namespace does not have, or that rejects the value.
    #[error("host {host}: cannot set {name} = {value:?}: {source}{hint}")]
    Sysctl {
        /// The host.
        host: String,
        /// The sysctl.
        name: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
        /// The remedy, beginning with "; ", or empty.
        hint: &'static str,
    },
    /// A sysctl whose value reads back differently.
    #[error("host {host}: {name} was set to {value:?} but reads {actual:?}")]
    SysctlRefused {
        /// The host.
        host: String,
        /// The sysctl.
        name: String,
        /// The requested value.
        value: String,
        /// The value read back.
        actual: String,
    },
    /// A length of a transmit queue that the kernel rejects.
    #[error(
        "{device}: this kernel rejects nic.tx_queue = {packets} packets: {source}; {}, or run it with --engine sim",
        max.map_or("write a smaller tx_queue".into(), |max| format!("it allows {max}: write tx_queue = {max} or less"))
    )]
    TxQueue {
        /// The host's device.
        device: String,
        /// The length in the scenario.
        packets: u32,
        /// A length that the kernel accepts, if one was found.
        max: Option<u32>,
        /// The kernel's error.
        source: io::Error,
    },
    /// A system call or an operation on a file failed.
    #[error("cannot {attempted}: {source}")]
    System {
        /// The operation and its object.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A flow failed.
    #[error("flow {flow}: {source}")]
    Flow {
        /// The flow.
        flow: String,
        /// The failed operation.
        source: traffic::Error,
    },
    /// The scenario's topology is not valid.
    #[error("the topology cannot be built: {0}")]
    Topology(#[from] net::TopologyError),
    /// The emulator ended prematurely.
    #[error("the emulation stopped: {0}")]
    Emulator(String),
    /// The observer failed (a full disk, for example); its error has the reason.
    #[error("the run was aborted: {0}")]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A lab of this name is up already.
    #[error(
        "a lab called {name} is up already; end it with `longfat lab down {name}`, or give this one another --lab NAME"
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
        /// The problem.
        why: String,
    },
}

impl Error {
    /// True if the machine lacks a privilege or a feature, and the lab itself did not fail.
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
    /// The kernel's error number, if a system call failed.
    pub(crate) fn os_error(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } | Error::NoPort { source, .. } | Error::NoThreads { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { attempted: what(), source })
    }
}
