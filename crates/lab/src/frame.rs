//! An Ethernet frame or a GSO super-frame as it crosses between kernels, after its virtio-net header.
//!
//! A super-frame travels whole; where some of its segments are dropped it is split, and each part gets
//! headers of its own: IP length, identification and checksum, TCP sequence number, UDP length, and
//! the pseudo-header's sum that the receiving kernel (or none: the parts stay marked as unfinished)
//! completes. FIN and PSH stay on the last part, CWR on the first. Formats: virtio 1.2 section 5.1.6,
//! RFC 791, RFC 8200, RFC 9293, RFC 768.
//!
//! Anything a host can emit comes through here, so nothing in a frame is trusted: what cannot be
//! understood as a super-frame travels as one segment.

use net::{Destination, Packet};

/// Bytes of the virtio-net header before each frame.
pub(crate) const VNET_HEADER: usize = 10;
/// Room for a frame: the largest super-packet, an Ethernet header, and some.
pub(crate) const FRAME_BYTES: usize = VNET_HEADER + 65_536 + 64;
const ETHERNET_HEADER: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const VNET_NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
/// The first four bytes of every host's address: locally administered, then "lfn".
const MAC_PREFIX: [u8; 4] = [0x02, 0x6c, 0x66, 0x6e];

/// The Ethernet address of host `index`.
pub(crate) fn mac(index: usize) -> [u8; 6] {
    let [high, low] = (index as u16).to_be_bytes();
    let [a, b, c, d] = MAC_PREFIX;
    [a, b, c, d, high, low]
}

/// A frame in its buffer.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The virtio-net header and the frame; longer than both.
    buffer: Vec<u8>,
    /// Bytes used.
    len: usize,
    /// From the frame's begin to the payload of TCP or UDP; 0 where it is not a super-frame.
    headers: usize,
    /// Payload bytes of each segment but the last; 0 where it is not a super-frame.
    segment: usize,
    segments: u32,
}

/// Where the layers of an IP packet with TCP or UDP lie, from the frame's begin.
struct Layers {
    ip: usize,
    ipv4: bool,
    protocol: u8,
    transport: usize,
    payload: usize,
}

impl Frame {
    /// Takes the first `len` bytes of `buffer`, as read from a port. `None` if too short to be a frame.
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

    /// Gives the buffer back for another frame.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Where the frame goes, among `hosts` hosts.
    pub(crate) fn destination(&self, hosts: u32) -> Destination {
        let to = &self.frame()[..6];
        let host = u32::from(u16::from_be_bytes([to[4], to[5]]));
        if to[..4] == MAC_PREFIX && host < hosts { Destination::Host(host) } else { Destination::All }
    }

    fn frame(&self) -> &[u8] {
        &self.buffer[VNET_HEADER..self.len]
    }

