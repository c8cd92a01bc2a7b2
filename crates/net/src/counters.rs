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
    /// Packets lost on the wire.
    pub dropped_loss: u64,
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
