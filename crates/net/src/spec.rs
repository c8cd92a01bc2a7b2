//! What one direction of a link is made of.

use units::{BitRate, Bytes, Time};

/// One direction of a link. The default is ideal: no delay, no limit, no loss.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeSpec {
    /// Rate; `None` is unlimited.
    pub rate: Option<BitRate>,
    /// Propagation delay.
    pub delay: Time,
    /// What the queue in front of the rate may hold.
    pub queue: QueueLimit,
    /// Probability that a segment is lost on the wire (after the queue, so it costs capacity).
    pub loss: f64,
    /// Token bucket in bytes: with it the pipe shapes as tbf does, packets that the bucket allows leave
    /// at once; without it the pipe is a wire on which each packet takes its transmission time.
    pub burst: Option<Bytes>,
    /// Bytes that each segment counts on the wire beside its IP bytes (14: Ethernet header, as tbf counts).
    pub overhead: u32,
}

impl Default for PipeSpec {
    fn default() -> Self {
        PipeSpec {
            rate: None,
            delay: Time(0),
            queue: QueueLimit::Unlimited,
            loss: 0.0,
            burst: None,
            overhead: 14,
        }
    }
}

impl PipeSpec {
    /// True where packets pass at once and unharmed.
    pub fn is_ideal(&self) -> bool {
        self.rate.is_none() && self.delay == Time(0) && self.loss <= 0.0
    }
}

/// The most that a drop-tail queue holds. The packet being sent counts until its last bit has left,
/// as in Linux's tbf, so the largest queueing delay is the limit over the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueLimit {
    /// Nothing is ever dropped.
    #[default]
    Unlimited,
    /// Bytes, overhead included.
    Bytes(u64),
    /// Packets (segments).
    Packets(u64),
}
