//! What travels: trains of segments.

use units::Time;

/// A packet, or a super-packet (GSO) of several segments that travel as one object.
///
/// All segments but the last have the same size. Sizes are at the IP layer; a link adds its own
/// `overhead` to each segment.
pub trait Packet: Clone {
    /// How many segments; at least 1.
    fn segments(&self) -> u32;
    /// IP bytes of each segment but the last.
    fn segment_bytes(&self) -> u32;
    /// IP bytes of the last segment.
    fn last_segment_bytes(&self) -> u32;
    /// Keeps the segments before `at` and returns the others; `0 < at < segments()`.
    fn split_off(&mut self, at: u32) -> Self;
}

/// When the first and the last segment of a packet arrive; the others are spread evenly between.
///
/// A train crosses a hop without being stored and forwarded as a whole: its first segment may leave
/// before its last has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// Arrival of the first segment.
    pub first: Time,
    /// Arrival of the last segment.
    pub last: Time,
}

impl Train {
    /// All segments at one instant.
    pub fn at(now: Time) -> Self {
        Train { first: now, last: now }
    }
}
