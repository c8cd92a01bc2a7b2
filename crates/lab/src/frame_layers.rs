//! The headers inside a frame: their offsets and values, and how they are rewritten for parts of a
//! super-frame.
//!
//! Frames are untrusted input. Formats: RFC 791, RFC 8200, RFC 9293, RFC 768.

use net::{
    Ecn,
    ip::{
        checksum::{checksum, fold, pseudo_header_sum, updated},
        ethernet::{ETHERNET_HEADER, IPV4, IPV6},
    },
};

/// Protocol numbers.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const TCP_FIN: u8 = 0x01;
pub(crate) const TCP_PSH: u8 = 0x08;
pub(crate) const TCP_CWR: u8 = 0x80;
/// More Fragments flag and fragment offset: nonzero in fragments (RFC 791).
const FRAGMENT_BITS: u16 = 0x3fff;
/// The lowest two bits of the traffic class, in the second byte of an IPv6 header.
const IPV6_ECN: u8 = 0x30;
/// Start and factor of the 32-bit FNV-1a hash (Fowler, Noll, Vo; RFC 9923).
const FNV_START: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// Offsets of the layers of an IP packet with TCP or UDP, from the frame's start.
pub(crate) struct Layers {
    pub(crate) ip: usize,
    pub(crate) ipv4: bool,
    pub(crate) protocol: u8,
    pub(crate) transport: usize,
    pub(crate) payload: usize,
}

/// The position of a part in the super-frame that it was split from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartPosition {
    /// Number of segments before it.
    pub(crate) before: u32,
    /// Number of segments after it.
    pub(crate) after: u32,
}

impl Layers {
    /// Offset of the transport's checksum from its header's start.
    pub(crate) fn checksum_offset(&self) -> usize {
        if self.protocol == TCP { 16 } else { 6 }
    }
}

/// Finds TCP or UDP in an Ethernet frame; `None` for other protocols, fragments and malformed frames.
pub(crate) fn layers(frame: &[u8]) -> Option<Layers> {
    let ip = ETHERNET_HEADER;
    let byte = |at: usize| frame.get(at).copied();
    let (ipv4, protocol, transport) = match u16::from_be_bytes([byte(12)?, byte(13)?]) {
        IPV4 => {
            let header = usize::from(byte(ip)? & 0x0f) * 4;
            let fragment = u16::from_be_bytes([byte(ip + 6)?, byte(ip + 7)?]) & FRAGMENT_BITS;
            if header < 20 || fragment != 0 {
                return None;
            }
            (true, byte(ip + 9)?, ip + header)
        }
        // Super-frames from a host's kernel have no extension headers.
        IPV6 => (false, byte(ip + 6)?, ip + 40),
        _ => return None,
    };
    let payload = transport
        + match protocol {
            TCP => usize::from(byte(transport + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
    let min_payload = transport + if protocol == TCP { 20 } else { 8 };
    (payload >= min_payload && payload <= frame.len()).then_some(Layers {
        ip,
        ipv4,
        protocol,
        transport,
        payload,
    })
}

/// Rewrites lengths, identification, sequence number and flags for a part of a super-frame with `segment`
/// payload bytes per segment.
pub(crate) fn rewrite(frame: &mut [u8], layers: &Layers, position: PartPosition, segment: usize) {
    rewrite_ip(frame, layers, position.before);
    if layers.protocol == TCP {
        rewrite_tcp(&mut frame[layers.transport..], position, segment);
    } else {
        let length = (frame.len() - layers.transport) as u16;
        frame[layers.transport + 4..layers.transport + 6].copy_from_slice(&length.to_be_bytes());
    }
}

fn rewrite_ip(frame: &mut [u8], layers: &Layers, segments_before: u32) {
    let ip = layers.ip;
    if layers.ipv4 {
        let length = (frame.len() - ip) as u16;
        frame[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes());
        let id = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]).wrapping_add(segments_before as u16);
        frame[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
        frame[ip + 10..ip + 12].fill(0);
        let sum = checksum(&frame[ip..layers.transport]);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let length = (frame.len() - layers.transport) as u16;
        frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
    }
}

fn rewrite_tcp(tcp: &mut [u8], position: PartPosition, segment: usize) {
    let bytes_before = position.before.wrapping_mul(segment as u32);
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(bytes_before);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if position.before > 0 {
        tcp[13] &= !TCP_CWR;
    }
    if position.after > 0 {
        tcp[13] &= !(TCP_FIN | TCP_PSH);
    }
}

/// Writes the partial transport checksum that checksum offload expects: the folded sum over the
/// pseudo-header, not inverted.
pub(crate) fn write_pseudo_header_sum(frame: &mut [u8], layers: &Layers) {
    let addresses = if layers.ipv4 {
        &frame[layers.ip + 12..layers.ip + 20]
    } else {
        &frame[layers.ip + 8..layers.ip + 40]
    };
    let sum = fold(pseudo_header_sum(addresses, layers.protocol, frame.len() - layers.transport));
    let at = layers.transport + layers.checksum_offset();
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The IP header of a frame, by version.
enum Ip<'a> {
    V4(&'a [u8; 20]),
    V6(&'a [u8; 40]),
}

fn ip(frame: &[u8]) -> Option<Ip<'_>> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_HEADER)?;
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        IPV4 => packet.first_chunk().map(Ip::V4),
        IPV6 => packet.first_chunk().map(Ip::V6),
        _ => None,
    }
}

/// The ECN codepoint of the IP header (RFC 3168 section 5).
pub(crate) fn ecn(frame: &[u8]) -> Ecn {
    let bits = match ip(frame) {
        Some(Ip::V4(header)) => header[1] & 3,
        Some(Ip::V6(header)) => (header[1] & IPV6_ECN) >> 4,
        None => 0,
    };
    match bits {
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        3 => Ecn::CongestionExperienced,
        _ => Ecn::NotCapable,
    }
}

/// Sets the CE codepoint and updates the IPv4 header checksum.
pub(crate) fn mark_ce(frame: &mut [u8]) {
    match ip(frame) {
        Some(Ip::V4(header)) => {
            let old = u16::from_be_bytes([header[0], header[1]]);
            let sum = updated(u16::from_be_bytes([header[10], header[11]]), old, old | 3);
            frame[ETHERNET_HEADER + 1] |= 3;
            frame[ETHERNET_HEADER + 10..ETHERNET_HEADER + 12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(Ip::V6(_)) => frame[ETHERNET_HEADER + 1] |= IPV6_ECN,
        None => {}
    }
}

/// A hash of addresses, protocol and ports; without ports for fragments; of the Ethernet header for frames
/// that are not IP.
pub(crate) fn flow_hash(frame: &[u8]) -> u32 {
    let ports = layers(frame).map_or(&[][..], |l| &frame[l.transport..l.transport + 4]);
    let hash = match ip(frame) {
        Some(Ip::V4(header)) => hash_of([&header[12..20], &header[9..10], ports]),
        Some(Ip::V6(header)) => hash_of([&header[8..40], &header[6..7], ports]),
        None => hash_of([&frame[..frame.len().min(ETHERNET_HEADER)], &[], &[]]),
    };
    // MurmurHash3's finalizer, so that the high bits depend on every port too.
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn hash_of(parts: [&[u8]; 3]) -> u32 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(FNV_START, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}
