//! A packet as the network stores it: half the size of [`SimPacket`], because the network holds a window's
//! worth of them.
//!
//! A TCP segment without SACK blocks and SYN options takes 32 bytes; any other packet is on the heap. The
//! enum's discriminant is the niche of [`EndpointNumber`], four bytes wide. A discriminant of one byte would
//! make copies move pieces of odd sizes, which cause store-forwarding stalls.

use std::num::NonZeroU32;

use net::{
    Ecn, Packet, PacketShape, RoutablePacket, Router, RouterAction, RouterArrival, XcpHeader, XcpPacket,
};
use tcp::{Flags, Segment};

use crate::packet::{Body, DroppedPacket, NeighbourMessage, SimPacket, TooBig, ecn_codepoint};

/// A packet in the network.
#[derive(Debug, Clone)]
pub(crate) enum CompactPacket {
    /// The fields are those of [`SimPacket`] and [`Segment`].
    Plain {
        to: EndpointNumber,
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
        /// Fills the struct: the compiler would use a free byte as the discriminant.
        _padding: u8,
    },
    Boxed(Box<SimPacket>),
}

/// A packet that is handled below the flows, by the host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControlPacket {
    Neighbour(NeighbourMessage),
    TooBig(TooBig),
    /// With the endpoint that the packet was for.
    Dropped(u32, DroppedPacket),
}

/// An endpoint's number ([`SimPacket::to`]) with a niche for the enum's discriminant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointNumber(NonZeroU32);

impl EndpointNumber {
    /// The niche: more than any scenario has endpoints.
    const NONE: u32 = 1 << 31;

    #[inline]
    fn new(number: u32) -> Option<EndpointNumber> {
        NonZeroU32::new(number ^ EndpointNumber::NONE).map(EndpointNumber)
    }

    #[inline]
    fn get(self) -> u32 {
        self.0.get() ^ EndpointNumber::NONE
    }
}

impl CompactPacket {
    /// A segment for endpoint `to`, with `header` IP bytes of headers in each packet.
    pub(crate) fn of_segment(to: u32, header: u32, segment: Segment) -> CompactPacket {
        CompactPacket::plain(to, header, &segment).unwrap_or_else(|| {
            CompactPacket::Boxed(Box::new(SimPacket { to, header, body: Body::Tcp(segment) }))
        })
    }

    /// The packet of a segment; `None` if it would need the heap.
    #[inline]
    pub(crate) fn plain(to: u32, header: u32, segment: &Segment) -> Option<CompactPacket> {
        let (header, to) = (u8::try_from(header).ok()?, EndpointNumber::new(to)?);
        if segment.sack.is_some() || segment.syn.is_some() {
            return None;
        }
        let &Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, .. } = segment;
        Some(CompactPacket::Plain {
            to,
            header,
            ecn,
            flags,
            seq,
            ack,
            len,
            tsval,
            tsecr,
            mss,
            window,
            _padding: 0,
        })
    }

    /// The endpoint that it is for.
    #[inline]
    pub(crate) fn to(&self) -> u32 {
        match self {
            CompactPacket::Plain { to, .. } => to.get(),
            CompactPacket::Boxed(packet) => packet.to,
        }
    }

    /// Destination endpoint and payload bytes of a TCP segment.
    #[inline]
    pub(crate) fn tcp_payload(&self) -> Option<(u32, u32)> {
        match self {
            CompactPacket::Plain { to, len, .. } => Some((to.get(), *len)),
            CompactPacket::Boxed(packet) => match &packet.body {
                Body::Tcp(segment) => Some((packet.to, segment.len)),
                _ => None,
            },
        }
    }

    /// True for TCP segments.
    #[inline]
    pub(crate) fn is_tcp(&self) -> bool {
        match self {
            CompactPacket::Plain { .. } => true,
            CompactPacket::Boxed(packet) => matches!(packet.body, Body::Tcp(_)),
        }
    }

    /// Its content if the host handles it.
    #[inline]
    pub(crate) fn control(&self) -> Option<ControlPacket> {
        match self {
            CompactPacket::Boxed(packet) => match packet.body {
                Body::Neighbour(message) => Some(ControlPacket::Neighbour(message)),
                Body::TooBig(report) => Some(ControlPacket::TooBig(report)),
                Body::Dropped(dropped) => Some(ControlPacket::Dropped(packet.to, dropped)),
                _ => None,
            },
            CompactPacket::Plain { .. } => None,
        }
    }

    /// The first sequence number of a TCP segment, 0 of other packets.
    pub(crate) fn seq(&self) -> u32 {
        match self {
            CompactPacket::Plain { seq, .. } => *seq,
            CompactPacket::Boxed(packet) => match &packet.body {
                Body::Tcp(segment) => segment.seq,
                _ => 0,
            },
        }
    }

    /// True if a router may send an ICMP error for it: never for an ICMP error (RFC 1812 section 4.3.2.7).
    pub(crate) fn may_cause_icmp_error(&self) -> bool {
        match self {
            CompactPacket::Plain { .. } => true,
            CompactPacket::Boxed(packet) => {
                !matches!(packet.body, Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_))
            }
        }
    }
}

