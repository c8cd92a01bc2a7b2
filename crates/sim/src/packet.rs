//! The packets that cross the simulated network: TCP segments, UDP datagrams, XCP packets and their
//! acknowledgements, ICMP echoes, address resolution, and ICMP "packet too big".

use net::{
    Destination, Ecn, Packet, PipeId, RoutablePacket, Router, RouterAction, RouterArrival, XcpHeader,
    XcpPacket,
};
use tcp::{Segment, ecn};
use units::Instant;

use crate::fragments::Fragments;

/// A packet or super-packet. The network stores it in a more compact form (`compact_packet.rs`).
#[derive(Debug, Clone)]
pub(crate) struct SimPacket {
    /// The endpoint that it is for: 2 x the flow's index for the flow's sender, one more for its receiver.
    pub(crate) to: u32,
    /// IP bytes of each segment without its payload.
    pub(crate) header: u32,
    pub(crate) body: Body,
}

/// A packet's content.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Tcp(Segment),
    Datagram(Datagram),
    Bulk(BulkDatagram),
    Xcp(XcpData),
    XcpAck(XcpAck),
    Echo(Echo),
    Neighbour(NeighbourMessage),
    TooBig(TooBig),
    /// Not a packet: a note to the simulator that a router dropped one.
    Dropped(DroppedPacket),
}

/// A UDP datagram, in fragments if it is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) number: u64,
    pub(crate) sent: Instant,
    pub(crate) payload: u32,
    pub(crate) fragments: Fragments,
}

/// A UDP datagram of a udt or tsunami flow, in fragments if it is large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BulkDatagram {
    pub(crate) number: u64,
    /// Its payload.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) fragments: Fragments,
}

/// An XCP packet of data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct XcpData {
    pub(crate) header: XcpHeader,
    /// Counts transmissions, retransmissions included.
    pub(crate) number: u64,
    /// Index of its part of the data, in full packets.
    pub(crate) part: u32,
    pub(crate) payload: u32,
}

/// The acknowledgement of one XCP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct XcpAck {
    pub(crate) number: u64,
    pub(crate) feedback_bytes: f64,
}

/// ICMP echo request or reply (RFC 792), in fragments if it is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) sequence: u32,
    pub(crate) is_reply: bool,
    pub(crate) fragments: Fragments,
}

/// Address resolution (RFC 826, RFC 4861) between two stations of one link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeighbourMessage {
    /// The station that resolves an address.
    pub(crate) requester: u32,
    /// The station that has the address.
    pub(crate) target: u32,
    pub(crate) is_reply: bool,
}

/// A packet that a router dropped because it exceeds the MTU of the next link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DroppedPacket {
    /// The direction of that link.
    pub(crate) pipe: PipeId,
    pub(crate) router: u32,
    /// First sequence number, if it was a TCP segment.
    pub(crate) seq: u32,
    /// IP bytes of one of its segments.
    pub(crate) bytes: u32,
}

/// A router's ICMP "fragmentation needed" or "packet too big" to the sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// The endpoint that the dropped packet was for, see [`SimPacket::to`].
    pub(crate) number: u32,
    /// The dropped packet's first sequence number, if it was a TCP segment.
    pub(crate) seq: u32,
    /// The MTU of the link that it exceeds.
    pub(crate) mtu: u32,
}

impl SimPacket {
    /// Number of packets, and IP bytes of the first and of the last, of all but TCP segments. Not inlined, so
    /// that the code for each TCP segment stays small.
    #[cold]
    #[inline(never)]
    fn other_shape(&self) -> (u32, u32, u32) {
        let of = |fragments: &Fragments| {
            let header = fragments.header_bytes(self.header);
            (u32::from(fragments.count), header + fragments.first_bytes(), header + fragments.last_bytes)
        };
        match &self.body {
            Body::Echo(echo) => of(&echo.fragments),
            Body::Datagram(datagram) => of(&datagram.fragments),
            Body::Bulk(datagram) => of(&datagram.fragments),
            Body::Xcp(data) => (1, self.header + data.payload, self.header + data.payload),
            Body::Tcp(_) | Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_) | Body::XcpAck(_) => {
                (1, self.header, self.header)
            }
        }
    }
}

impl SimPacket {
    /// Fragments it for a link with this MTU, as a router does; `None` if routers may not fragment it.
    #[cold]
    fn fragmented(&self, mtu: u32) -> Option<Vec<SimPacket>> {
        let fragments = match &self.body {
            Body::Echo(echo) => &echo.fragments,
            Body::Datagram(datagram) => &datagram.fragments,
            Body::Bulk(datagram) => &datagram.fragments,
            _ => return None,
        };
        // Routers of IPv6 never fragment (RFC 8200 section 5).
        if self.header != 20 || fragments.dont_fragment {
            return None;
        }
        let part = |fragments: Fragments| {
            let body = match &self.body {
                Body::Echo(echo) => Body::Echo(Echo { fragments, ..*echo }),
                Body::Datagram(datagram) => Body::Datagram(Datagram { fragments, ..*datagram }),
                Body::Bulk(datagram) => Body::Bulk(BulkDatagram { fragments, ..datagram.clone() }),
                other => other.clone(),
            };
            SimPacket { body, ..*self }
        };
        Some(fragments.refragment(mtu, self.header).into_iter().map(part).collect())
    }
}

