//! A packet on its way through the network.

use crate::{Destination, Ecn, Packet, XcpHeader};

/// A network has fewer stations than this.
pub(crate) const MOST_STATIONS: u32 = 0xff_ffff;

/// A [`Destination`] in three bytes: there are as many of it as packets in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target([u8; 3]);

impl Target {
    /// No station has this number.
    const ALL: u32 = MOST_STATIONS;

    /// The station, or none for all of them.
    #[inline]
    pub(crate) fn station(self) -> Option<u32> {
        let [a, b, c] = self.0;
        let number = u32::from_le_bytes([a, b, c, 0]);
        (number != Target::ALL).then_some(number)
    }
}

impl From<Destination> for Target {
    #[inline]
    fn from(to: Destination) -> Self {
        let number = match to {
            Destination::Station(station) => station,
            Destination::All => Target::ALL,
        };
        let [a, b, c, _] = number.to_le_bytes();
        Target([a, b, c])
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
    /// Where its sender wants it to go.
    pub(crate) to: Target,
    /// Where on the link of its last sender: the same, or a router on the way.
    pub(crate) next: Target,
    /// How many more routers it may come to.
    pub(crate) routers_left: u16,
    pub(crate) packet: P,
}

impl<P: Packet> Packet for Routed<P> {
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
        Routed { packet: self.packet.split_off(at), ..*self }
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
