//! A router's decision on a frame (RFC 1812 sections 4.2, 5.2 and 5.3, RFC 8200, RFC 4291).

use std::net::{IpAddr, Ipv4Addr};

use crate::{NextHop, Router, Unreachable};

use super::{
    arp, echo,
    ethernet::{self, is_multicast, station_mac},
    ipv4::{self, Ipv4},
    ipv6::{self, Ipv6},
    neighbour,
};

/// A router's decision on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterDecision {
    /// Ignore it: it is for another station, or needs no reply.
    Ignore,
    /// Drop it without an ICMP error.
    Drop,
    /// Forward it.
    Forward(NextHop),
    /// Forward it in fragments of at most this number of IP bytes.
    Fragment(NextHop, u32),
    /// Reply to the packet.
    Reply(RouterRequest),
    /// Drop it and send an ICMP error to its sender, if that is allowed.
    DropWithError(IcmpError),
}

/// A request to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterRequest {
    /// ARP request (RFC 826).
    Arp,
    /// Neighbour solicitation (RFC 4861).
    Neighbour,
    /// Echo request (RFC 792, RFC 4443).
    Echo,
}

/// An ICMP error: why a packet cannot be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpError {
    /// The destination is unreachable.
    Unreachable(Unreachable),
    /// The packet is for a port of the router, which has no open ports.
    NoPort,
    /// Its time to live is exceeded.
    TimeExceeded,
    /// It is larger than the MTU of this interface's link and must not be fragmented.
    TooBig(u32),
}

/// Decides what `router` does with `frame`, which arrived on `interface`. Its segments (those of a
/// super-packet, or the packet itself) have at most `segment_bytes` bytes of IP.
pub fn decide(router: &Router, interface: u32, frame: &[u8], segment_bytes: u32) -> RouterDecision {
    let Some((to, _, kind, packet)) = ethernet::split(frame) else { return RouterDecision::Drop };
    let Some(own) = router.interfaces.get(interface as usize) else { return RouterDecision::Drop };
    if to != station_mac(own.station) && !is_multicast(to) {
        return RouterDecision::Ignore;
    }
    match kind {
        ethernet::ARP if arp::is_request(packet, own) => RouterDecision::Reply(RouterRequest::Arp),
        ethernet::IPV4 => match Ipv4::parse(packet) {
            Some(ip) if router.owns(ip.destination().into()) => {
                decide_own_ipv4(router, &ip, is_multicast(to))
            }
            Some(ip) => decide_ipv4(router, &ip, is_multicast(to), segment_bytes),
            None => RouterDecision::Drop,
        },
        ethernet::IPV6 => match Ipv6::parse(packet) {
            Some(ip) if ip.destination().is_multicast() || router.owns(ip.destination().into()) => {
                decide_own_ipv6(router, interface, &ip, is_multicast(to))
            }
            Some(ip) => decide_ipv6(router, &ip, is_multicast(to), segment_bytes),
            None => RouterDecision::Drop,
        },
        _ => RouterDecision::Ignore,
    }
}

/// A packet for the router itself. There is no reply to a multicast frame: RFC 1122 section 3.3.6 discards
/// it, and RFC 1812 section 4.3.2.7 forbids errors.
fn decide_own_ipv4(router: &Router, ip: &Ipv4<'_>, is_multicast_frame: bool) -> RouterDecision {
    if is_multicast_frame || ip.is_fragment() || !has_valid_source(router, ip) {
        return RouterDecision::Ignore;
    }
    match ip.protocol() {
        ipv4::ICMP if echo::is_request_v4(ip.payload) => RouterDecision::Reply(RouterRequest::Echo),
        ipv4::UDP => RouterDecision::DropWithError(IcmpError::NoPort),
        _ => RouterDecision::Ignore,
    }
}

