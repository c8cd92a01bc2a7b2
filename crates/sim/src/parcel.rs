//! A packet as the network keeps it: half as large as it was, for there are as many of them as a window has.
//!
//! A TCP segment without SACK blocks and SYN options lies in 32 bytes; everything else is on the heap.

use net::{Arrival, Ecn, Emission, Packet, Router, XcpHeader};
use tcp::{Flags, Segment};

use crate::packet::{Body, SimPacket, codepoint};

/// A packet on its way.
#[derive(Debug, Clone)]
pub(crate) enum Parcel {
    /// See [`SimPacket`] and [`Segment`].
    Plain {
        to: u32,
        header: u8,
        ecn: u8,
        flags: Flags,
        seq: u32,
        ack: u32,
        len: u32,
        tsval: u32,
        tsecr: u32,
        mss: u16,
        window: u16,
    },
    Boxed(Box<SimPacket>),
}

impl From<SimPacket> for Parcel {
    #[inline]
    fn from(packet: SimPacket) -> Self {
        match (&packet.body, u8::try_from(packet.header)) {
            (Body::Tcp(segment), Ok(header)) if segment.sack.is_none() && segment.syn.is_none() => {
                let &Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, .. } = segment;
                let to = packet.to;
                Parcel::Plain { to, header, ecn, flags, seq, ack, len, tsval, tsecr, mss, window }
            }
            _ => Parcel::Boxed(Box::new(packet)),
        }
    }
}

impl From<Parcel> for SimPacket {
    #[inline]
    fn from(parcel: Parcel) -> Self {
        match parcel {
            Parcel::Plain { to, header, ecn, flags, seq, ack, len, tsval, tsecr, mss, window } => {
                let (sack, syn) = (None, None);
                let segment = Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, sack, syn };
                SimPacket { to, header: u32::from(header), body: Body::Tcp(segment) }
            }
            Parcel::Boxed(packet) => *packet,
        }
    }
}

impl Parcel {
    /// It is for a connection.
    #[inline]
    pub(crate) fn is_tcp(&self) -> bool {
        match self {
            Parcel::Plain { .. } => true,
            Parcel::Boxed(packet) => matches!(packet.body, Body::Tcp(_)),
        }
    }
}

impl Packet for Parcel {
    #[inline]
    fn segments(&self) -> u32 {
        match self {
            Parcel::Plain { len, mss, .. } => tcp::segments(*len, *mss),
            Parcel::Boxed(packet) => packet.segments(),
        }
    }

    #[inline]
    fn segment_bytes(&self) -> u32 {
        match self {
            Parcel::Plain { header, len, mss: 0, .. } => u32::from(*header) + len,
            Parcel::Plain { header, len, mss, .. } => u32::from(*header) + (*len).min(u32::from(*mss)),
            Parcel::Boxed(packet) => packet.segment_bytes(),
        }
    }

    #[inline]
    fn last_segment_bytes(&self) -> u32 {
        match self {
            Parcel::Plain { header, len, mss, .. } => {
                u32::from(*header) + len - (tcp::segments(*len, *mss) - 1) * u32::from(*mss)
            }
            Parcel::Boxed(packet) => packet.last_segment_bytes(),
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let mut whole = SimPacket::from(self.clone());
        let rest = whole.split_off(at);
        *self = whole.into();
        rest.into()
    }

    fn ecn(&self) -> Ecn {
        match self {
            Parcel::Plain { ecn, .. } => codepoint(*ecn),
            Parcel::Boxed(packet) => packet.ecn(),
        }
    }

    fn mark_ce(&mut self) {
        match self {
            Parcel::Plain { ecn, .. } => *ecn = tcp::ecn::CE,
            Parcel::Boxed(packet) => packet.mark_ce(),
        }
    }

    fn flow_hash(&self) -> u32 {
        match self {
            Parcel::Plain { to, .. } => crate::packet::flow_hash(*to),
            Parcel::Boxed(packet) => packet.flow_hash(),
        }
    }

    fn corrupt(&mut self, random: u64) {
        match self {
            Parcel::Plain { to, .. } => *to = u32::MAX,
            Parcel::Boxed(packet) => packet.corrupt(random),
        }
    }

    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        match self {
            Parcel::Plain { .. } => None,
            Parcel::Boxed(packet) => packet.xcp(),
        }
    }

    fn at_router(self, router: &Router, arrival: Arrival, out: &mut Vec<Emission<Self>>) {
        let mut emissions = Vec::new();
        SimPacket::from(self).at_router(router, arrival, &mut emissions);
        out.extend(emissions.into_iter().map(|emission| emission.map(Parcel::from)));
    }
}

#[cfg(test)]
mod tests {
    use tcp::SackBlocks;

    use super::*;
    use crate::{fragments::Fragments, packet::Echo};

    fn packet(len: u32, mss: u16) -> SimPacket {
        let flags = Flags::ACK.with(Flags::PSH);
        let segment = Segment {
            seq: 1,
            ack: 2,
            len,
            tsval: 3,
            tsecr: 4,
            mss,
            window: 5,
            flags,
            ecn: tcp::ecn::ECT0,
            ..Segment::default()
        };
        SimPacket { to: 7, header: 52, body: Body::Tcp(segment) }
    }

    #[test]
    fn a_parcel_is_half_a_packet() {
        assert_eq!(size_of::<Parcel>(), 32);
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let mut with_blocks = packet(0, 1448);
        if let Body::Tcp(segment) = &mut with_blocks.body {
            let mut sack = SackBlocks::default();
            sack.push(9, 10);
            segment.sack = Some(Box::new(sack));
        }
        let echo = Echo { sequence: 1, reply: false, fragments: Fragments::of(3008, 1500, 20) };
        let echo = SimPacket { to: 0, header: 20, body: Body::Echo(echo) };
        let long_header = SimPacket { header: 300, ..packet(1448, 1448) };
        for packet in [packet(0, 0), packet(4000, 1448), packet(2896, 1448), with_blocks, echo, long_header] {
            let parcel = Parcel::from(packet.clone());
            assert_eq!(parcel.segments(), packet.segments());
            assert_eq!(parcel.segment_bytes(), packet.segment_bytes());
            assert_eq!(parcel.last_segment_bytes(), packet.last_segment_bytes());
            assert_eq!((parcel.ecn(), parcel.flow_hash()), (packet.ecn(), packet.flow_hash()));
            assert_eq!(format!("{:?}", SimPacket::from(parcel)), format!("{packet:?}"));
        }
    }

    #[test]
    fn a_parcel_is_split_as_its_packet_is() {
        let (mut parcel, mut whole) = (Parcel::from(packet(4000, 1448)), packet(4000, 1448));
        let (rest, other) = (parcel.split_off(1), whole.split_off(1));
        assert_eq!(format!("{:?}", SimPacket::from(rest)), format!("{other:?}"));
        assert_eq!(format!("{:?}", SimPacket::from(parcel)), format!("{whole:?}"));
    }
}
