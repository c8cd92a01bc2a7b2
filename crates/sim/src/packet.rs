//! What crosses the simulated network: a TCP segment, a datagram, an XCP packet or its answer, an echo, or the question
//! for a neighbour's address.

use net::{Arrival, Destination, Ecn, Emission, Packet, Router, XcpHeader};
use tcp::{Segment, ecn};

use crate::{
    fragments::Fragments,
    path_mtu::{Dropped, TooBig},
    udp::Datagram,
    xcp::{XcpAck, XcpData},
};

/// A packet or super-packet. The network keeps it as a [`crate::parcel::Parcel`].
#[derive(Debug, Clone)]
pub(crate) struct SimPacket {
    /// Who it is for: the number of a connection's end or ping, see `engine`.
    pub(crate) to: u32,
    /// IP bytes of each segment beside its payload.
    pub(crate) header: u32,
    pub(crate) body: Body,
}

/// A packet's content.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Tcp(Segment),
    Datagram(Datagram),
    Xcp(XcpData),
    XcpAck(XcpAck),
    Echo(Echo),
    Neighbour(Neighbour),
    TooBig(TooBig),
    /// No packet, but the note that one was dropped.
    Dropped(Dropped),
}

/// ICMP echo request or reply (RFC 792), in fragments where it is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) sequence: u32,
    pub(crate) reply: bool,
    pub(crate) fragments: Fragments,
}

/// Address resolution (RFC 826, RFC 4861) between two stations of one link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) asker: u32,
    pub(crate) asked: u32,
    pub(crate) reply: bool,
}

impl SimPacket {
    /// Of all but TCP segments: how many packets, and the IP bytes of the first and of the last. Apart, so that what the
    /// network asks of each segment stays small.
    #[cold]
    #[inline(never)]
    fn other(&self) -> (u32, u32, u32) {
        let of = |fragments: &Fragments| {
            let (first, last) = (fragments.first_bytes(), fragments.last_bytes);
            (u32::from(fragments.here), self.header + first, self.header + last)
        };
        match &self.body {
            Body::Echo(echo) => of(&echo.fragments),
            Body::Datagram(datagram) => of(&datagram.fragments),
            Body::Xcp(data) => (1, self.header + data.payload, self.header + data.payload),
            Body::Tcp(_) | Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_) | Body::XcpAck(_) => {
                (1, self.header, self.header)
            }
        }
    }
}

impl SimPacket {
    /// The fragments that a router makes of it for a link of this MTU, where it may.
    #[cold]
    fn cut(&self, mtu: u32) -> Option<Vec<SimPacket>> {
        let fragments = match &self.body {
            Body::Echo(echo) => &echo.fragments,
            Body::Datagram(datagram) => &datagram.fragments,
            _ => return None,
        };
        // Routers of IPv6 never fragment (RFC 8200 section 5).
        if self.header != 20 || fragments.whole_only {
            return None;
        }
        let part = |fragments: Fragments| {
            let body = match &self.body {
                Body::Echo(echo) => Body::Echo(Echo { fragments, ..*echo }),
                Body::Datagram(datagram) => Body::Datagram(Datagram { fragments, ..*datagram }),
                other => other.clone(),
            };
            SimPacket { body, ..*self }
        };
        Some(fragments.cut(mtu, self.header).into_iter().map(part).collect())
    }
}

