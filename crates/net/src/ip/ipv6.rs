//! A validated IPv6 packet, and the transport header after its extension headers (RFC 8200).

use std::net::Ipv6Addr;

/// ICMPv6's number as a next header.
pub(super) const ICMPV6: u8 = 58;
/// UDP's number as a next header.
pub(super) const UDP: u8 = 17;
/// Bytes of the fixed header.
pub(super) const HEADER: usize = 40;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// A packet with a valid header.
#[derive(Clone, Copy)]
pub(super) struct Ipv6<'a> {
    pub(super) header: &'a [u8],
    pub(super) payload: &'a [u8],
    /// Header and payload, without Ethernet padding.
    pub(super) packet: &'a [u8],
}

/// The data after the extension headers.
#[derive(Clone, Copy)]
pub(super) struct Transport<'a> {
    pub(super) protocol: u8,
    pub(super) bytes: &'a [u8],
    /// The packet is a fragment: `bytes` is not all of the data.
    pub(super) is_fragment: bool,
}

impl<'a> Ipv6<'a> {
    /// `None` if the packet is truncated or has another version.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < HEADER || bytes[0] >> 4 != 6 {
            return None;
        }
        let payload = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let packet = bytes.get(..HEADER + payload)?;
        let (header, payload) = packet.split_at(HEADER);
        Some(Ipv6 { header, payload, packet })
    }

    pub(super) fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    pub(super) fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    pub(super) fn source(&self) -> Ipv6Addr {
        address(&self.header[8..24])
    }

    pub(super) fn destination(&self) -> Ipv6Addr {
        address(&self.header[24..40])
    }

    /// The bytes of source and destination address.
    pub(super) fn addresses(&self) -> &'a [u8] {
        &self.header[8..40]
    }

    /// `None` if it is not in the packet: truncated headers, or a fragment that is not the first.
    pub(super) fn transport(&self) -> Option<Transport<'a>> {
        let mut next = self.header[6];
        let mut bytes = self.payload;
        let mut is_fragment = false;
        loop {
            let length = match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 + 8 * usize::from(*bytes.get(1)?),
                // RFC 4302 section 2.2: in units of 4 bytes, less 2.
                AUTHENTICATION => 8 + 4 * usize::from(*bytes.get(1)?),
                FRAGMENT => {
                    let field = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
                    if field >> 3 != 0 {
                        return None;
                    }
                    is_fragment |= field & 1 != 0;
                    8
                }
                protocol => return Some(Transport { protocol, bytes, is_fragment }),
            };
            next = *bytes.first()?;
            bytes = bytes.get(length..)?;
        }
    }
}

/// Converts sixteen bytes to an address.
pub(super) fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    Ipv6Addr::from(octets)
}

/// The fixed header of an ICMPv6 packet, with flow label 0.
pub(super) fn header(
    traffic_class: u8,
    hop_limit: u8,
    from: Ipv6Addr,
    to: Ipv6Addr,
    payload: usize,
) -> [u8; HEADER] {
    let [high, low] = (payload as u16).to_be_bytes();
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&[
        0x60 | traffic_class >> 4,
        traffic_class << 4,
        0,
        0,
        high,
        low,
        ICMPV6,
        hop_limit,
    ]);
    header[8..24].copy_from_slice(&from.octets());
    header[24..].copy_from_slice(&to.octets());
    header
}
