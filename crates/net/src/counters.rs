//! What one direction of a link has done since the start.

/// Counters of one pipe. Packets are segments; bytes include the link's overhead.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Packets that left the queue, those lost on the wire included.
    pub sent_packets: u64,
    /// Bytes that left the queue.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets that the queue's discipline dropped by its own decision.
    pub dropped_aqm: u64,
    /// Packets lost on the wire.
    pub dropped_loss: u64,
    /// Packets larger than the MTU.
    pub dropped_mtu: u64,
    /// Packets offered while the link was down.
    pub dropped_down: u64,
    /// Packets that the queue marked: congestion experienced.
    pub marked: u64,
    /// Packets delivered once more.
    pub duplicated: u64,
    /// Packets with a bit flipped.
    pub corrupted: u64,
    /// Packets sent past others (a train counts once).
    pub reordered: u64,
    /// Packets in the queue now.
    pub queue_packets: u64,
    /// Bytes in the queue now.
    pub queue_bytes: u64,
    /// Most bytes in the queue since the start.
    pub max_queue_bytes: u64,
    /// Most bytes in the queue since the last call of `Network::sample`.
    pub max_queue_bytes_since: u64,
    /// Integral of the queue's bytes over time, in byte-seconds (of every packet accepted so far).
    pub queue_byte_seconds: f64,
}
