//! The capacity of a queue.

use units::Bytes;

/// The capacity of a queue. The packet in transmission counts until its last bit has left, as in Linux's tbf,
/// so the largest queueing delay is the limit divided by the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueLimit {
    /// The queue never overflows.
    #[default]
    Unlimited,
    /// Bytes, overhead included.
    Bytes(Bytes),
    /// Packets (segments).
    Packets(u64),
}

impl QueueLimit {
    /// The limit in bytes, for packets of `packet_bytes`; `None` if there is none.
    pub fn bytes(self, packet_bytes: u64) -> Option<Bytes> {
        match self {
            QueueLimit::Unlimited => None,
            QueueLimit::Bytes(bytes) => Some(bytes),
            QueueLimit::Packets(count) => Some(Bytes(count.saturating_mul(packet_bytes))),
        }
    }
}