impl From<SimPacket> for CompactPacket {
    #[inline]
    fn from(packet: SimPacket) -> Self {
        match packet.body {
            Body::Tcp(segment) => CompactPacket::of_segment(packet.to, packet.header, segment),
            _ => CompactPacket::Boxed(Box::new(packet)),
        }
    }
}

impl TryFrom<CompactPacket> for Segment {
    type Error = ();

    /// The TCP segment; `Err` for other packets.
    #[inline]
    fn try_from(compact: CompactPacket) -> Result<Self, ()> {
        match compact {
            CompactPacket::Plain { ecn, flags, seq, ack, len, tsval, tsecr, mss, window, .. } => {
                let (sack, syn) = (None, None);
                Ok(Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, sack, syn })
            }
            CompactPacket::Boxed(packet) => match packet.body {
                Body::Tcp(segment) => Ok(segment),
                _ => Err(()),
            },
        }
    }
}

impl From<CompactPacket> for SimPacket {
    #[inline]
    fn from(compact: CompactPacket) -> Self {
        match compact {
            CompactPacket::Plain {
                to, header, ecn, flags, seq, ack, len, tsval, tsecr, mss, window, ..
            } => {
                let (sack, syn) = (None, None);
                let segment = Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, sack, syn };
                SimPacket { to: to.get(), header: u32::from(header), body: Body::Tcp(segment) }
            }
            CompactPacket::Boxed(packet) => *packet,
        }
    }
}

impl Packet for CompactPacket {
    #[inline(always)]
    fn shape(&self) -> PacketShape {
        match self {
            CompactPacket::Plain { header, len, mss, .. } if *len <= u32::from(*mss) || *mss == 0 => {
                let bytes = u32::from(*header) + len;
                PacketShape { segments: 1, segment_bytes: bytes, last_segment_bytes: bytes }
            }
            CompactPacket::Plain { header, len, mss, .. } => {
                let (header, mss) = (u32::from(*header), u32::from(*mss));
                let segments = len.div_ceil(mss);
                let last_segment_bytes = header + len - (segments - 1) * mss;
                PacketShape { segments, segment_bytes: header + mss, last_segment_bytes }
            }
            CompactPacket::Boxed(packet) => packet.shape(),
        }
    }

    #[inline]
    fn segments(&self) -> u32 {
        match self {
            CompactPacket::Plain { len, mss, .. } => tcp::segments(*len, *mss),
            CompactPacket::Boxed(packet) => packet.segments(),
        }
    }

    #[inline]
    fn segment_bytes(&self) -> u32 {
        match self {
            CompactPacket::Plain { header, len, mss: 0, .. } => u32::from(*header) + len,
            CompactPacket::Plain { header, len, mss, .. } => u32::from(*header) + (*len).min(u32::from(*mss)),
            CompactPacket::Boxed(packet) => packet.segment_bytes(),
        }
    }

