//! A packet on its way through the network.

use crate::{Destination, Ecn, Packet, Shape, XcpHeader};

/// A network has fewer stations than this.
pub(crate) const MOST_STATIONS: u32 = 0xff_ffff;

/// A [`Destination`] in three bytes: there are as many of it as packets in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target(u32);

impl Target {
    /// No station has this number.
    const ALL: u32 = MOST_STATIONS;

    /// The station, or none for all of them.
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

/// A packet and where it goes.
#[derive(Clone)]
pub(crate) struct Routed<P> {
    /// Two targets of three bytes and a number of two, as one word, which is moved as one.
    way: u64,
    pub(crate) packet: P,
}

impl<P> Routed<P> {
    /// A packet that its sender wants to go to `to`, on its link to `next` (the same, or a router on the way), and that may
    /// come to so many more routers.
    #[inline]
    pub(crate) fn new(to: Target, next: Target, routers_left: u16, packet: P) -> Self {
        let way = u64::from(to.0) | u64::from(next.0) << 24 | u64::from(routers_left) << 48;
        Routed { way, packet }
    }

    /// Where its sender wants it to go.
    #[inline]
    pub(crate) fn to(&self) -> Target {
        Target(self.way as u32 & MOST_STATIONS)
    }

    /// Where on the link of its last sender.
    #[inline]
    pub(crate) fn next(&self) -> Target {
        Target((self.way >> 24) as u32 & MOST_STATIONS)
    }

    /// How many more routers it may come to.
    #[inline]
    pub(crate) fn routers_left(&self) -> u16 {
        (self.way >> 48) as u16
    }
}

impl<P: Packet> Packet for Routed<P> {
    #[inline(always)]
    fn shape(&self) -> Shape {
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
        Routed { packet: self.packet.split_off(at), way: self.way }
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
    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        self.packet.xcp()
    }
}
