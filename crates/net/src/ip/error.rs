//! ICMP errors: what a router tells the sender of a packet that it drops (RFC 792, RFC 1191, RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use crate::{Router, Unreachable};

use super::{
    checksum::checksum,
    decide::Fault,
    icmpv6_packet,
    ipv4::{self, Ipv4},
    ipv6::{self, Ipv6},
};

/// Type, code, checksum, and four bytes that depend on the type.
const LENGTH: usize = 8;
/// An error over IPv4 has no more bytes, quotation included (RFC 1812 section 4.3.2.3).
const MOST_BYTES_V4: usize = 576;
/// An error over IPv6 has no more bytes (RFC 4443 section 2.4c).
const MOST_BYTES_V6: usize = 1280;
/// Precedence "internetwork control" (RFC 1812 section 4.3.2.5).
const TOS: u8 = 0xc0;

/// Writes the error behind `frame`'s header; returns where it goes. `None` where none may be sent.
pub(super) fn write_v4(
    router: &Router,
    interface: u32,
    ip: &Ipv4<'_>,
    fault: Fault,
    frame: &mut Vec<u8>,
) -> Option<IpAddr> {
    if !may_answer_v4(ip) {
        return None;
    }
    let from = match fault {
        Fault::NoPort => ip.destination(),
        _ => own_address(router, interface, |a| match a {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        })?,
    };
    let (kind, code) = match fault {
        Fault::Unreachable(Unreachable::Net) => (3, 0),
        Fault::Unreachable(Unreachable::Host) => (3, 1),
        Fault::NoPort => (3, 3),
        Fault::TooBig(_) => (3, 4),
        Fault::TimeExceeded => (11, 0),
    };
    let quoted = ip.packet.len().min(MOST_BYTES_V4 - ipv4::HEADER - LENGTH);
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    // RFC 1191 section 4: sixteen bits in the second half of the unused field.
    let mtu = mtu(router, fault).min(u32::from(u16::MAX)) as u16;
    icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
    icmp.extend(&ip.packet[..quoted]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let to = ip.source();
    frame.extend(ipv4::header(TOS, ip.id(), ipv4::ICMP, from, to, icmp.len()));
    frame.extend(icmp);
    Some(IpAddr::V4(to))
}

/// Writes the error behind `frame`'s header; returns where it goes. `None` where none may be sent.
pub(super) fn write_v6(
    router: &Router,
    interface: u32,
    ip: &Ipv6<'_>,
    fault: Fault,
    frame: &mut Vec<u8>,
) -> Option<IpAddr> {
    if !may_answer_v6(ip) {
        return None;
    }
    let from = match fault {
        Fault::NoPort => ip.destination(),
        _ => own_address(router, interface, |a| match a {
            IpAddr::V6(v6) => Some(v6),
            IpAddr::V4(_) => None,
        })?,
    };
    let (kind, code) = match fault {
        Fault::Unreachable(Unreachable::Net) => (1, 0),
        Fault::Unreachable(Unreachable::Host) => (1, 3),
        Fault::NoPort => (1, 4),
        Fault::TooBig(_) => (2, 0),
        Fault::TimeExceeded => (3, 0),
    };
    let quoted = ip.packet.len().min(MOST_BYTES_V6 - ipv6::HEADER - LENGTH);
    let mut icmp = vec![kind, code, 0, 0];
    icmp.extend(mtu(router, fault).to_be_bytes());
    icmp.extend(&ip.packet[..quoted]);
    let to = ip.source();
    icmpv6_packet(frame, 0, super::TTL, from, to, &mut icmp);
    Some(IpAddr::V6(to))
}

fn mtu(router: &Router, fault: Fault) -> u32 {
    match fault {
        Fault::TooBig(interface) => {
            router.interfaces.get(interface as usize).and_then(|i| i.mtu).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

/// The address of the interface through which the packet came, so that a traceroute shows the way there (RFC 1812
/// section 4.3.2.4 has the interface by which the error leaves); of another one where it has none of this family.
fn own_address<A>(router: &Router, interface: u32, of_family: impl Fn(IpAddr) -> Option<A>) -> Option<A> {
    let (before, from) = router.interfaces.split_at_checked(interface as usize)?;
    let mut addresses = from.iter().chain(before).flat_map(|i| &i.addresses);
    addresses.find_map(|a| of_family(a.address))
}

/// RFC 1812 section 4.3.2.7. Frames to groups never get this far.
fn may_answer_v4(ip: &Ipv4<'_>) -> bool {
    let is_error = ip.protocol() == ipv4::ICMP
        && ip.payload.first().is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12));
    ip.fragment_offset() == 0 && !is_error && ipv4::is_host(ip.source())
}

/// RFC 4443 section 2.4e. Frames to groups never get this far.
fn may_answer_v6(ip: &Ipv6<'_>) -> bool {
    let is_error = ip.transport().is_some_and(|t| {
        // Types below 128 are errors, 137 is a redirect.
        t.protocol == ipv6::ICMPV6 && t.bytes.first().is_none_or(|kind| *kind < 128 || *kind == 137)
    });
    let is_one = |a: Ipv6Addr| !a.is_multicast() && !a.is_unspecified();
    !is_error && is_one(ip.source()) && is_one(ip.destination())
}
