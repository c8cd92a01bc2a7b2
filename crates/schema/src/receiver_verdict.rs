//! The limit of a flow, as its receiving end alone measures it.

use serde::{Deserialize, Serialize};

/// The limit of a flow, as its receiver measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverFinding {
    /// The receiver's own buffer: its window was full.
    ReceiveBuffer,
    /// The program that reads, or its processor.
    Reader,
    /// The sender's window, buffer, application or pacing.
    Sender,
    /// The network: losses, marks or the rate of the path.
    Network,
    /// The receiving end does not show the limit.
    Unknown,
}

/// The verdict of a receiving end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiverVerdict {
    /// The limit of the flow.
    pub finding: ReceiverFinding,
    /// Share of the samples (0 to 1) that show the finding. Where no finding is clear: the share of the most
    /// frequent one.
    pub share: f64,
    /// The evidence, one sentence each.
    pub evidence: Vec<String>,
}