fn decide_ipv4(
    router: &Router,
    ip: &Ipv4<'_>,
    is_multicast_frame: bool,
    segment_bytes: u32,
) -> RouterDecision {
    let to = ip.destination();
    if is_multicast_frame || to.is_multicast() || to.is_broadcast() || is_broadcast(router, to) {
        return RouterDecision::Ignore;
    }
    let stays_on_link = to.is_link_local() || ip.source().is_link_local();
    if !has_valid_source(router, ip) || !ipv4::is_host(to) || stays_on_link {
        return RouterDecision::Drop;
    }
    let hop = match router.lookup(IpAddr::V4(to)) {
        Ok(hop) => hop,
        Err(why) => return RouterDecision::DropWithError(IcmpError::Unreachable(why)),
    };
    if ip.ttl() <= 1 {
        return RouterDecision::DropWithError(IcmpError::TimeExceeded);
    }
    match too_small(router, hop, segment_bytes) {
        None => RouterDecision::Forward(hop),
        // A fragment carries at least eight bytes.
        Some(mtu) if !ip.dont_fragment() && mtu as usize >= ip.header.len() + 8 => {
            RouterDecision::Fragment(hop, mtu)
        }
        Some(_) => RouterDecision::DropWithError(IcmpError::TooBig(hop.interface)),
    }
}

/// Whether `address` is the broadcast address of a connected network.
fn is_broadcast(router: &Router, address: Ipv4Addr) -> bool {
    router.interfaces.iter().flat_map(|i| &i.addresses).any(|n| n.is_broadcast(address.into()))
}

/// Whether a packet's source is the address of a single host (RFC 1812 section 5.3.7).
fn has_valid_source(router: &Router, ip: &Ipv4<'_>) -> bool {
    ipv4::is_host(ip.source()) && !is_broadcast(router, ip.source())
}

fn decide_own_ipv6(
    router: &Router,
    interface: u32,
    ip: &Ipv6<'_>,
    is_multicast_frame: bool,
) -> RouterDecision {
    let Some(transport) = ip.transport().filter(|t| !t.is_fragment) else { return RouterDecision::Ignore };
    if ip.source().is_multicast() {
        return RouterDecision::Ignore;
    }
    let own = &router.interfaces[interface as usize];
    match transport.protocol {
        ipv6::ICMPV6 if neighbour::is_solicitation(ip, &transport, own) => {
            RouterDecision::Reply(RouterRequest::Neighbour)
        }
        // No other replies to multicast (RFC 4443 section 2.4e), or to the unspecified address.
        _ if is_multicast_frame || ip.destination().is_multicast() || ip.source().is_unspecified() => {
            RouterDecision::Ignore
        }
        ipv6::ICMPV6 if echo::is_request_v6(ip, &transport) => RouterDecision::Reply(RouterRequest::Echo),
        ipv6::UDP => RouterDecision::DropWithError(IcmpError::NoPort),
        _ => RouterDecision::Ignore,
    }
}

fn decide_ipv6(
    router: &Router,
    ip: &Ipv6<'_>,
    is_multicast_frame: bool,
    segment_bytes: u32,
) -> RouterDecision {
    let (from, to) = (ip.source(), ip.destination());
    if is_multicast_frame {
        return RouterDecision::Ignore;
    }
    let has_invalid_source = from.is_unspecified() || from.is_multicast() || from.is_loopback();
    let stays_on_link = from.is_unicast_link_local() || to.is_unicast_link_local();
    if has_invalid_source || stays_on_link || to.is_unspecified() || to.is_loopback() {
        return RouterDecision::Drop;
    }
    let hop = match router.lookup(IpAddr::V6(to)) {
        Ok(hop) => hop,
        Err(why) => return RouterDecision::DropWithError(IcmpError::Unreachable(why)),
    };
    if ip.hop_limit() <= 1 {
        return RouterDecision::DropWithError(IcmpError::TimeExceeded);
    }
    match too_small(router, hop, segment_bytes) {
        None => RouterDecision::Forward(hop),
        Some(_) => RouterDecision::DropWithError(IcmpError::TooBig(hop.interface)),
    }
}

/// The MTU of the outgoing link if it is less than `bytes`.
fn too_small(router: &Router, hop: NextHop, bytes: u32) -> Option<u32> {
    router.interfaces.get(hop.interface as usize)?.mtu.filter(|mtu| bytes > *mtu)
}
