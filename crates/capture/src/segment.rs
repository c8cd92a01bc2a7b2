//! A TCP segment as it stands in a packet (RFC 9293, 7323, 2018). What was cut off behind the headers is not missed: lengths are
//! taken from IP's header.

use std::net::{IpAddr, SocketAddr};

use crate::Packet;

const TCP: u8 = 6;
/// Extension headers that may stand before TCP: hop-by-hop, routing, destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const EXTENSIONS_MOST: usize = 8;
const IPV6_HEADER: usize = 40;

/// What matters of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    /// As it stands there.
    pub(crate) window: u16,
    pub(crate) payload: u32,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_blocks: u8,
    /// TSval and TSecr (RFC 7323 section 3).
    pub(crate) stamps: Option<(u32, u32)>,
}

/// The bits of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
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
}

impl Segment {
    /// The segment of a packet; `None` for all that is not TCP, for fragments, and where headers are cut.
    pub(crate) fn of(packet: &Packet<'_>) -> Option<Segment> {
        let ip = packet.link.ip(packet.bytes)?;
        // What a device cuts up itself is longer than IP's length can tell: it says 0 then.
        let below = packet.bytes.len() - ip.len();
        let on_wire = (packet.wire_len as usize).saturating_sub(below);
        match ip.first()? >> 4 {
            4 => ipv4(ip, on_wire),
            6 => ipv6(ip, on_wire),
            _ => None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn ipv4(ip: &[u8], on_wire: usize) -> Option<Segment> {
    let header = usize::from(ip[0] & 15) * 4;
    let total = match usize::from(word(ip, 2)?) {
        0 => on_wire,
        total => total,
    };
    // More fragments, or an offset.
    let is_fragment = word(ip, 6)? & 0x3fff != 0;
    if *ip.get(9)? != TCP || is_fragment || header < 20 {
        return None;
    }
    let address = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<4>()?));
    tcp(ip.get(header..)?, total.checked_sub(header)?, address(12)?, address(16)?)
}

fn ipv6(ip: &[u8], on_wire: usize) -> Option<Segment> {
    let mut left = match usize::from(word(ip, 4)?) {
        0 => on_wire.checked_sub(IPV6_HEADER)?,
        payload => payload,
    };
    let address = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<16>()?));
    let (from, to) = (address(8)?, address(24)?);
    let (mut next, mut rest) = (*ip.get(6)?, ip.get(IPV6_HEADER..)?);
    for _ in 0..EXTENSIONS_MOST {
        if next == TCP {
            return tcp(rest, left, from, to);
        }
        if !EXTENSIONS.contains(&next) {
            return None;
        }
        let len = (usize::from(*rest.get(1)?) + 1) * 8;
        next = rest[0];
        (rest, left) = (rest.get(len..)?, left.checked_sub(len)?);
    }
    None
}

/// `len`: header and payload together.
fn tcp(tcp: &[u8], len: usize, from: IpAddr, to: IpAddr) -> Option<Segment> {
    let header = usize::from(*tcp.get(12)? >> 4) * 4;
    if header < 20 {
        return None;
    }
    let mut segment = Segment {
        from: SocketAddr::new(from, word(tcp, 0)?),
        to: SocketAddr::new(to, word(tcp, 2)?),
        seq: long(tcp, 4)?,
        ack: long(tcp, 8)?,
        flags: Flags(*tcp.get(13)?),
        window: word(tcp, 14)?,
        payload: u32::try_from(len.checked_sub(header)?).ok()?,
        mss: None,
        window_scale: None,
        sack_blocks: 0,
        stamps: None,
    };
    options(tcp.get(20..header.min(tcp.len())).unwrap_or_default(), &mut segment);
    Some(segment)
}

fn options(mut options: &[u8], segment: &mut Segment) {
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => return,
            1 => 1,
            _ => options.get(1).map_or(0, |len| usize::from(*len)),
        };
        let (true, Some(option)) = (kind == 1 || len >= 2, options.get(..len)) else { return };
        match (kind, len) {
            (2, 4) => segment.mss = word(option, 2),
            // RFC 7323 section 2.3: 14 at most.
            (3, 3) => segment.window_scale = Some(option[2].min(14)),
            (8, 10) => segment.stamps = long(option, 2).zip(long(option, 6)),
            (5, _) => segment.sack_blocks = ((len - 2) / 8) as u8,
            _ => {}
        }
        options = &options[len..];
    }
}