    #[inline]
    fn last_segment_bytes(&self) -> u32 {
        match self {
            CompactPacket::Plain { header, len, mss, .. } => {
                u32::from(*header) + len - (tcp::segments(*len, *mss) - 1) * u32::from(*mss)
            }
            CompactPacket::Boxed(packet) => packet.last_segment_bytes(),
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let mut whole = SimPacket::from(self.clone());
        let others = whole.split_off(at);
        *self = whole.into();
        others.into()
    }

    fn ecn(&self) -> Ecn {
        match self {
            CompactPacket::Plain { ecn, .. } => ecn_codepoint(*ecn),
            CompactPacket::Boxed(packet) => packet.ecn(),
        }
    }

    fn mark_ce(&mut self) {
        match self {
            CompactPacket::Plain { ecn, .. } => *ecn = tcp::ecn::CE,
            CompactPacket::Boxed(packet) => packet.mark_ce(),
        }
    }

    fn flow_hash(&self) -> u32 {
        match self {
            CompactPacket::Plain { to, .. } => crate::packet::flow_hash(to.get()),
            CompactPacket::Boxed(packet) => packet.flow_hash(),
        }
    }

    fn corrupt(&mut self, random: u64) {
        match self {
            CompactPacket::Plain { to, .. } => *to = EndpointNumber::new(u32::MAX).unwrap_or(*to),
            CompactPacket::Boxed(packet) => packet.corrupt(random),
        }
    }
}

impl XcpPacket for CompactPacket {
    fn xcp_header(&mut self) -> Option<&mut XcpHeader> {
        match self {
            CompactPacket::Plain { .. } => None,
            CompactPacket::Boxed(packet) => packet.xcp_header(),
        }
    }
}

impl RoutablePacket for CompactPacket {
    fn process_at_router(self, router: &Router, arrival: RouterArrival, out: &mut Vec<RouterAction<Self>>) {
        let mut actions = Vec::new();
        SimPacket::from(self).process_at_router(router, arrival, &mut actions);
        out.extend(actions.into_iter().map(|action| action.map(CompactPacket::from)));
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
    fn takes_32_bytes() {
        assert_eq!(size_of::<CompactPacket>(), 32);
    }

    #[test]
    fn unpacking_inverts_packing() {
        let mut with_blocks = packet(0, 1448);
        if let Body::Tcp(segment) = &mut with_blocks.body {
            let mut sack = SackBlocks::default();
            sack.push(9, 10);
            segment.sack = Some(Box::new(sack));
        }
        let echo = Echo { sequence: 1, is_reply: false, fragments: Fragments::new(3008, 1500, 20) };
        let echo = SimPacket { to: 0, header: 20, body: Body::Echo(echo) };
        let long_header = SimPacket { header: 300, ..packet(1448, 1448) };
        for packet in [packet(0, 0), packet(4000, 1448), packet(2896, 1448), with_blocks, echo, long_header] {
            let compact = CompactPacket::from(packet.clone());
            assert_eq!(compact.segments(), packet.segments());
            assert_eq!(compact.segment_bytes(), packet.segment_bytes());
            assert_eq!(compact.last_segment_bytes(), packet.last_segment_bytes());
            assert_eq!(compact.shape(), packet.shape());
            assert_eq!((compact.ecn(), compact.flow_hash()), (packet.ecn(), packet.flow_hash()));
            assert_eq!(format!("{:?}", SimPacket::from(compact)), format!("{packet:?}"));
        }
    }

    #[test]
    fn splits_as_its_packet() {
        let (mut compact, mut whole) = (CompactPacket::from(packet(4000, 1448)), packet(4000, 1448));
        let (others, expected) = (compact.split_off(1), whole.split_off(1));
        assert_eq!(format!("{:?}", SimPacket::from(others)), format!("{expected:?}"));
        assert_eq!(format!("{:?}", SimPacket::from(compact)), format!("{whole:?}"));
    }
}
