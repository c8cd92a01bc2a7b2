//! ARP replies of routers (RFC 826).

use std::net::Ipv4Addr;

use crate::RouterInterface;

use super::{
    ethernet::{self, Mac, station_mac},
    reply::LinkReply,
};

/// Ethernet, IPv4, their address lengths, and the operation "request".
const REQUEST: [u8; 8] = [0, 1, 0x08, 0x00, 6, 4, 0, 1];
const LENGTH: usize = 28;

/// Whether `packet` is another station's request for an address of `own`.
pub(super) fn is_request(packet: &[u8], own: &RouterInterface) -> bool {
    let Some(packet) = packet.first_chunk::<LENGTH>() else { return false };
    let address = |at: usize| Ipv4Addr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let (sender, target) = (address(14), address(24));
    packet[..8] == REQUEST && sender != target && own.addresses.iter().any(|a| a.address == target)
}

/// The reply to a request.
pub(super) fn reply(packet: &[u8], own: &RouterInterface, stations: u32) -> Option<LinkReply> {
    let packet = packet.first_chunk::<LENGTH>()?;
    let mut requester: Mac = [0; 6];
    requester.copy_from_slice(&packet[8..14]);
    let mac = station_mac(own.station);
    let mut frame = ethernet::header(requester, mac, ethernet::ARP);
    frame.extend(&REQUEST[..6]);
    frame.extend([0, 2]);
    frame.extend(mac);
    frame.extend(&packet[24..28]);
    frame.extend(&packet[8..18]);
    Some(LinkReply { to: ethernet::destination(requester, stations), frame })
}
