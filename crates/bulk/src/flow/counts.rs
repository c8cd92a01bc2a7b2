//! Counters of a flow's ends. A counter is `None` if the protocol does not have it.

use units::Time;

use crate::stream::PlayoutCounts;

/// Counts and state of the sending end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SenderCounts {
    /// Data can be sent.
    pub is_connected: bool,
    /// All data has been sent and acknowledged.
    pub is_complete: bool,
    /// Payload bytes of a full packet.
    pub payload_bytes: u32,
    /// Packets with data sent, retransmissions included.
    pub sent_packets: u64,
    /// Of these, retransmissions.
    pub retransmitted_packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload bytes acknowledged.
    pub acked_bytes: Option<u64>,
    /// Packets sent and not yet acknowledged.
    pub unacked_packets: Option<u64>,
    /// Packets known to be lost and not yet retransmitted.
    pub waiting_lost_packets: Option<u64>,
    /// Packets that the receiver reported lost.
    pub lost_packets: u64,
    /// Reports of lost packets (NAKs), or requests for blocks.
    pub naks: u64,
    /// Packets of a stream that were not sent because this end was stalled at their time.
    pub skipped_packets: u64,
    /// Expirations of timers without any packet from the peer.
    pub timeouts: u64,
    /// Congestion window, packets.
    pub window_packets: Option<u64>,
    /// The window that the receiver allows, packets.
    pub peer_window_packets: Option<u64>,
    /// The rate that the rate control allows, bit/s of payload.
    pub rate_bps: Option<u64>,
    /// The receiver's measured rate of arrivals, bit/s of payload.
    pub arrival_rate_bps: Option<u64>,
    /// Smoothed round-trip time and its mean deviation.
    pub rtt: Option<(Time, Time)>,
}

/// Counts of the receiving end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceiverCounts {
    /// All data has arrived.
    pub is_complete: bool,
    /// Payload bytes received, each once: of UDT in order, of Tsunami in any order, of a stream in time.
    pub received_bytes: u64,
    /// Packets received again.
    pub duplicate_packets: u64,
    /// Smallest round-trip time.
    pub min_rtt: Option<Time>,
    /// The play-out of a stream.
    pub playout: Option<PlayoutCounts>,
}
