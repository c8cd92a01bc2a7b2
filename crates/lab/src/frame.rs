//! An Ethernet frame or a GSO super-frame as it crosses between kernels, after its virtio-net header.
//!
//! A super-frame crosses the network unsplit. If some of its segments are dropped, it is split, and the
//! headers of each part are rewritten: IP length, identification and checksum, TCP sequence number, UDP
//! length, and the sum over the pseudo-header, which the receiving kernel completes if it needs the checksum
//! (parts stay marked as needing one). FIN and PSH stay on the last part, CWR on the first. Formats: virtio
//! 1.2 section 5.1.6; `frame_layers.rs` for the headers.
//!
//! Frames are untrusted input, because hosts can send anything: a frame that does not parse as a super-frame
//! counts as one segment.

use net::{
    Destination, Ecn, NextHop, Packet, RoutablePacket, Router, RouterAction, RouterArrival, XcpPacket,
    ip::{
        self, EthernetPacket,
        checksum::finish,
        ethernet::{ETHERNET_HEADER, Mac, destination, station_mac},
    },
};

use crate::frame_layers::{self as headers, PartPosition, TCP, UDP, layers};

/// Length of the virtio-net header before each frame, bytes.
pub(crate) const VNET_HEADER: usize = 10;
/// Size of a buffer for any frame: the largest super-packet, an Ethernet header, and some spare bytes.
pub(crate) const FRAME_BYTES: usize = VNET_HEADER + 65_536 + 64;
const VNET_NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// The Ethernet address of station `index`.
pub(crate) fn mac(index: usize) -> Mac {
    station_mac(index as u32)
}

/// A frame in its buffer.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The virtio-net header and the frame, and unused bytes.
    buffer: Vec<u8>,
    /// Number of bytes used.
    len: usize,
    /// Length of the headers up to the payload of TCP or UDP; 0 if it is not a super-frame.
    headers: usize,
    /// Payload bytes of each segment but the last; 0 if it is not a super-frame.
    segment: usize,
    segments: u32,
}

impl Frame {
    /// Parses the first `len` bytes of `buffer`, as read from a port. Returns the buffer if they are too
    /// short for a frame.
    pub(crate) fn new(buffer: Vec<u8>, len: usize) -> Result<Self, Vec<u8>> {
        if len < VNET_HEADER + ETHERNET_HEADER || len > buffer.len() {
            return Err(buffer);
        }
        let mut frame = Frame { buffer, len, headers: 0, segment: 0, segments: 1 };
        frame.find_segments();
        Ok(frame)
    }

    /// The bytes to write to a port.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Returns the buffer, for another frame.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The destination of the frame, in a network of `stations` stations.
    pub(crate) fn destination(&self, stations: u32) -> Destination {
        let mut to: Mac = [0; 6];
        to.copy_from_slice(&self.frame()[..6]);
        destination(to, stations)
    }

