//! A packet as the network keeps it: half as large as it was, for there are as many of them as a window has.
//!
//! A TCP segment without SACK blocks and SYN options lies in 32 bytes; everything else is on the heap. Which of both it is
//! shows in four bytes that no receiver's number is: with one byte for it, parcels would be moved in odd pieces, for which
//! processors wait.

use std::num::NonZeroU32;

use net::{Arrival, Ecn, Emission, Packet, Router, Shape, XcpHeader};
use tcp::{Flags, Segment};

use crate::packet::{Body, Neighbour, SimPacket, codepoint};
use crate::path_mtu::{Dropped, TooBig};

/// A packet on its way.
#[derive(Debug, Clone)]
pub(crate) enum Parcel {
    /// See [`SimPacket`] and [`Segment`].
    Plain {
        to: Number,
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
        /// Without it a byte would be left, and would be taken to tell which of both it is.
        _full: u8,
    },
    Boxed(Box<SimPacket>),
}

/// What is for hosts and not for flows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Control {
    Neighbour(Neighbour),
    TooBig(TooBig),
    /// With the number that the packet was for.
    Dropped(u32, Dropped),
}

/// Any number but [`Number::NONE`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(NonZeroU32);

impl Number {
    /// So many flows there are not.
    const NONE: u32 = 1 << 31;

    #[inline]
    fn new(number: u32) -> Option<Number> {
        NonZeroU32::new(number ^ Number::NONE).map(Number)
    }

    #[inline]
    fn get(self) -> u32 {
        self.0.get() ^ Number::NONE
    }
}

impl Parcel {
    /// A segment for number `to`, with so many bytes of headers in each of its segments.
    pub(crate) fn of_segment(to: u32, header: u32, segment: Segment) -> Parcel {
        Parcel::plain(to, header, &segment)
            .unwrap_or_else(|| Parcel::Boxed(Box::new(SimPacket { to, header, body: Body::Tcp(segment) })))
    }

    /// The same where it is not to lie on the heap.
    #[inline]
    pub(crate) fn plain(to: u32, header: u32, segment: &Segment) -> Option<Parcel> {
        let (header, to) = (u8::try_from(header).ok()?, Number::new(to)?);
        if segment.sack.is_some() || segment.syn.is_some() {
            return None;
        }
        let &Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, .. } = segment;
        Some(Parcel::Plain { to, header, ecn, flags, seq, ack, len, tsval, tsecr, mss, window, _full: 0 })
    }

    /// Who it is for.
    #[inline]
    pub(crate) fn to(&self) -> u32 {
        match self {
            Parcel::Plain { to, .. } => to.get(),
            Parcel::Boxed(packet) => packet.to,
        }
    }

    /// Who it is for and bytes of payload, if it is TCP's.
    #[inline]
    pub(crate) fn tcp_payload(&self) -> Option<(u32, u32)> {
        match self {
            Parcel::Plain { to, len, .. } => Some((to.get(), *len)),
            Parcel::Boxed(packet) => match &packet.body {
                Body::Tcp(segment) => Some((packet.to, segment.len)),
                _ => None,
            },
        }
    }

    /// It is for a connection.
    #[inline]
    pub(crate) fn is_tcp(&self) -> bool {
        match self {
            Parcel::Plain { .. } => true,
            Parcel::Boxed(packet) => matches!(packet.body, Body::Tcp(_)),
        }
    }

    /// What it says, if it is not for a flow but for the host.
    #[inline]
    pub(crate) fn control(&self) -> Option<Control> {
        match self {
            Parcel::Boxed(packet) => match packet.body {
                Body::Neighbour(word) => Some(Control::Neighbour(word)),
                Body::TooBig(report) => Some(Control::TooBig(report)),
                Body::Dropped(dropped) => Some(Control::Dropped(packet.to, dropped)),
                _ => None,
            },
            Parcel::Plain { .. } => None,
        }
    }

    /// The first sequence number, if it is TCP's.
    pub(crate) fn seq(&self) -> u32 {
        match self {
            Parcel::Plain { seq, .. } => *seq,
            Parcel::Boxed(packet) => match &packet.body {
                Body::Tcp(segment) => segment.seq,
                _ => 0,
            },
        }
    }

    /// Whether a router may report that it is too large: no reports about reports (RFC 1812 section 4.3.2.7).
    pub(crate) fn may_be_reported(&self) -> bool {
        match self {
            Parcel::Plain { .. } => true,
            Parcel::Boxed(packet) => {
                !matches!(packet.body, Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_))
            }
        }
    }
}

impl From<SimPacket> for Parcel {
    #[inline]
    fn from(packet: SimPacket) -> Self {
        match packet.body {
            Body::Tcp(segment) => Parcel::of_segment(packet.to, packet.header, segment),
            _ => Parcel::Boxed(Box::new(packet)),
        }
    }
}

impl TryFrom<Parcel> for Segment {
    type Error = ();

    /// The segment, if it is TCP's.
    #[inline]
    fn try_from(parcel: Parcel) -> Result<Self, ()> {
        match parcel {
            Parcel::Plain { ecn, flags, seq, ack, len, tsval, tsecr, mss, window, .. } => {
                let (sack, syn) = (None, None);
                Ok(Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, sack, syn })
            }
            Parcel::Boxed(packet) => match packet.body {
                Body::Tcp(segment) => Ok(segment),
                _ => Err(()),
            },
        }
    }
}

impl From<Parcel> for SimPacket {
    #[inline]
    fn from(parcel: Parcel) -> Self {
        match parcel {
            Parcel::Plain { to, header, ecn, flags, seq, ack, len, tsval, tsecr, mss, window, .. } => {
                let (sack, syn) = (None, None);
                let segment = Segment { seq, ack, len, tsval, tsecr, mss, window, flags, ecn, sack, syn };
                SimPacket { to: to.get(), header: u32::from(header), body: Body::Tcp(segment) }
            }
            Parcel::Boxed(packet) => *packet,
        }
    }
}

impl Packet for Parcel {
    #[inline(always)]
    fn shape(&self) -> Shape {
        match self {
            Parcel::Plain { header, len, mss, .. } if *len <= u32::from(*mss) || *mss == 0 => {
                let bytes = u32::from(*header) + len;
                Shape { segments: 1, segment_bytes: bytes, last_segment_bytes: bytes }
            }
            Parcel::Plain { header, len, mss, .. } => {
                let (header, mss) = (u32::from(*header), u32::from(*mss));
                let segments = len.div_ceil(mss);
                let last_segment_bytes = header + len - (segments - 1) * mss;
                Shape { segments, segment_bytes: header + mss, last_segment_bytes }
            }
            Parcel::Boxed(packet) => packet.shape(),
        }
    }

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
            Parcel::Plain { to, .. } => crate::packet::flow_hash(to.get()),
            Parcel::Boxed(packet) => packet.flow_hash(),
        }
    }

    fn corrupt(&mut self, random: u64) {
        match self {
            Parcel::Plain { to, .. } => *to = Number::new(u32::MAX).unwrap_or(*to),
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
            assert_eq!(parcel.shape(), packet.shape());
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
