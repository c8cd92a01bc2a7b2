//! What a router has to do with a frame (RFC 1812 sections 4.2, 5.2 and 5.3, RFC 8200, RFC 4291).

use std::net::{IpAddr, Ipv4Addr};

use crate::{Router, Unreachable, Way};

use super::{
    arp,
    ethernet::{self, is_group, station_mac},
    ipv4::{self, Ipv4},
    ipv6::{self, Ipv6},
    neighbour,
};

/// What a router has to do with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is for somebody else, or for the router but nothing is to be said to it.
    Ignore,
    /// Drop it in silence.
    Refuse,
    /// Send it on.
    Forward(Way),
    /// Send it on in fragments of at most so many bytes of IP.
    Fragment(Way, u32),
    /// Answer it.
    Answer(Question),
    /// Drop it and tell its sender, if that may be.
    Fail(Fault),
}

/// What is asked of a router itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Who has this IPv4 address (RFC 826)?
    Arp,
    /// Who has this IPv6 address (RFC 4861)?
    Neighbour,
    /// An echo, please (RFC 792, RFC 4443).
    Echo,
}

/// Why a packet cannot be sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No way there.
    Unreachable(Unreachable),
    /// It was for the router, but nobody listens.
    NoPort,
    /// Its time to live is over.
    TimeExceeded,
    /// It is larger than the MTU of this interface's link and must not be fragmented.
    TooBig(u32),
}

/// What `router` has to do with `frame`, which came through `interface` and whose segments (of a super-packet, else the
/// packet itself) have at most `segment_bytes` bytes of IP.
pub fn decide(router: &Router, interface: u32, frame: &[u8], segment_bytes: u32) -> Decision {
    let Some((to, _, kind, packet)) = ethernet::split(frame) else { return Decision::Refuse };
    let Some(own) = router.interfaces.get(interface as usize) else { return Decision::Refuse };
    if to != station_mac(own.station) && !is_group(to) {
        return Decision::Ignore;
    }
    match kind {
        ethernet::ARP if arp::asks_for(packet, own) => Decision::Answer(Question::Arp),
        ethernet::IPV4 => match Ipv4::parse(packet) {
            Some(ip) if router.owns(ip.destination().into()) => decide_own_ipv4(router, &ip, is_group(to)),
            Some(ip) => decide_ipv4(router, &ip, is_group(to), segment_bytes),
            None => Decision::Refuse,
        },
        ethernet::IPV6 => match Ipv6::parse(packet) {
            Some(ip) if ip.destination().is_multicast() || router.owns(ip.destination().into()) => {
                decide_own_ipv6(router, interface, &ip, is_group(to))
            }
            Some(ip) => decide_ipv6(router, &ip, is_group(to), segment_bytes),
            None => Decision::Refuse,
        },
        _ => Decision::Ignore,
    }
}

/// Nothing is said to a frame for a group: RFC 1122 section 3.3.6 discards it, RFC 1812 section 4.3.2.7 forbids errors.
fn decide_own_ipv4(router: &Router, ip: &Ipv4<'_>, is_group_frame: bool) -> Decision {
    if is_group_frame || ip.is_fragment() || !may_be_source(router, ip) {
        return Decision::Ignore;
    }
    match ip.protocol() {
        ipv4::ICMP if super::echo::is_request_v4(ip.payload) => Decision::Answer(Question::Echo),
        ipv4::UDP => Decision::Fail(Fault::NoPort),
        _ => Decision::Ignore,
    }
}

fn decide_ipv4(router: &Router, ip: &Ipv4<'_>, is_group_frame: bool, segment_bytes: u32) -> Decision {
    let to = ip.destination();
    if is_group_frame || to.is_multicast() || to.is_broadcast() || is_broadcast(router, to) {
        return Decision::Ignore;
    }
    let stays_on_link = to.is_link_local() || ip.source().is_link_local();
    if !may_be_source(router, ip) || !ipv4::is_host(to) || stays_on_link {
        return Decision::Refuse;
    }
    let way = match router.lookup(IpAddr::V4(to)) {
        Ok(way) => way,
        Err(why) => return Decision::Fail(Fault::Unreachable(why)),
    };
    if ip.ttl() <= 1 {
        return Decision::Fail(Fault::TimeExceeded);
    }
    match too_small(router, way, segment_bytes) {
        None => Decision::Forward(way),
        // Eight bytes are the least that a fragment can carry.
        Some(mtu) if !ip.dont_fragment() && mtu as usize >= ip.header.len() + 8 => {
            Decision::Fragment(way, mtu)
        }
        Some(_) => Decision::Fail(Fault::TooBig(way.interface)),
    }
}

/// Whether `address` is the broadcast address of a network here.
fn is_broadcast(router: &Router, address: Ipv4Addr) -> bool {
    router.interfaces.iter().flat_map(|i| &i.addresses).any(|n| n.is_broadcast(address.into()))
}

/// Whether a packet says that it comes from one host (RFC 1812 section 5.3.7).
fn may_be_source(router: &Router, ip: &Ipv4<'_>) -> bool {
    ipv4::is_host(ip.source()) && !is_broadcast(router, ip.source())
}

fn decide_own_ipv6(router: &Router, interface: u32, ip: &Ipv6<'_>, is_group_frame: bool) -> Decision {
    let Some(transport) = ip.transport().filter(|t| !t.is_fragment) else { return Decision::Ignore };
    if ip.source().is_multicast() {
        return Decision::Ignore;
    }
    let own = &router.interfaces[interface as usize];
    match transport.protocol {
        ipv6::ICMPV6 if neighbour::asks_for(ip, &transport, own) => Decision::Answer(Question::Neighbour),
        // Nothing else is answered to a group (RFC 4443 section 2.4e), or to nobody.
        _ if is_group_frame || ip.destination().is_multicast() || ip.source().is_unspecified() => {
            Decision::Ignore
        }
        ipv6::ICMPV6 if super::echo::is_request_v6(ip, &transport) => Decision::Answer(Question::Echo),
        ipv6::UDP => Decision::Fail(Fault::NoPort),
        _ => Decision::Ignore,
    }
}

fn decide_ipv6(router: &Router, ip: &Ipv6<'_>, is_group_frame: bool, segment_bytes: u32) -> Decision {
    let (from, to) = (ip.source(), ip.destination());
    if is_group_frame {
        return Decision::Ignore;
    }
    let is_bad_source = from.is_unspecified() || from.is_multicast() || from.is_loopback();
    let stays_on_link = from.is_unicast_link_local() || to.is_unicast_link_local();
    if is_bad_source || stays_on_link || to.is_unspecified() || to.is_loopback() {
        return Decision::Refuse;
    }
    let way = match router.lookup(IpAddr::V6(to)) {
        Ok(way) => way,
        Err(why) => return Decision::Fail(Fault::Unreachable(why)),
    };
    if ip.hop_limit() <= 1 {
        return Decision::Fail(Fault::TimeExceeded);
    }
    match too_small(router, way, segment_bytes) {
        None => Decision::Forward(way),
        Some(_) => Decision::Fail(Fault::TooBig(way.interface)),
    }
}

/// The MTU on the way, where it is less than `bytes`.
fn too_small(router: &Router, way: Way, bytes: u32) -> Option<u32> {
    router.interfaces.get(way.interface as usize)?.mtu.filter(|mtu| bytes > *mtu)
}