    /// Each segment as it would be on the wire: a separate Ethernet frame without virtio header, with correct
    /// checksums.
    pub(crate) fn wire_segments(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.segments).map(|i| {
            let mut single = self.part(i, i + 1);
            single.finish_checksum();
            single.buffer.truncate(single.len);
            single.buffer.drain(..VNET_HEADER);
            single.buffer
        })
    }

    fn find_segments(&mut self) {
        let kind = self.buffer[1] & !GSO_ECN;
        let segment = usize::from(u16::from_ne_bytes([self.buffer[4], self.buffer[5]]));
        if kind == GSO_NONE || segment == 0 {
            return;
        }
        let Some(layers) = layers(self.frame()) else { return };
        let fits = match kind {
            GSO_TCPV4 => layers.ipv4 && layers.protocol == TCP,
            GSO_TCPV6 => !layers.ipv4 && layers.protocol == TCP,
            GSO_UDP_L4 => layers.protocol == UDP,
            _ => false,
        };
        let payload = self.frame().len() - layers.payload;
        if fits && payload > segment {
            self.headers = layers.payload;
            self.segment = segment;
            self.segments = payload.div_ceil(segment) as u32;
        }
    }

    /// A copy of the segments from `from` to before `to`.
    fn part(&self, from: u32, to: u32) -> Self {
        let prefix = VNET_HEADER + self.headers;
        let at = |segment: u32| match segment {
            s if s == self.segments => self.len,
            s => prefix + s as usize * self.segment,
        };
        if to - from == self.segments {
            return Frame { buffer: self.bytes().to_vec(), ..*self };
        }
        let mut buffer = Vec::with_capacity(prefix + at(to) - at(from));
        buffer.extend_from_slice(&self.buffer[..prefix]);
        buffer.extend_from_slice(&self.buffer[at(from)..at(to)]);
        let mut part = Frame { len: buffer.len(), buffer, ..*self };
        part.finish_part(PartPosition { before: from, after: self.segments - to });
        part
    }

    /// Rewrites the headers of what has become a part of a super-frame.
    fn finish_part(&mut self, position: PartPosition) {
        let payload = self.len - VNET_HEADER - self.headers;
        self.segments = payload.div_ceil(self.segment) as u32;
        let (virtio, frame) = self.buffer[..self.len].split_at_mut(VNET_HEADER);
        if self.segments == 1 {
            virtio[1] = GSO_NONE;
            virtio[4..6].fill(0);
        }
        if let Some(layers) = layers(frame) {
            headers::rewrite(frame, &layers, position, self.segment);
            // A super-frame's checksum is always partial, whatever its flag states; virtio requires the flag.
            virtio[0] = VNET_NEEDS_CSUM;
            virtio[6..8].copy_from_slice(&(layers.transport as u16).to_ne_bytes());
            virtio[8..10].copy_from_slice(&(layers.checksum_offset() as u16).to_ne_bytes());
            headers::write_pseudo_header_sum(frame, &layers);
        }
        if self.segments == 1 {
            self.headers = 0;
            self.segment = 0;
        }
    }

    /// Completes the checksum of a single frame if its kernel offloaded it.
    fn finish_checksum(&mut self) {
        let (virtio, frame) = self.buffer[..self.len].split_at_mut(VNET_HEADER);
        if virtio[0] & VNET_NEEDS_CSUM != 0 {
            let field = |at: usize| usize::from(u16::from_ne_bytes([virtio[at], virtio[at + 1]]));
            finish(frame, field(6), field(8));
        }
        virtio.fill(0);
    }
}

impl Packet for Frame {
    fn segments(&self) -> u32 {
        self.segments
    }

    fn segment_bytes(&self) -> u32 {
        match self.segments {
            1 => self.last_segment_bytes(),
            _ => (self.headers - ETHERNET_HEADER + self.segment) as u32,
        }
    }

    fn last_segment_bytes(&self) -> u32 {
        let before = (self.segments as usize - 1) * self.segment;
        (self.len - VNET_HEADER - ETHERNET_HEADER - before) as u32
    }

    fn split_off(&mut self, at: u32) -> Self {
        let rest = self.part(at, self.segments);
        let after = self.segments - at;
        self.len = VNET_HEADER + self.headers + at as usize * self.segment;
        self.finish_part(PartPosition { before: 0, after });
        rest
    }

    fn ecn(&self) -> Ecn {
        headers::ecn(self.frame())
    }

    fn mark_ce(&mut self) {
        headers::mark_ce(self.frame_mut());
    }

    fn flow_hash(&self) -> u32 {
        headers::flow_hash(self.frame())
    }

