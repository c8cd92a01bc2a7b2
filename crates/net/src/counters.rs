//! The counters of one direction of a link.

/// The counters of one pipe since the start. Packets are segments; bytes include the link's overhead.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PipeCounters {
    /// Packets that left the queue, including those lost on the wire.
    pub sent_packets: u64,
    /// Bytes that left the queue.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets that the queue discipline dropped although the queue had space.
    pub dropped_aqm: u64,
    /// Packets lost on the wire.
    pub dropped_loss: u64,
    /// Packets dropped because they were larger than the MTU.
    pub dropped_mtu: u64,
    /// Packets dropped because the link was down.
    pub dropped_down: u64,
    /// Packets that the queue marked as CE.
    pub marked: u64,
    /// Extra copies delivered.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets that overtook others (a train counts once).
    pub reordered: u64,
    /// Packets in the queue now.
    pub queue_packets: u64,
    /// Bytes in the queue now.
    pub queue_bytes: u64,
    /// Maximum bytes in the queue since the start.
    pub max_queue_bytes: u64,
    /// Maximum bytes in the queue since the last call of `Network::sample`.
    pub max_queue_bytes_since: u64,
    /// Integral of the queue's bytes over time, in byte-seconds, for all packets accepted so far.
    pub queue_byte_seconds: f64,
}
