//! Echo requests and replies (RFC 792 page 14, RFC 4443 section 4).

use std::net::IpAddr;

use super::{
    checksum::checksum,
    icmpv6,
    ipv4::{self, Ipv4},
    ipv6::{Ipv6, Transport},
    reply::TTL,
};

const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
/// Type, code, checksum, identifier, sequence number.
const LENGTH: usize = 8;

/// Whether an ICMP message is an echo request.
pub(super) fn is_request_v4(icmp: &[u8]) -> bool {
    icmp.len() >= LENGTH && icmp[..2] == [REQUEST_V4, 0] && checksum(icmp) == 0
}

/// Whether an ICMPv6 message is an echo request.
pub(super) fn is_request_v6(ip: &Ipv6<'_>, transport: &Transport<'_>) -> bool {
    let icmp = transport.bytes;
    icmp.len() >= LENGTH && icmp[..2] == [REQUEST_V6, 0] && icmpv6::has_valid_checksum(ip, transport)
}

/// Appends the reply to `frame`, which holds the Ethernet header; returns its destination.
pub(super) fn reply_v4(ip: &Ipv4<'_>, frame: &mut Vec<u8>) -> IpAddr {
    let mut icmp = ip.payload.to_vec();
    icmp[0] = REPLY_V4;
    icmp[2..4].fill(0);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let (from, to) = (ip.destination(), ip.source());
    frame.extend(ipv4::header(ip.tos(), ip.id(), ipv4::ICMP, from, to, icmp.len()));
    frame.extend(icmp);
    IpAddr::V4(to)
}

/// Appends the reply to `frame`, which holds the Ethernet header; returns its destination.
pub(super) fn reply_v6(ip: &Ipv6<'_>, transport: &Transport<'_>, frame: &mut Vec<u8>) -> IpAddr {
    let mut icmp = transport.bytes.to_vec();
    icmp[0] = REPLY_V6;
    let (from, to) = (ip.destination(), ip.source());
    icmpv6::write_packet(frame, ip.traffic_class(), TTL, from, to, &mut icmp);
    IpAddr::V6(to)
}
