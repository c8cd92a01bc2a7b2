//! Neighbour discovery, as far as a router needs it: it answers solicitations (RFC 4861 sections 7.1.1 and 7.2.4).

use std::net::{IpAddr, Ipv6Addr};

use crate::{Destination, RouterInterface};

use super::{
    Reply,
    ethernet::{self, Mac, station_mac},
    icmpv6_packet,
    ipv6::{self, Ipv6, Transport},
};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Nothing that was forwarded has it any more (section 7.1.1).
const HOP_LIMIT: u8 = 255;
/// Type, code, checksum, reserved, target.
const LENGTH: usize = 24;
/// Flags of an advertisement: sender is a router, it was solicited, it overrides what was known.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_ADDRESS_OPTION: u8 = 1;
const TARGET_ADDRESS_OPTION: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Ethernet address of [`ALL_NODES`] (RFC 2464 section 7).
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// Whether a packet is a valid solicitation of an address of `own`.
pub(super) fn asks_for(ip: &Ipv6<'_>, transport: &Transport<'_>, own: &RouterInterface) -> bool {
    let icmp = transport.bytes;
    icmp.len() >= LENGTH
        && icmp[..2] == [SOLICITATION, 0]
        && ip.hop_limit() == HOP_LIMIT
        && super::is_whole_icmpv6(ip, transport)
        && own.addresses.iter().any(|a| a.address == IpAddr::V6(ipv6::address(&icmp[8..24])))
}

/// The answer to what [`asks_for`] an address; `source` is the sender of its frame.
pub(super) fn reply(
    ip: &Ipv6<'_>,
    transport: &Transport<'_>,
    own: &RouterInterface,
    source: Mac,
    stations: u32,
) -> Option<Reply> {
    let target = transport.bytes.get(8..LENGTH)?;
    let mac = station_mac(own.station);
    // Who asks without an address wants to know whether the target is free: all are told.
    let (to, to_mac, flags) = if ip.source().is_unspecified() {
        (ALL_NODES, ALL_NODES_MAC, ROUTER | OVERRIDE)
    } else {
        let asker = source_address(&transport.bytes[LENGTH..]).unwrap_or(source);
        (ip.source(), asker, ROUTER | SOLICITED | OVERRIDE)
    };
    let mut icmp = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    icmp.extend(target);
    icmp.extend([TARGET_ADDRESS_OPTION, 1]);
    icmp.extend(mac);
    let mut frame = ethernet::header(to_mac, mac, ethernet::IPV6);
    icmpv6_packet(&mut frame, 0, HOP_LIMIT, ipv6::address(target), to, &mut icmp);
    let to = if to == ALL_NODES { Destination::All } else { ethernet::destination(to_mac, stations) };
    Some(Reply { to, frame })
}

/// The option that says from which Ethernet address a solicitation comes.
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
