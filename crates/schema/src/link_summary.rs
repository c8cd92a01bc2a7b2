//! The summary of one direction of a link.

use serde::{Deserialize, Serialize};

use crate::LinkDirection;

/// One direction of a link that is not ideal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// The link's name, as in `s1-s2`.
    pub name: String,
    /// Which direction of the link.
    pub direction: LinkDirection,
    /// The configured rate, bit/s; `null` where unlimited.
    #[serde(default)]
    pub rate_bps: Option<f64>,
    /// Bits sent as a share of what the rate allows during the run; `null` where unlimited.
    pub utilization: Option<f64>,
    /// Packets (segments) that left the queue.
    pub sent_packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets lost by the link's loss model.
    pub dropped_loss: u64,
    /// Maximum of the bytes in the queue.
    pub max_queue_bytes: u64,
    /// Time average of the bytes in the queue.
    pub mean_queue_bytes: f64,
    /// Packets that the queueing discipline dropped actively (AQM).
    #[serde(default)]
    pub dropped_aqm: u64,
    /// Packets larger than the link's MTU.
    #[serde(default)]
    pub dropped_mtu: u64,
    /// Packets offered while the link was down.
    #[serde(default)]
    pub dropped_down: u64,
    /// Packets that the queue marked (ECN CE).
    #[serde(default)]
    pub marked: u64,
    /// Packets duplicated.
    #[serde(default)]
    pub duplicated: u64,
    /// Packets with a bit flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets reordered.
    #[serde(default)]
    pub reordered: u64,
}

impl LinkSummary {
    /// The counts of other packet events, as displayed: `12 marked, 3 too large`; empty where there are none.
    pub fn remarks(&self) -> String {
        let counts = [
            (self.dropped_aqm, "dropped by the discipline"),
            (self.marked, "marked"),
            (self.dropped_mtu, "too large"),
            (self.dropped_down, "while down"),
            (self.duplicated, "duplicated"),
            (self.corrupted, "corrupted"),
            (self.reordered, "reordered"),
        ];
        let listed = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        listed.collect::<Vec<_>>().join(", ")
    }
}