impl Packet for SimPacket {
    #[inline]
    fn segments(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => segment.segs(),
            _ => self.other().0,
        }
    }

    #[inline]
    fn segment_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => self.header + segment.segment_len(0),
            _ => self.other().1,
        }
    }

    #[inline]
    fn last_segment_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => self.header + segment.segment_len(segment.segs() - 1),
            _ => self.other().2,
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let body = match &mut self.body {
            Body::Tcp(segment) => Body::Tcp(segment.split_off(at)),
            Body::Echo(echo) => Body::Echo(Echo { fragments: echo.fragments.split_off(at), ..*echo }),
            Body::Datagram(datagram) => {
                Body::Datagram(Datagram { fragments: datagram.fragments.split_off(at), ..*datagram })
            }
            // One segment each.
            Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_) | Body::Xcp(_) | Body::XcpAck(_) => {
                self.body.clone()
            }
        };
        SimPacket { body, ..*self }
    }

    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        match &mut self.body {
            Body::Xcp(data) => Some(&mut data.header),
            _ => None,
        }
    }

    fn ecn(&self) -> Ecn {
        match &self.body {
            Body::Tcp(segment) => codepoint(segment.ecn),
            _ => Ecn::NotCapable,
        }
    }

    fn mark_ce(&mut self) {
        if let Body::Tcp(segment) = &mut self.body {
            segment.ecn = ecn::CE;
        }
    }

    fn flow_hash(&self) -> u32 {
        flow_hash(self.to)
    }

    /// A flipped bit: the checksum finds it, and nobody is told.
    fn corrupt(&mut self, _random: u64) {
        self.to = u32::MAX;
    }

    fn at_router(mut self, router: &Router, arrival: Arrival, out: &mut Vec<Emission<Self>>) {
        let Destination::Station(to) = arrival.to else { return };
        if router.interfaces.iter().all(|i| i.station != to) {
            let Some(way) = router.toward(to) else { return out.push(Emission::Refuse(self)) };
            let mtu = router.interfaces.get(way.interface as usize).and_then(|own| own.mtu);
            let send = |packet| Emission::Send { interface: way.interface, to: arrival.to, packet };
            match mtu.filter(|mtu| self.segment_bytes() > *mtu).and_then(|mtu| self.cut(mtu)) {
                Some(parts) => out.extend(parts.into_iter().map(send)),
                None => out.push(send(self)),
            }
        } else if let Body::Neighbour(question) = &mut self.body
            && !question.reply
        {
            question.reply = true;
            let to = Destination::Station(question.asker);
            out.push(Emission::Send { interface: arrival.interface, to, packet: self });
        }
    }
}

/// The ECN field of a segment, as the network calls it.
pub(crate) fn codepoint(field: u8) -> Ecn {
    match field {
        ecn::ECT0 => Ecn::Ect0,
        ecn::ECT1 => Ecn::Ect1,
        ecn::CE => Ecn::CongestionExperienced,
        _ => Ecn::NotCapable,
    }
}

/// Fibonacci hashing: neighbours fall far apart.
pub(crate) fn flow_hash(to: u32) -> u32 {
    to.wrapping_mul(0x9e37_79b9)
}

#[cfg(test)]
mod tests {
    use tcp::{Flags, SackBlocks};

    use super::*;

    #[test]
    fn a_packet_is_small_and_counts_its_headers_in_each_segment() {
        assert!(size_of::<SimPacket>() <= 64, "{}", size_of::<SimPacket>());
        let segment = Segment { seq: 7, len: 4_000, mss: 1448, flags: Flags::ACK, ..Segment::default() };
        let mut packet = SimPacket { to: 1, header: 52, body: Body::Tcp(segment) };
        assert_eq!((packet.segments(), packet.segment_bytes(), packet.last_segment_bytes()), (3, 1500, 1156));
        let rest = packet.split_off(1);
        assert_eq!((packet.segments(), packet.last_segment_bytes()), (1, 1500));
        assert_eq!((rest.segments(), rest.segment_bytes(), rest.last_segment_bytes()), (2, 1500, 1156));
        let Body::Tcp(segment) = &rest.body else { panic!() };
        assert_eq!(segment.seq, 1455);
        let _ = SackBlocks::default();
    }

    #[test]
    fn an_echo_in_fragments_keeps_its_bytes() {
        let echo = Echo { sequence: 1, reply: false, fragments: Fragments::of(3008, 1500, 20) };
        let mut packet = SimPacket { to: 0, header: 20, body: Body::Echo(echo) };
        let rest = packet.split_off(2);
        assert_eq!((packet.segments(), packet.last_segment_bytes()), (2, 1500));
        assert_eq!((rest.segments(), rest.segment_bytes(), rest.last_segment_bytes()), (1, 68, 68));
    }
}
