//! Counters of a flow's ends. A counter is `None` if the protocol does not have it.

use units::Time;

use crate::{
    stream::PlayoutCounts,
    tsunami::Server,
    udt::{CloseReason, Connection},
};

/// Counts and state of the sending end. QUIC counts packets of all kinds and their UDP payload. It carries
/// the data of lost packets in new packets, so its retransmissions are the lost packets.
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
    /// Packets that the receiver reported lost; with QUIC, packets that the sender declared lost.
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
    /// Smoothed round-trip time and its mean deviation, if the sender measures it.
    pub rtt: Option<(Time, Time)>,
    /// Smallest round-trip time, if the sender measures it.
    pub min_rtt: Option<Time>,
}

/// Counts of the receiving end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceiverCounts {
    /// All data has arrived.
    pub is_complete: bool,
    /// Payload bytes received, each once: of UDT and QUIC in order, of Tsunami in any order, of a stream in
    /// time.
    pub received_bytes: u64,
    /// Packets received again.
    pub duplicate_packets: u64,
    /// Smoothed round-trip time and its mean deviation, if the receiver measures it.
    pub rtt: Option<(Time, Time)>,
    /// Smallest round-trip time, if the receiver measures it.
    pub min_rtt: Option<Time>,
    /// The play-out of a stream.
    pub playout: Option<PlayoutCounts>,
}

impl SenderCounts {
    /// The counts of a UDT connection that sends.
    pub fn of_udt(connection: &Connection) -> Self {
        let statistics = connection.statistics();
        let payload = connection.payload_bytes() as u64;
        let bits = |packets: u32| (packets > 0).then_some(u64::from(packets) * payload * 8);
        let path = connection.path();
        let is_measured = statistics.acks > 0;
        let window = connection.congestion_window();
        SenderCounts {
            is_connected: connection.peer_id() != 0,
            is_complete: connection.close_reason() == Some(CloseReason::Local),
            payload_bytes: payload as u32,
            sent_packets: statistics.sent_packets,
            retransmitted_packets: statistics.retransmitted_packets,
            sent_bytes: statistics.sent_bytes,
            acked_bytes: Some(connection.acknowledged_packets() * payload),
            unacked_packets: Some(connection.in_flight_packets()),
            waiting_lost_packets: Some(connection.waiting_lost_packets()),
            lost_packets: statistics.lost_packets,
            naks: statistics.naks,
            skipped_packets: 0,
            timeouts: statistics.expirations,
            window_packets: window.is_finite().then_some(window as u64),
            peer_window_packets: Some(u64::from(path.max_window)),
            rate_bps: connection.sending_rate_bps(),
            arrival_rate_bps: bits(if is_measured { path.receive_rate } else { 0 }),
            // The receiver measures it. Its reports to the sender are averages that begin with an assumed
            // round-trip time.
            rtt: None,
            min_rtt: None,
        }
    }

    /// The counts of a Tsunami server with blocks of `block_bytes` bytes.
    pub fn of_tsunami(server: &Server, block_bytes: u32) -> Self {
        let statistics = server.statistics();
        let is_sending = server.udp_port().is_some();
        let is_complete = server.completed() > 0;
        SenderCounts {
            is_connected: is_sending || is_complete,
            is_complete,
            payload_bytes: block_bytes,
            sent_packets: statistics.sent_blocks,
            retransmitted_packets: statistics.retransmitted_blocks,
            sent_bytes: statistics.sent_blocks * u64::from(block_bytes),
            lost_packets: statistics.requested_blocks,
            naks: statistics.requested_blocks,
            rate_bps: is_sending.then(|| server.rate_bps() as u64),
            ..SenderCounts::default()
        }
    }

    /// These counts after those of `earlier` sessions of the same transfer: the counters are sums.
    pub fn after(self, earlier: &SenderCounts) -> Self {
        SenderCounts {
            sent_packets: self.sent_packets + earlier.sent_packets,
            retransmitted_packets: self.retransmitted_packets + earlier.retransmitted_packets,
            sent_bytes: self.sent_bytes + earlier.sent_bytes,
            lost_packets: self.lost_packets + earlier.lost_packets,
            naks: self.naks + earlier.naks,
            timeouts: self.timeouts + earlier.timeouts,
            ..self
        }
    }
}
