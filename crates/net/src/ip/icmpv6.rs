//! ICMPv6 packets and their checksum (RFC 4443 section 2.3).

use std::net::Ipv6Addr;

use super::{
    checksum::{fold, pseudo_header_sum, sum_words},
    ipv6::{self, Ipv6, Transport},
};

/// Appends an ICMPv6 packet with its checksum to `frame`.
pub(super) fn write_packet(
    frame: &mut Vec<u8>,
    traffic_class: u8,
    hop_limit: u8,
    from: Ipv6Addr,
    to: Ipv6Addr,
    icmp: &mut [u8],
) {
    let header = ipv6::header(traffic_class, hop_limit, from, to, icmp.len());
    icmp[2..4].fill(0);
    let pseudo = pseudo_header_sum(&header[8..40], ipv6::ICMPV6, icmp.len());
    let sum = !fold(pseudo + sum_words(icmp));
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(&*icmp);
}

/// Whether the checksum of an ICMPv6 message is correct.
pub(super) fn has_valid_checksum(ip: &Ipv6<'_>, transport: &Transport<'_>) -> bool {
    let pseudo = pseudo_header_sum(ip.addresses(), ipv6::ICMPV6, transport.bytes.len());
    fold(pseudo + sum_words(transport.bytes)) == 0xffff
}
