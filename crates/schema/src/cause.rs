//! The causes that can limit a flow.

use serde::{Deserialize, Serialize};

/// The cause that limited a flow. There is no `congestion_window`: the verdict names what reduced or limited
/// the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The window that the receiver advertises, limited by the receiver's buffer.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The slowest link, which is full.
    PathRate,
    /// Lost packets, and the window's slow growth after them.
    Loss,
    /// Congestion marks of routers (ECN, RFC 3168), and the window's slow growth after them.
    EcnMarks,
    /// The sending host's own queue, which dropped packets before they left, and the window's slow growth
    /// after that.
    LocalQueue,
    /// The start: without a loss so far, the window has not yet grown to what the path allows.
    SlowStart,
    /// The application, which writes or reads too slowly.
    Application,
    /// A pacing rate below what the path allows.
    Pacing,
    /// The hosts' processors, which could not keep up.
    HostCpu,
}

impl Cause {
    /// All causes, in the order of reports.
    pub const ALL: [Cause; 10] = [
        Cause::ReceiveWindow,
        Cause::SendBuffer,
        Cause::PathRate,
        Cause::Loss,
        Cause::EcnMarks,
        Cause::LocalQueue,
        Cause::SlowStart,
        Cause::Application,
        Cause::Pacing,
        Cause::HostCpu,
    ];

    /// The name used in JSON and Parquet.
    pub fn name(self) -> &'static str {
        match self {
            Cause::ReceiveWindow => "receive_window",
            Cause::SendBuffer => "send_buffer",
            Cause::PathRate => "path_rate",
            Cause::Loss => "loss",
            Cause::EcnMarks => "ecn_marks",
            Cause::LocalQueue => "local_queue",
            Cause::SlowStart => "slow_start",
            Cause::Application => "application",
            Cause::Pacing => "pacing",
            Cause::HostCpu => "host_cpu",
        }
    }

    /// The cause called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}
