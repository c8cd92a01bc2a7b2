//! ICMP errors of a router to the sender of a packet that it drops (RFC 792, RFC 1191, RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use crate::{Router, Unreachable};

use super::{
    checksum::checksum,
    decide::IcmpError,
    icmpv6,
    ipv4::{self, Ipv4},
    ipv6::{self, Ipv6},
    reply::TTL,
};

/// Bytes of an ICMP header: type, code, checksum, and four bytes that depend on the type.
const LENGTH: usize = 8;
/// Maximum bytes of an ICMP error over IPv4, including the quoted packet (RFC 1812 section 4.3.2.3).
const MAX_BYTES_V4: usize = 576;
/// Maximum bytes of an ICMP error over IPv6, including the quoted packet (RFC 4443 section 2.4c).
const MAX_BYTES_V6: usize = 1280;
/// Precedence "internetwork control" (RFC 1812 section 4.3.2.5).
const TOS: u8 = 0xc0;

/// Appends the error to `frame`, which holds the Ethernet header; returns its destination. `None` if no error
/// may be sent.
pub(super) fn write_v4(
    router: &Router,
    interface: u32,
    ip: &Ipv4<'_>,
    error: IcmpError,
    frame: &mut Vec<u8>,
) -> Option<IpAddr> {
    if !may_send_error_v4(ip) {
        return None;
    }
    let from = match error {
        IcmpError::NoPort => ip.destination(),
        _ => own_address(router, interface, |a| match a {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        })?,
    };
    let (kind, code) = match error {
        IcmpError::Unreachable(Unreachable::Net) => (3, 0),
        IcmpError::Unreachable(Unreachable::Host) => (3, 1),
        IcmpError::NoPort => (3, 3),
        IcmpError::TooBig(_) => (3, 4),
        IcmpError::TimeExceeded => (11, 0),
    };
    let quoted = ip.packet.len().min(MAX_BYTES_V4 - ipv4::HEADER - LENGTH);
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    // RFC 1191 section 4: the MTU takes the lower 16 bits of the unused field.
    let mtu = mtu(router, error).min(u32::from(u16::MAX)) as u16;
    icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
    icmp.extend(&ip.packet[..quoted]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let to = ip.source();
    frame.extend(ipv4::header(TOS, ip.id(), ipv4::ICMP, from, to, icmp.len()));
    frame.extend(icmp);
    Some(IpAddr::V4(to))
}

/// Appends the error to `frame`, which holds the Ethernet header; returns its destination. `None` if no error
/// may be sent.
pub(super) fn write_v6(
    router: &Router,
    interface: u32,
    ip: &Ipv6<'_>,
    error: IcmpError,
    frame: &mut Vec<u8>,
) -> Option<IpAddr> {
    if !may_send_error_v6(ip) {
        return None;
    }
    let from = match error {
        IcmpError::NoPort => ip.destination(),
        _ => own_address(router, interface, |a| match a {
            IpAddr::V6(v6) => Some(v6),
            IpAddr::V4(_) => None,
        })?,
    };
    let (kind, code) = match error {
        IcmpError::Unreachable(Unreachable::Net) => (1, 0),
        IcmpError::Unreachable(Unreachable::Host) => (1, 3),
        IcmpError::NoPort => (1, 4),
        IcmpError::TooBig(_) => (2, 0),
        IcmpError::TimeExceeded => (3, 0),
    };
    let quoted = ip.packet.len().min(MAX_BYTES_V6 - ipv6::HEADER - LENGTH);
    let mut icmp = vec![kind, code, 0, 0];
    icmp.extend(mtu(router, error).to_be_bytes());
    icmp.extend(&ip.packet[..quoted]);
    let to = ip.source();
    icmpv6::write_packet(frame, 0, TTL, from, to, &mut icmp);
    Some(IpAddr::V6(to))
}

fn mtu(router: &Router, error: IcmpError) -> u32 {
    match error {
        IcmpError::TooBig(interface) => {
            router.interfaces.get(interface as usize).and_then(|i| i.mtu).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

/// The address of the interface on which the packet arrived, so that a traceroute shows the forward path (RFC
/// 1812 section 4.3.2.4 uses the interface on which the error leaves). If it has no address of this family,
/// that of another interface.
fn own_address<A>(router: &Router, interface: u32, of_family: impl Fn(IpAddr) -> Option<A>) -> Option<A> {
    let (before, from) = router.interfaces.split_at_checked(interface as usize)?;
    let mut addresses = from.iter().chain(before).flat_map(|i| &i.addresses);
    addresses.find_map(|a| of_family(a.address))
}

/// Whether an error about the packet is allowed (RFC 1812 section 4.3.2.7). Multicast frames were ignored
/// before.
fn may_send_error_v4(ip: &Ipv4<'_>) -> bool {
    let is_error = ip.protocol() == ipv4::ICMP
        && ip.payload.first().is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12));
    ip.fragment_offset() == 0 && !is_error && ipv4::is_host(ip.source())
}

/// Whether an error about the packet is allowed (RFC 4443 section 2.4e). Multicast frames were ignored
/// before.
fn may_send_error_v6(ip: &Ipv6<'_>) -> bool {
    let is_error = ip.transport().is_some_and(|t| {
        // Types below 128 are errors, 137 is a redirect.
        t.protocol == ipv6::ICMPV6 && t.bytes.first().is_none_or(|kind| *kind < 128 || *kind == 137)
    });
    let is_unicast = |a: Ipv6Addr| !a.is_multicast() && !a.is_unspecified();
    !is_error && is_unicast(ip.source()) && is_unicast(ip.destination())
}
