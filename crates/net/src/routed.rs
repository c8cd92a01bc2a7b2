//! A packet inside the network, with its destination and next hop.

use crate::{Destination, Ecn, Packet, PacketShape, XcpHeader, XcpPacket};

/// A network has fewer stations than this, so that an index fits into three bytes.
pub(crate) const MAX_STATIONS: u32 = 0xff_ffff;

/// A [`Destination`] in three bytes, to save memory for each packet in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target(u32);

impl Target {
    /// No station has this number.
    const ALL: u32 = MAX_STATIONS;

    /// The station; `None` for all stations.
    #[inline]
    pub(crate) fn station(self) -> Option<u32> {
        (self.0 != Target::ALL).then_some(self.0)
    }
}

impl From<Destination> for Target {
    #[inline]
    fn from(to: Destination) -> Self {
        Target(match to {
            Destination::Station(station) => station,
            Destination::All => Target::ALL,
        })
    }
}

impl From<Target> for Destination {
    #[inline]
    fn from(target: Target) -> Self {
        target.station().map_or(Destination::All, Destination::Station)
    }
}

/// A packet with its destination and next hop.
#[derive(Clone)]
pub(crate) struct Routed<P> {
    /// Destination (3 bytes), next hop (3 bytes) and remaining routers (2 bytes), packed into one word so
    /// that one instruction moves them.
    route: u64,
    pub(crate) packet: P,
}

impl<P> Routed<P> {
    /// A packet to `to`. On the current link it goes to `next`: the destination itself, or a router. It may
    /// pass `routers_left` more routers.
    #[inline]
    pub(crate) fn new(to: Target, next: Target, routers_left: u16, packet: P) -> Self {
        let route = u64::from(to.0) | u64::from(next.0) << 24 | u64::from(routers_left) << 48;
        Routed { route, packet }
    }

    /// The destination that the sender gave.
    #[inline]
    pub(crate) fn to(&self) -> Target {
        Target(self.route as u32 & MAX_STATIONS)
    }

    /// The destination on the current link.
    #[inline]
    pub(crate) fn next(&self) -> Target {
        Target((self.route >> 24) as u32 & MAX_STATIONS)
    }

    /// The number of routers that the packet may still pass.
    #[inline]
    pub(crate) fn routers_left(&self) -> u16 {
        (self.route >> 48) as u16
    }
}

impl<P: Packet> Packet for Routed<P> {
    #[inline(always)]
    fn shape(&self) -> PacketShape {
        self.packet.shape()
    }
    fn segments(&self) -> u32 {
        self.packet.segments()
    }
    fn segment_bytes(&self) -> u32 {
        self.packet.segment_bytes()
    }
    fn last_segment_bytes(&self) -> u32 {
        self.packet.last_segment_bytes()
    }
    fn split_off(&mut self, at: u32) -> Self {
        Routed { packet: self.packet.split_off(at), route: self.route }
    }
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }
    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }
    fn flow_hash(&self) -> u32 {
        self.packet.flow_hash()
    }
    fn corrupt(&mut self, random: u64) {
        self.packet.corrupt(random);
    }
}

impl<P: XcpPacket> XcpPacket for Routed<P> {
    fn xcp_header(&mut self) -> Option<&mut XcpHeader> {
        self.packet.xcp_header()
    }
}