impl Packet for SimPacket {
    #[inline]
    fn segments(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => segment.segs(),
            _ => self.other_shape().0,
        }
    }

    #[inline]
    fn segment_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => self.header + segment.segment_len(0),
            _ => self.other_shape().1,
        }
    }

    #[inline]
    fn last_segment_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => self.header + segment.segment_len(segment.segs() - 1),
            _ => self.other_shape().2,
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let body = match &mut self.body {
            Body::Tcp(segment) => Body::Tcp(segment.split_off(at)),
            Body::Echo(echo) => Body::Echo(Echo { fragments: echo.fragments.split_off(at), ..*echo }),
            Body::Datagram(datagram) => {
                Body::Datagram(Datagram { fragments: datagram.fragments.split_off(at), ..*datagram })
            }
            Body::Bulk(datagram) => {
                let fragments = datagram.fragments.split_off(at);
                Body::Bulk(BulkDatagram { fragments, ..datagram.clone() })
            }
            // These have one segment.
            Body::Neighbour(_) | Body::TooBig(_) | Body::Dropped(_) | Body::Xcp(_) | Body::XcpAck(_) => {
                self.body.clone()
            }
        };
        SimPacket { body, ..*self }
    }

    fn ecn(&self) -> Ecn {
        match &self.body {
            Body::Tcp(segment) => ecn_codepoint(segment.ecn),
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

    /// Flips a bit. The receiver's checksum detects it and the packet is discarded silently: no endpoint has
    /// this number.
    fn corrupt(&mut self, _random: u64) {
        self.to = u32::MAX;
    }
}

impl XcpPacket for SimPacket {
    fn xcp_header(&mut self) -> Option<&mut XcpHeader> {
        match &mut self.body {
            Body::Xcp(data) => Some(&mut data.header),
            _ => None,
        }
    }
}

impl RoutablePacket for SimPacket {
    fn process_at_router(
        mut self,
        router: &Router,
        arrival: RouterArrival,
        out: &mut Vec<RouterAction<Self>>,
    ) {
        let Destination::Station(to) = arrival.to else { return };
        if router.interfaces.iter().all(|i| i.station != to) {
            let Some(hop) = router.next_hop_to(to) else { return out.push(RouterAction::Drop(self)) };
            let mtu = router.interfaces.get(hop.interface as usize).and_then(|own| own.mtu);
            let send = |packet| RouterAction::Send { interface: hop.interface, to: arrival.to, packet };
            match mtu.filter(|mtu| self.segment_bytes() > *mtu).and_then(|mtu| self.fragmented(mtu)) {
                Some(parts) => out.extend(parts.into_iter().map(send)),
                None => out.push(send(self)),
            }
        } else if let Body::Neighbour(message) = &mut self.body
            && !message.is_reply
        {
            message.is_reply = true;
            let to = Destination::Station(message.requester);
            out.push(RouterAction::Send { interface: arrival.interface, to, packet: self });
        }
    }
}

/// The ECN field of a segment in the network's terms.
pub(crate) fn ecn_codepoint(field: u8) -> Ecn {
    match field {
        ecn::ECT0 => Ecn::Ect0,
        ecn::ECT1 => Ecn::Ect1,
        ecn::CE => Ecn::CongestionExperienced,
        _ => Ecn::NotCapable,
    }
}

/// Fibonacci hashing: spreads consecutive numbers.
pub(crate) fn flow_hash(to: u32) -> u32 {
    to.wrapping_mul(0x9e37_79b9)
}

#[cfg(test)]
mod tests {
    use tcp::{Flags, SackBlocks};

    use super::*;

    #[test]
    fn a_packet_takes_at_most_64_bytes_and_counts_its_headers_in_each_segment() {
        assert!(size_of::<SimPacket>() <= 64, "{}", size_of::<SimPacket>());
        let segment = Segment { seq: 7, len: 4_000, mss: 1448, flags: Flags::ACK, ..Segment::default() };
        let mut packet = SimPacket { to: 1, header: 52, body: Body::Tcp(segment) };
        assert_eq!((packet.segments(), packet.segment_bytes(), packet.last_segment_bytes()), (3, 1500, 1156));
        let others = packet.split_off(1);
        assert_eq!((packet.segments(), packet.last_segment_bytes()), (1, 1500));
        assert_eq!((others.segments(), others.segment_bytes(), others.last_segment_bytes()), (2, 1500, 1156));
        let Body::Tcp(segment) = &others.body else { panic!() };
        assert_eq!(segment.seq, 1455);
        let _ = SackBlocks::default();
    }

    #[test]
    fn splitting_a_fragmented_echo_conserves_bytes() {
        let echo = Echo { sequence: 1, is_reply: false, fragments: Fragments::new(3008, 1500, 20) };
        let mut packet = SimPacket { to: 0, header: 20, body: Body::Echo(echo) };
        let others = packet.split_off(2);
        assert_eq!((packet.segments(), packet.last_segment_bytes()), (2, 1500));
        assert_eq!((others.segments(), others.segment_bytes(), others.last_segment_bytes()), (1, 68, 68));
    }
}
