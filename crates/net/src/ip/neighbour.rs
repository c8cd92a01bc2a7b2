//! Neighbour advertisements of routers in reply to solicitations (RFC 4861 sections 7.1.1 and 7.2.4).

use std::net::{IpAddr, Ipv6Addr};

use crate::{Destination, RouterInterface};

use super::{
    ethernet::{self, Mac, station_mac},
    icmpv6,
    ipv6::{self, Ipv6, Transport},
    reply::LinkReply,
};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// A forwarded packet has a lower hop limit, so it cannot pass as one from the link (section 7.1.1).
const HOP_LIMIT: u8 = 255;
/// Bytes of a solicitation: type, code, checksum, reserved, target.
const LENGTH: usize = 24;
/// Flag of an advertisement: the sender is a router.
const ROUTER: u8 = 0x80;
/// Flag of an advertisement: it replies to a solicitation.
const SOLICITED: u8 = 0x40;
/// Flag of an advertisement: it replaces an existing cache entry.
const OVERRIDE: u8 = 0x20;
const SOURCE_ADDRESS_OPTION: u8 = 1;
const TARGET_ADDRESS_OPTION: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Ethernet address of [`ALL_NODES`] (RFC 2464 section 7).
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// Whether a packet is a valid solicitation for an address of `own`.
pub(super) fn is_solicitation(ip: &Ipv6<'_>, transport: &Transport<'_>, own: &RouterInterface) -> bool {
    let icmp = transport.bytes;
    icmp.len() >= LENGTH
        && icmp[..2] == [SOLICITATION, 0]
        && ip.hop_limit() == HOP_LIMIT
        && icmpv6::has_valid_checksum(ip, transport)
        && own.addresses.iter().any(|a| a.address == IpAddr::V6(ipv6::address(&icmp[8..24])))
}

/// The reply to a solicitation; `source` is the sender of its frame.
pub(super) fn reply(
    ip: &Ipv6<'_>,
    transport: &Transport<'_>,
    own: &RouterInterface,
    source: Mac,
    stations: u32,
) -> Option<LinkReply> {
    let target = transport.bytes.get(8..LENGTH)?;
    let mac = station_mac(own.station);
    // A solicitation without a source address is duplicate address detection: the advertisement is sent to
    // all nodes.
    let (to, to_mac, flags) = if ip.source().is_unspecified() {
        (ALL_NODES, ALL_NODES_MAC, ROUTER | OVERRIDE)
    } else {
        let requester = source_address(&transport.bytes[LENGTH..]).unwrap_or(source);
        (ip.source(), requester, ROUTER | SOLICITED | OVERRIDE)
    };
    let mut icmp = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    icmp.extend(target);
    icmp.extend([TARGET_ADDRESS_OPTION, 1]);
    icmp.extend(mac);
    let mut frame = ethernet::header(to_mac, mac, ethernet::IPV6);
    icmpv6::write_packet(&mut frame, 0, HOP_LIMIT, ipv6::address(target), to, &mut icmp);
    let to = if to == ALL_NODES { Destination::All } else { ethernet::destination(to_mac, stations) };
    Some(LinkReply { to, frame })
}

/// The source link-layer address option of a solicitation.
fn source_address(mut options: &[u8]) -> Option<Mac> {
    loop {
        let length = 8 * usize::from(*options.get(1)?);
        let option = options.get(..length).filter(|o| !o.is_empty())?;
        if option[0] == SOURCE_ADDRESS_OPTION {
            return option[2..8].try_into().ok();
        }
        options = &options[length..];
    }
}
