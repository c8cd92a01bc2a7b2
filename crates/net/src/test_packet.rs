//! The smallest [`Packet`], for tests, examples and benches.

use units::Instant;

use crate::{DropCause, Packet, PacketSink, PipeId, RoutablePacket, XcpPacket};

/// A numbered packet without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestPacket {
    /// Number of the first segment; the following ones count up.
    pub first: u64,
    /// Number of segments.
    pub segments: u32,
    /// IP bytes of each segment but the last.
    pub bytes: u32,
    /// IP bytes of the last segment.
    pub last_bytes: u32,
}

impl TestPacket {
    /// A packet of one segment.
    pub fn single(number: u64, bytes: u32) -> Self {
        TestPacket { first: number, segments: 1, bytes, last_bytes: bytes }
    }
}

impl Packet for TestPacket {
    fn segments(&self) -> u32 {
        self.segments
    }
    fn segment_bytes(&self) -> u32 {
        self.bytes
    }
    fn last_segment_bytes(&self) -> u32 {
        self.last_bytes
    }
    fn split_off(&mut self, at: u32) -> Self {
        assert!(0 < at && at < self.segments);
        let tail = TestPacket { first: self.first + u64::from(at), segments: self.segments - at, ..*self };
        *self = TestPacket { segments: at, last_bytes: self.bytes, ..*self };
        tail
    }
}

impl RoutablePacket for TestPacket {}

impl XcpPacket for TestPacket {}

/// Collects `(station, time, packet)` of every delivery, and ignores drops.
impl PacketSink<TestPacket> for Vec<(u32, Instant, TestPacket)> {
    fn deliver(&mut self, station: u32, at: Instant, packet: TestPacket) {
        self.push((station, at, packet));
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, _cause: DropCause, _packet: TestPacket) {}
}