    /// The frame without its virtio-net header, as the kernel gave it: a super-frame is whole, checksums may be unfinished.
    pub(crate) fn ethernet(&self) -> &[u8] {
        self.frame()
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

    /// Rewrites the headers of a part of a super-frame that begins `skipped` segments into it.
    fn finish_part(&mut self, skipped: u32, is_first: bool, is_last: bool) {
        let payload = self.len - VNET_HEADER - self.headers;
        self.segments = payload.div_ceil(self.segment) as u32;
        let segment = self.segment;
        let (virtio, frame) = self.buffer[..self.len].split_at_mut(VNET_HEADER);
        if self.segments == 1 {
            virtio[1] = GSO_NONE;
            virtio[4..6].fill(0);
        }
        let needs_csum = virtio[0] & VNET_NEEDS_CSUM != 0;
        if let Some(layers) = layers(frame) {
            rewrite_ip(frame, &layers, skipped);
            match layers.protocol {
                TCP => rewrite_tcp(frame, &layers, skipped as usize * segment, is_first, is_last),
                _ => {
                    let length = (frame.len() - layers.transport) as u16;
                    frame[layers.transport + 4..layers.transport + 6].copy_from_slice(&length.to_be_bytes());
                }
            }
            if needs_csum {
                let at = layers.transport + if layers.protocol == TCP { 16 } else { 6 };
                let sum = pseudo_header_sum(frame, &layers);
                frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
        }
        if self.segments == 1 {
            self.headers = 0;
            self.segment = 0;
        }
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
        let cut = VNET_HEADER + self.headers + at as usize * self.segment;
        let prefix = VNET_HEADER + self.headers;
        let mut buffer = Vec::with_capacity(prefix + self.len - cut);
        buffer.extend_from_slice(&self.buffer[..prefix]);
        buffer.extend_from_slice(&self.buffer[cut..self.len]);
        let mut rest = Frame { len: buffer.len(), buffer, ..*self };
        rest.finish_part(at, false, true);
        self.len = cut;
        self.finish_part(0, true, false);
        rest
    }
}

/// Finds TCP or UDP in an Ethernet frame; `None` for anything else, for fragments, and for garbage.
fn layers(frame: &[u8]) -> Option<Layers> {
    let ip = ETHERNET_HEADER;
    let byte = |at: usize| frame.get(at).copied();
    let (ipv4, protocol, transport) = match u16::from_be_bytes([byte(12)?, byte(13)?]) {
        ETHERTYPE_IPV4 => {
            let header = usize::from(byte(ip)? & 0x0f) * 4;
            let fragment = u16::from_be_bytes([byte(ip + 6)?, byte(ip + 7)?]) & 0x3fff;
            if header < 20 || fragment != 0 {
                return None;
            }
            (true, byte(ip + 9)?, ip + header)
        }
        // Extension headers do not occur in super-frames that a host hands over.
        ETHERTYPE_IPV6 => (false, byte(ip + 6)?, ip + 40),
        _ => return None,
    };
    let payload = transport
        + match protocol {
            TCP => usize::from(byte(transport + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
    let least = transport + if protocol == TCP { 20 } else { 8 };
    (payload >= least && payload <= frame.len()).then_some(Layers { ip, ipv4, protocol, transport, payload })
}

fn rewrite_ip(frame: &mut [u8], layers: &Layers, skipped: u32) {
    let ip = layers.ip;
    if layers.ipv4 {
        let length = (frame.len() - ip) as u16;
        frame[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes());
        let id = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]).wrapping_add(skipped as u16);
        frame[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
        frame[ip + 10..ip + 12].fill(0);
        let sum = !fold(sum_words(&frame[ip..layers.transport]));
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let length = (frame.len() - layers.transport) as u16;
        frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
    }
}

fn rewrite_tcp(frame: &mut [u8], layers: &Layers, skipped_bytes: usize, is_first: bool, is_last: bool) {
    let tcp = &mut frame[layers.transport..];
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(skipped_bytes as u32);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if !is_first {
        tcp[13] &= !TCP_CWR;
    }
    if !is_last {
        tcp[13] &= !(TCP_FIN | TCP_PSH);
    }
}

/// The sum that an unfinished checksum field holds: over the pseudo-header, folded, not inverted.
fn pseudo_header_sum(frame: &[u8], layers: &Layers) -> u16 {
    let addresses = if layers.ipv4 {
        &frame[layers.ip + 12..layers.ip + 20]
    } else {
        &frame[layers.ip + 8..layers.ip + 40]
    };
    let length = (frame.len() - layers.transport) as u64;
    fold(sum_words(addresses) + u64::from(layers.protocol) + length)
}

fn sum_words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|w| u64::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)]))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

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
        rewrite_ip(frame, &layers, 0);
        let sum = pseudo_header_sum(frame, &layers);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        let len = bytes.len();
        Frame::new(bytes, len).ok().unwrap()
    }

    /// What a NIC makes of an unfinished TCP frame, checked for consistency on the way: sequence and payload.
    fn finished(frame: &Frame) -> Vec<(u32, u8, Vec<u8>)> {
        let bytes = frame.frame();
        let layers = layers(bytes).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([bytes[16], bytes[17]])), bytes.len() - 14);
        assert_eq!(fold(sum_words(&bytes[14..34])), 0xffff, "IPv4 header checksum");
        let field = u16::from_be_bytes([bytes[50], bytes[51]]);
        assert_eq!(field, pseudo_header_sum(bytes, &layers), "pseudo-header sum");
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
        /// Split anywhere, as often as you like: every byte keeps its sequence number.
        #[test]
        fn parts_carry_the_same_bytes_at_the_same_place(
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
                // A part's virtio header and what it says of itself agree when read again.
                let again = Frame::new(part.bytes().to_vec(), part.len).ok().unwrap();
                prop_assert_eq!(again.segments(), part.segments());
                prop_assert_eq!(again.last_segment_bytes(), part.last_segment_bytes());
            }
            let got: Vec<_> = parts.iter().flat_map(finished).map(|(s, _, p)| (s, p)).collect();
            prop_assert_eq!(got, expected);
        }

        /// Whatever a host emits, nothing panics, and splitting keeps the count of segments.
        #[test]
        fn garbage_is_carried_not_trusted(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..6) {
            if bytes.len() > 23 {
                bytes[1] = kind;
                bytes[22] = 0x08;
                bytes[23] = 0;
            }
            let len = bytes.len();
            if let Ok(mut frame) = Frame::new(bytes, len) {
                let segments = frame.segments();
                frame.destination(2);
                prop_assert!(frame.segment_bytes() <= 400);
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
    fn flags_stay_where_they_belong() {
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
            "a single segment is no GSO"
        );
    }

    #[test]
    fn destinations_are_hosts_or_everybody() {
        let mut frame = tcp_v4(100, 1448, 0x10);
        assert_eq!(frame.destination(2), Destination::Host(1));
        assert_eq!(frame.destination(1), Destination::All);
        frame.buffer[VNET_HEADER..VNET_HEADER + 6].fill(0xff);
        assert_eq!(frame.destination(2), Destination::All);
    }
}
