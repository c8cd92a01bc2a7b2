//! The properties of a packet that links need, and how a train of segments is spread over time.

use units::Instant;

/// A packet, or a super-packet (GSO) of several segments that travel as one object.
///
/// All segments but the last have the same size. Sizes are at the IP layer; a link adds its own `overhead` to
/// each segment. Routers need [`RoutablePacket`](crate::RoutablePacket) in addition, XCP queues
/// [`XcpPacket`](crate::XcpPacket).
pub trait Packet: Clone {
    /// Number of segments, at least 1.
    fn segments(&self) -> u32;
    /// IP bytes of each segment but the last; of a single segment, its IP bytes.
    fn segment_bytes(&self) -> u32;
    /// IP bytes of the last segment.
    fn last_segment_bytes(&self) -> u32;
    /// Number and sizes of the segments in one call.
    #[inline]
    fn shape(&self) -> PacketShape {
        PacketShape {
            segments: self.segments(),
            segment_bytes: self.segment_bytes(),
            last_segment_bytes: self.last_segment_bytes(),
        }
    }
    /// Keeps the segments before `at` and returns the others; `0 < at < segments()`.
    fn split_off(&mut self, at: u32) -> Self;
    /// The ECN field of the IP header.
    fn ecn(&self) -> Ecn {
        Ecn::NotCapable
    }
    /// Sets the ECN field of all segments to CE. Called only if [`Packet::ecn`] is ECN-capable.
    fn mark_ce(&mut self) {}
    /// A hash that is the same for all packets of a flow, and uniformly distributed over flows.
    fn flow_hash(&self) -> u32 {
        0
    }
    /// Flips one bit, which `random` selects. Called only for single segments.
    fn corrupt(&mut self, _random: u64) {}
}

/// Number and sizes of a packet's segments, at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketShape {
    /// Number of segments, at least 1.
    pub segments: u32,
    /// Bytes of each segment but the last; of a single segment, its bytes.
    pub segment_bytes: u32,
    /// Bytes of the last segment.
    pub last_segment_bytes: u32,
}

impl PacketShape {
    /// Bytes of all segments on a wire that adds `overhead` to each.
    #[inline]
    pub(crate) fn wire_bytes(self, overhead: u32) -> u64 {
        let before_last =
            u64::from(self.segments - 1) * (u64::from(self.segment_bytes) + u64::from(overhead));
        before_last + u64::from(self.last_segment_bytes) + u64::from(overhead)
    }
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not-ECT.
    #[default]
    NotCapable,
    /// ECT(1): a low-latency flow (RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// CE.
    CongestionExperienced,
}

impl Ecn {
    /// Whether a queue may mark the packet instead of dropping it.
    pub(crate) fn is_capable(self) -> bool {
        self != Ecn::NotCapable
    }
}

/// Arrival times of a packet's first and last segment; the others are spread evenly between.
///
/// Avoids a store-and-forward delay for trains: the first segment may leave a hop before the last one has
/// arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainTimes {
    /// Arrival of the first segment.
    pub first: Instant,
    /// Arrival of the last segment.
    pub last: Instant,
}

impl TrainTimes {
    /// All segments at one instant.
    pub fn at(now: Instant) -> Self {
        TrainTimes { first: now, last: now }
    }
}