    /// Flips one bit; the checksum stays that of the original frame, so the receiver detects the corruption.
    fn corrupt(&mut self, random: u64) {
        self.finish_checksum();
        let packet = &mut self.frame_mut()[ETHERNET_HEADER..];
        if let Some(bits) = (packet.len() as u64 * 8).checked_sub(1) {
            let bit = random % (bits + 1);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

impl RoutablePacket for Frame {
    fn process_at_router(self, router: &Router, arrival: RouterArrival, out: &mut Vec<RouterAction<Self>>) {
        ip::process_at_router(self, router, arrival, out);
    }

    fn next_hop_at(&self, router: &Router, _to: Destination) -> Option<NextHop> {
        ip::next_hop_at(self, router)
    }
}

impl XcpPacket for Frame {}

impl EthernetPacket for Frame {
    fn frame(&self) -> &[u8] {
        &self.buffer[VNET_HEADER..self.len]
    }

    fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[VNET_HEADER..self.len]
    }

    fn finished(&self) -> impl Iterator<Item = Vec<u8>> {
        self.wire_segments()
    }

    fn from_frame(frame: Vec<u8>) -> Self {
        let mut buffer = vec![0; VNET_HEADER];
        buffer.extend(frame);
        Frame { len: buffer.len(), buffer, headers: 0, segment: 0, segments: 1 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use etherparse::{NetHeaders, NetSlice, PacketBuilder, PacketHeaders, SlicedPacket, TransportSlice};
    use net::ip::checksum::{fold, pseudo_header_sum, sum_words};
    use proptest::prelude::*;

    use super::*;
    use crate::frame_layers::{TCP_CWR, TCP_FIN, TCP_PSH};

    /// A TCP super-frame over IPv4 as a host emits it: `payload` bytes counting up, `segment` each.
    pub(crate) fn tcp_v4(payload: usize, segment: u16, flags: u8) -> Frame {
        let mut bytes = vec![VNET_NEEDS_CSUM, GSO_TCPV4, 66, 0, 0, 0, 34, 0, 16, 0];
        bytes[4..6].copy_from_slice(&segment.to_ne_bytes());
        bytes.extend(mac(1));
        bytes.extend(mac(0));
        bytes.extend([0x08, 0x00]);
        let length = (52 + payload) as u16;
        let [high, low] = length.to_be_bytes();
        bytes.extend([0x45, 0, high, low, 0xff, 0xfe, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0x80, 0, 0x14, 0x51, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend((0..payload).map(|i| i as u8));
        let frame = &mut bytes[VNET_HEADER..];
        let layers = layers(frame).unwrap();
        headers::rewrite(frame, &layers, PartPosition { before: 0, after: 0 }, usize::from(segment));
        headers::write_pseudo_header_sum(frame, &layers);
        let len = bytes.len();
        Frame::new(bytes, len).ok().unwrap()
    }

    /// Segments of a TCP frame as a NIC with TSO would send them: sequence number, flags and payload. Checks
    /// lengths and checksums on the way.
    fn finished(frame: &Frame) -> Vec<(u32, u8, Vec<u8>)> {
        let bytes = frame.frame();
        let layers = layers(bytes).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([bytes[16], bytes[17]])), bytes.len() - 14);
        assert_eq!(fold(sum_words(&bytes[14..34])), 0xffff, "IPv4 header checksum");
        let field = u16::from_be_bytes([bytes[50], bytes[51]]);
        let pseudo = pseudo_header_sum(&bytes[26..34], TCP, bytes.len() - 34);
        assert_eq!(field, fold(pseudo), "pseudo-header sum");
        let sequence = u32::from_be_bytes([bytes[38], bytes[39], bytes[40], bytes[41]]);
        let payload = &bytes[layers.payload..];
        let step = if frame.segments == 1 { payload.len().max(1) } else { frame.segment };
        payload
            .chunks(step)
            .enumerate()
            .map(|(i, part)| (sequence.wrapping_add((i * step) as u32), bytes[47], part.to_vec()))
            .collect()
    }

    proptest! {
        /// Splitting a frame any number of times, at any positions, keeps each byte's sequence number.
        #[test]
        fn parts_carry_the_same_bytes_at_the_same_sequence_numbers(
            payload in 1449usize..60_000, segment in 500u16..9000, cuts in proptest::collection::vec(any::<u32>(), 1..6),
        ) {
            let whole = tcp_v4(payload, segment, 0x18);
            let expected: Vec<_> = finished(&whole).into_iter().map(|(s, _, p)| (s, p)).collect();
            let mut parts = vec![whole];
            for cut in cuts {
                let index = cut as usize % parts.len();
                let segments = parts[index].segments();
                if segments > 1 {
                    let rest = parts[index].split_off(1 + cut % (segments - 1));
                    parts.insert(index + 1, rest);
                }
            }
            let total: u32 = parts.iter().map(Packet::segments).sum();
            prop_assert_eq!(total as usize, payload.div_ceil(usize::from(segment)));
            for part in &parts {
                // Parsing the bytes of a part again gives the same sizes.
                let again = Frame::new(part.bytes().to_vec(), part.len).ok().unwrap();
                prop_assert_eq!(again.segments(), part.segments());
                prop_assert_eq!(again.last_segment_bytes(), part.last_segment_bytes());
            }
            let got: Vec<_> = parts.iter().flat_map(finished).map(|(s, _, p)| (s, p)).collect();
            prop_assert_eq!(got, expected);
        }

        /// Arbitrary bytes do not cause a panic, and splitting keeps the number of segments.
        #[test]
        fn arbitrary_frames_cause_no_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..6, version in 0usize..2,
        ) {
            if bytes.len() > 23 {
                bytes[1] = kind;
                bytes[22..24].copy_from_slice(&[[0x08, 0x00], [0x86, 0xdd]][version]);
            }
            let len = bytes.len();
            if let Ok(mut frame) = Frame::new(bytes, len) {
                let segments = frame.segments();
                frame.destination(2);
                prop_assert!(frame.segment_bytes() <= 400);
                prop_assert_eq!(frame.wire_segments().count(), segments as usize);
                frame.flow_hash();
                frame.clone().mark_ce();
                if segments == 1 {
                    frame.clone().corrupt(u64::MAX);
                }
                if segments > 1 {
                    let rest = frame.split_off(segments / 2);
                    prop_assert_eq!(frame.segments() + rest.segments(), segments);
                }
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_packets_on_the_wire() {
        let frame = tcp_v4(3 * 1448 + 100, 1448, 0x10);
        assert_eq!((frame.segments(), frame.segment_bytes(), frame.last_segment_bytes()), (4, 1500, 152));
        let single = tcp_v4(1000, 1448, 0x10);
        assert_eq!((single.segments(), single.segment_bytes(), single.last_segment_bytes()), (1, 1052, 1052));
    }

    #[test]
    fn flags_are_kept_on_the_correct_part() {
        let mut first = tcp_v4(5000, 1000, TCP_FIN | TCP_PSH | TCP_CWR | 0x10);
        let mut middle = first.split_off(1);
        let last = middle.split_off(2);
        let flags = |f: &Frame| f.frame()[47];
        assert_eq!(flags(&first), TCP_CWR | 0x10);
        assert_eq!(flags(&middle), 0x10);
        assert_eq!(flags(&last), TCP_FIN | TCP_PSH | 0x10);
        let id = |f: &Frame| u16::from_be_bytes([f.frame()[18], f.frame()[19]]);
        assert_eq!((id(&first), id(&middle), id(&last)), (0xfffe, 0xffff, 1));
        assert_eq!(
            (first.buffer[1], &first.buffer[4..6]),
            (GSO_NONE, &[0, 0][..]),
            "a single segment has GSO_NONE"
        );
    }

    /// Sequence number and payload of a TCP frame, after checking its lengths and checksums with etherparse.
    pub(crate) fn read_tcp(frame: &[u8]) -> (u32, Vec<u8>) {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4") };
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(usize::from(header.total_len), frame.len() - ETHERNET_HEADER);
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("no TCP") };
        let sum = tcp.calc_checksum_ipv4(header.source, header.destination).unwrap();
        assert_eq!(tcp.checksum(), sum);
        (tcp.sequence_number(), tcp.payload().to_vec())
    }

    proptest! {
        /// Each segment is a complete packet with correct lengths and checksums.
        #[test]
        fn wire_segments_are_those_a_network_card_would_send(payload in 1usize..60_000, segment in 500u16..9000) {
            let frame = tcp_v4(payload, segment, 0x18);
            let before = frame.bytes().to_vec();
            let (mut sequence, mut bytes) = (0xffff_ff00_u32, Vec::new());
            for single in frame.wire_segments() {
                let (number, part) = read_tcp(&single);
                prop_assert_eq!(number, sequence);
                prop_assert!(part.len() <= usize::from(segment));
                sequence = sequence.wrapping_add(part.len() as u32);
                bytes.extend(part);
            }
            prop_assert_eq!(bytes, (0..payload).map(|i| i as u8).collect::<Vec<_>>());
            prop_assert_eq!(frame.bytes(), before);
        }

        /// The bit is after the Ethernet header, and the checksum is that of the original bits.
        #[test]
        fn corruption_flips_one_bit_of_the_frame_on_the_wire(payload in 1usize..1448, random in any::<u64>()) {
            let mut frame = tcp_v4(payload, 1448, 0x10);
            let wire: Vec<u8> = frame.wire_segments().next().unwrap();
            frame.corrupt(random);
            let flipped: u32 = wire.iter().zip(frame.frame()).map(|(a, b)| (a ^ b).count_ones()).sum();
            prop_assert_eq!((flipped, frame.frame().len()), (1, wire.len()));
            prop_assert_eq!(&frame.frame()[..ETHERNET_HEADER], &wire[..ETHERNET_HEADER]);
            prop_assert_eq!(&frame.bytes()[..VNET_HEADER], &[0; VNET_HEADER]);
        }
    }

    /// The kinds of super-frames other than TCP over IPv4.
    #[test]
    fn all_kinds_of_super_frames_are_segmented() {
        let payload: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
        for (kind, ipv6) in [(GSO_UDP_L4, false), (GSO_UDP_L4, true), (GSO_TCPV6, true)] {
            let ethernet = PacketBuilder::ethernet2(mac(0), mac(1));
            let ip = match ipv6 {
                true => ethernet.ipv6([0xfd; 16], [0xfc; 16], 64),
                false => ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
            };
            let mut bytes = vec![VNET_NEEDS_CSUM, kind, 0, 0, 0xe8, 3, 0, 0, 0, 0];
            match kind {
                GSO_UDP_L4 => ip.udp(1, 2).write(&mut bytes, &payload).unwrap(),
                _ => ip.tcp(1, 2, 7, 1000).write(&mut bytes, &payload).unwrap(),
            }
            let len = bytes.len();
            let frame = Frame::new(bytes, len).ok().unwrap();
            let mut carried = Vec::new();
            for single in frame.wire_segments() {
                let parsed = PacketHeaders::from_ethernet_slice(&single).unwrap();
                let mut sums = parsed.clone();
                let transport = sums.transport.as_mut().unwrap();
                let bytes = parsed.payload.slice();
                match parsed.net.as_ref().unwrap() {
                    NetHeaders::Ipv4(header, _) => transport.update_checksum_ipv4(header, bytes).unwrap(),
                    NetHeaders::Ipv6(header, _) => transport.update_checksum_ipv6(header, bytes).unwrap(),
                    NetHeaders::Arp(_) => panic!("ARP is not IP"),
                }
                assert_eq!(sums.transport, parsed.transport, "checksum as computed by etherparse");
                carried.extend(bytes.to_vec());
            }
            assert_eq!((frame.segments(), &carried), (3, &payload), "kind {kind}");
        }
    }

    #[test]
    fn ce_is_set_in_every_segment() {
        let mut frame = tcp_v4(3000, 1000, 0x10);
        assert_eq!(frame.ecn(), Ecn::NotCapable);
        for (bits, ecn) in [(1, Ecn::Ect1), (2, Ecn::Ect0)] {
            frame.buffer[VNET_HEADER + 15] = 0xb8 | bits;
            frame.buffer[VNET_HEADER + 24..VNET_HEADER + 26].fill(0);
            let sum = !fold(sum_words(&frame.frame()[14..34]));
            frame.buffer[VNET_HEADER + 24..VNET_HEADER + 26].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(frame.ecn(), ecn);
            let mut marked = frame.clone();
            marked.mark_ce();
            assert_eq!(marked.ecn(), Ecn::CongestionExperienced);
            for single in marked.wire_segments() {
                read_tcp(&single);
                assert_eq!(single[15], 0xbb);
            }
        }
        let mut v6 = Frame::from_frame([&[0; 12][..], &[0x86, 0xdd, 0x6b, 0xa1, 2, 3], &[0; 36]].concat());
        assert_eq!(v6.ecn(), Ecn::Ect0);
        v6.mark_ce();
        assert_eq!((v6.ecn(), &v6.frame()[14..18]), (Ecn::CongestionExperienced, &[0x6b, 0xb1, 2, 3][..]));
    }

    #[test]
    fn the_flow_hash_is_the_same_for_parts_and_evenly_distributed() {
        let mut first = tcp_v4(3000, 1000, 0x10);
        let hash = first.flow_hash();
        let rest = first.split_off(2);
        assert_eq!((first.flow_hash(), rest.flow_hash()), (hash, hash));
        let mut low = [0; 16];
        let mut high = [0; 16];
        for port in 0..1600u16 {
            first.buffer[VNET_HEADER + 34..VNET_HEADER + 36].copy_from_slice(&port.to_be_bytes());
            low[(first.flow_hash() & 15) as usize] += 1;
            high[(first.flow_hash() >> 28) as usize] += 1;
        }
        // 100 expected in each, with a standard deviation of 10.
        assert!(low.iter().chain(&high).all(|n| (60..140).contains(n)), "{low:?} {high:?}");
        // Fragments are hashed by address only: all but the first have no ports.
        first.buffer[VNET_HEADER + 20] = 0x20;
        let fragment = first.flow_hash();
        first.buffer[VNET_HEADER + 34] ^= 1;
        assert_eq!(first.flow_hash(), fragment);
    }

    #[test]
    fn a_destination_is_a_station_or_all_stations() {
        let mut frame = tcp_v4(100, 1448, 0x10);
        assert_eq!(frame.destination(2), Destination::Station(1));
        assert_eq!(frame.destination(1), Destination::All);
        frame.buffer[VNET_HEADER..VNET_HEADER + 6].fill(0xff);
        assert_eq!(frame.destination(2), Destination::All);
    }
}
