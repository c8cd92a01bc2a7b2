//! Parses the TCP segment of a packet (RFC 9293, 7323, 2018). The payload may be truncated, because lengths
//! come from the IP header.

use std::net::{IpAddr, SocketAddr};

use crate::packet::Packet;

const TCP: u8 = 6;
/// Extension headers that may precede TCP: hop-by-hop, routing, destination.
const EXTENSION_HEADERS: [u8; 3] = [0, 43, 60];
const MAX_EXTENSION_HEADERS: usize = 8;
const IPV6_HEADER_BYTES: usize = 40;

/// The parts of a segment that the dissector uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The identification of an IPv4 packet, unless it is 0.
    pub(crate) id: Option<u16>,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    /// The window field, without scaling.
    pub(crate) window: u16,
    pub(crate) payload: u32,
    /// Length of the TCP options with their padding, bytes.
    pub(crate) options_bytes: u16,
    /// Whether the captured bytes contain all options.
    pub(crate) has_all_options: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_blocks: u8,
    /// TSval and TSecr (RFC 7323 section 3).
    pub(crate) timestamps: Option<(u32, u32)>,
}

/// Flags of the TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpFlags(u8);

impl TcpFlags {
    pub(crate) fn fin(self) -> bool {
        self.0 & 1 != 0
    }
    pub(crate) fn syn(self) -> bool {
        self.0 & 2 != 0
    }
    pub(crate) fn rst(self) -> bool {
        self.0 & 4 != 0
    }
    pub(crate) fn ack(self) -> bool {
        self.0 & 16 != 0
    }
    /// ECN echo (RFC 3168 section 6.1).
    pub(crate) fn ece(self) -> bool {
        self.0 & 64 != 0
    }
}

impl Segment {
    /// Sequence number of the first byte of its payload, which a SYN precedes.
    pub(crate) fn first_data_seq(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.flags.syn()))
    }

    /// Parses the segment of a packet; `None` if the packet is not TCP, is a fragment, or is truncated within
    /// the headers.
    pub(crate) fn parse(packet: &Packet<'_>) -> Option<Segment> {
        let ip = packet.link.ip_packet(packet.bytes)?;
        // A super-packet that the device splits (TSO) may be longer than the length field allows; the field
        // is then 0.
        let link_header = packet.bytes.len() - ip.len();
        let on_wire = (packet.wire_len as usize).saturating_sub(link_header);
        match ip.first()? >> 4 {
            4 => parse_ipv4(ip, on_wire),
            6 => parse_ipv6(ip, on_wire),
            _ => None,
        }
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn parse_ipv4(ip: &[u8], on_wire: usize) -> Option<Segment> {
    let header = usize::from(ip[0] & 15) * 4;
    let total = match usize::from(u16_at(ip, 2)?) {
        0 => on_wire,
        total => total,
    };
    // The flag MF, or a fragment offset.
    let is_fragment = u16_at(ip, 6)? & 0x3fff != 0;
    if *ip.get(9)? != TCP || is_fragment || header < 20 {
        return None;
    }
    let address = |offset: usize| Some(IpAddr::from(*ip.get(offset..)?.first_chunk::<4>()?));
    let segment = parse_tcp(ip.get(header..)?, total.checked_sub(header)?, address(12)?, address(16)?)?;
    Some(Segment { id: u16_at(ip, 4).filter(|id| *id > 0), ..segment })
}

fn parse_ipv6(ip: &[u8], on_wire: usize) -> Option<Segment> {
    let mut length = match usize::from(u16_at(ip, 4)?) {
        0 => on_wire.checked_sub(IPV6_HEADER_BYTES)?,
        payload => payload,
    };
    let address = |offset: usize| Some(IpAddr::from(*ip.get(offset..)?.first_chunk::<16>()?));
    let (from, to) = (address(8)?, address(24)?);
    let (mut next, mut remaining) = (*ip.get(6)?, ip.get(IPV6_HEADER_BYTES..)?);
    for _ in 0..MAX_EXTENSION_HEADERS {
        if next == TCP {
            return parse_tcp(remaining, length, from, to);
        }
        if !EXTENSION_HEADERS.contains(&next) {
            return None;
        }
        let len = (usize::from(*remaining.get(1)?) + 1) * 8;
        next = remaining[0];
        (remaining, length) = (remaining.get(len..)?, length.checked_sub(len)?);
    }
    None
}

/// Parses a TCP header; `len` is the length of header and payload, bytes.
fn parse_tcp(tcp: &[u8], len: usize, from: IpAddr, to: IpAddr) -> Option<Segment> {
    let header = usize::from(*tcp.get(12)? >> 4) * 4;
    if header < 20 {
        return None;
    }
    let mut segment = Segment {
        from: SocketAddr::new(from, u16_at(tcp, 0)?),
        to: SocketAddr::new(to, u16_at(tcp, 2)?),
        id: None,
        seq: u32_at(tcp, 4)?,
        ack: u32_at(tcp, 8)?,
        flags: TcpFlags(*tcp.get(13)?),
        window: u16_at(tcp, 14)?,
        payload: u32::try_from(len.checked_sub(header)?).ok()?,
        options_bytes: (header - 20) as u16,
        has_all_options: tcp.len() >= header,
        mss: None,
        window_scale: None,
        sack_blocks: 0,
        timestamps: None,
    };
    parse_options(tcp.get(20..header.min(tcp.len())).unwrap_or_default(), &mut segment);
    Some(segment)
}

fn parse_options(mut options: &[u8], segment: &mut Segment) {
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => return,
            1 => 1,
            _ => options.get(1).map_or(0, |len| usize::from(*len)),
        };
        let (true, Some(option)) = (kind == 1 || len >= 2, options.get(..len)) else { return };
        match (kind, len) {
            (2, 4) => segment.mss = u16_at(option, 2),
            // RFC 7323 section 2.3: the maximum is 14.
            (3, 3) => segment.window_scale = Some(option[2].min(14)),
            (8, 10) => segment.timestamps = u32_at(option, 2).zip(u32_at(option, 6)),
            (5, _) => segment.sack_blocks = ((len - 2) / 8) as u8,
            _ => {}
        }
        options = &options[len..];
    }
}
