//! A validated IPv4 packet (RFC 791 section 3.1, RFC 1812 section 5.2.2).

use std::net::Ipv4Addr;

use super::{checksum::checksum, reply::TTL};

/// ICMP's protocol number.
pub(super) const ICMP: u8 = 1;
/// UDP's protocol number.
pub(super) const UDP: u8 = 17;
/// Bytes of a header without options.
pub(super) const HEADER: usize = 20;

/// A packet with a valid header.
#[derive(Clone, Copy)]
pub(super) struct Ipv4<'a> {
    /// The header, options included.
    pub(super) header: &'a [u8],
    pub(super) payload: &'a [u8],
    /// Header and payload, without Ethernet padding.
    pub(super) packet: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// `None` if the packet is truncated, or its version, lengths or header checksum are wrong.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let header_len = usize::from(first & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        if first >> 4 != 4 || header_len < HEADER || total < header_len {
            return None;
        }
        let packet = bytes.get(..total)?;
        let (header, payload) = packet.split_at(header_len);
        (checksum(header) == 0).then_some(Ipv4 { header, payload, packet })
    }

    pub(super) fn tos(&self) -> u8 {
        self.header[1]
    }

    pub(super) fn id(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    pub(super) fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    pub(super) fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// The fragment offset, in units of 8 bytes.
    pub(super) fn fragment_offset(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]]) & 0x1fff
    }

    pub(super) fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    pub(super) fn ttl(&self) -> u8 {
        self.header[8]
    }

    pub(super) fn protocol(&self) -> u8 {
        self.header[9]
    }

    pub(super) fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from([self.header[12], self.header[13], self.header[14], self.header[15]])
    }

    pub(super) fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from([self.header[16], self.header[17], self.header[18], self.header[19]])
    }
}

/// Whether an address may belong to a single host (RFC 1812 section 5.3.7).
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    // 0/8 and 127/8 never leave a host; 224/4 is multicast, 240/4 is reserved.
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// A header without options, for a payload of `payload` bytes. `id` is that of the packet it replies to.
pub(super) fn header(
    tos: u8,
    id: u16,
    protocol: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
    payload: usize,
) -> [u8; HEADER] {
    let [length_high, length_low] = ((HEADER + payload) as u16).to_be_bytes();
    let [id_high, id_low] = id.to_be_bytes();
    let mut header = [0; HEADER];
    header[..10].copy_from_slice(&[0x45, tos, length_high, length_low, id_high, id_low, 0, 0, TTL, protocol]);
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}
