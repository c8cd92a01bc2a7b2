//! The play-out of a real-time stream.

use serde::{Deserialize, Serialize};

/// The part of a stream that the receiver could play, and whether the path sustains the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Packets whose play-out time has passed.
    pub due_packets: u64,
    /// Share of these (0 to 1) that had arrived.
    pub in_time_share: f64,
    /// Packets that arrived after their play-out time.
    pub late_packets: u64,
    /// Gaps of one packet in the play-out.
    pub gaps_of_1: u64,
    /// Gaps of 2 to 10 packets.
    pub gaps_of_2_to_10: u64,
    /// Gaps of 11 to 100 packets.
    pub gaps_of_11_to_100: u64,
    /// Gaps of more than 100 packets.
    pub gaps_over_100: u64,
    /// Length of the longest gap, packets.
    pub longest_gap_packets: u64,
    /// The share in time is at least what the stream requires.
    pub is_sustainable: bool,
    /// For a sustainable stream: its rate plus the unused rate of the fullest link of its path, bit/s of
    /// payload; `null` on a path without a rate; between real hosts, whose links are unknown, the stream's
    /// rate. For other streams: the rate that arrived in time.
    pub sustainable_up_to_bps: Option<f64>,
}
