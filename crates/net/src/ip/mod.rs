//! Routers on the level of Ethernet frames: they forward IPv4 and IPv6, fragment IPv4, reply to ARP,
//! neighbour solicitations and echo requests, and send ICMP errors.
//!
//! Sources: RFC 1812 (routers), 791 and 8200 (IP), 792 and 4443 (ICMP), 826 (ARP), 4861 (neighbour
//! discovery), 1191 and 8201 (path MTU), 1624 (checksums). All bytes of a frame are untrusted, and this code
//! does not panic. Frames have no preamble and no frame check sequence. The implementation of
//! [`EthernetPacket`] completes the work that a kernel left to hardware offloads (super-packets, checksums).
//!
//! Differences from these RFCs:
//! 1. No ICMP rate limit (RFC 1812 section 4.3.2.8): a thousand packets that are too large cause a thousand
//!    errors.
//! 2. Routers use neither ARP nor neighbour discovery: the topology gives all addresses.
//! 3. No redirects, no router advertisements, no source quench, no multicast routing, no directed broadcasts.
//! 4. IP options and IPv6 hop-by-hop options are forwarded but not processed: no source routing, no route
//!    recording. Replies have no options.
//! 5. A router does not reassemble fragments, so it does not reply to a fragmented echo request.
//! 6. A router has only the link-local addresses that the topology gives it.
//! 7. The identification field of a reply over IPv4 is that of the packet it replies to.
//! 8. A super-packet that is too large or whose time to live is exceeded causes one error, about its first
//!    segment. One that must be fragmented is stored until all of it has arrived.
//! 9. The source of an error is the interface on which the packet arrived, not that on which the error leaves
//!    (RFC 1812 section 4.3.2.4), so that a traceroute shows the forward path. In most topologies they are
//!    the same.
//! 10. A router accepts only echo requests and neighbour discovery. UDP causes a port unreachable error, TCP
//!     and other protocols have no reply.

mod arp;
pub mod checksum;
mod decide;
mod echo;
pub mod ethernet;
mod forward;
mod icmp_error;
mod icmpv6;
mod ipv4;
mod ipv6;
mod neighbour;
mod reply;

use std::net::IpAddr;

pub use decide::{IcmpError, RouterDecision, RouterRequest, decide};

use crate::{Destination, NextHop, Packet, Router, RouterAction, RouterArrival};
use ethernet::{ETHERNET_HEADER, Mac, station_mac};
use ipv4::Ipv4;
use ipv6::Ipv6;
use reply::LinkReply;

/// A packet that is an Ethernet frame, or a super-packet of several.
pub trait EthernetPacket: Packet {
    /// The frame; of a super-packet the common headers and the whole payload.
    fn frame(&self) -> &[u8];
    /// The frame, to be modified.
    fn frame_mut(&mut self) -> &mut [u8];
    /// Each segment as a separate frame with complete checksums.
    fn finished(&self) -> impl Iterator<Item = Vec<u8>>;
    /// Converts a single frame to a packet.
    fn from_frame(frame: Vec<u8>) -> Self;
}

/// Implements [`RoutablePacket::process_at_router`](crate::RoutablePacket::process_at_router) for Ethernet
/// frames.
pub fn process_at_router<F: EthernetPacket>(
    mut packet: F,
    router: &Router,
    arrival: RouterArrival,
    out: &mut Vec<RouterAction<F>>,
) {
    let interface = arrival.interface;
    match decide(router, interface, packet.frame(), packet.segment_bytes()) {
        RouterDecision::Ignore => {}
        RouterDecision::Drop => out.push(RouterAction::Drop(packet)),
        RouterDecision::Forward(hop) => {
            rewrite_headers(packet.frame_mut(), router, hop);
            out.push(send(hop.interface, Destination::Station(hop.station), packet));
        }
        RouterDecision::Fragment(hop, mtu) => {
            rewrite_headers(packet.frame_mut(), router, hop);
            let to = Destination::Station(hop.station);
            for single in packet.finished() {
                let fragments = forward::fragments(&single, mtu);
                if fragments.is_empty() {
                    out.push(RouterAction::Drop(F::from_frame(single)));
                }
                out.extend(fragments.into_iter().map(|f| send(hop.interface, to, F::from_frame(f))));
            }
        }
        RouterDecision::Reply(request) => {
            let single = packet.finished().next();
            if let Some(reply) = single.and_then(|frame| build_reply(router, interface, &frame, request)) {
                emit(router, reply, out);
            }
        }
        RouterDecision::DropWithError(error) => {
            let single = packet.finished().next();
            out.push(match error {
                IcmpError::TooBig(interface) => RouterAction::DropTooBig(interface, packet),
                _ => RouterAction::Drop(packet),
            });
            if let Some(error) = single.and_then(|frame| build_error(router, interface, &frame, error)) {
                emit(router, error, out);
            }
        }
    }
}

/// Implements [`RoutablePacket::next_hop_at`](crate::RoutablePacket::next_hop_at) for Ethernet frames.
pub fn next_hop_at<F: EthernetPacket>(packet: &F, router: &Router) -> Option<NextHop> {
    let (_, _, kind, bytes) = ethernet::split(packet.frame())?;
    let to = match kind {
        ethernet::IPV4 => IpAddr::V4(Ipv4::parse(bytes)?.destination()),
        ethernet::IPV6 => IpAddr::V6(Ipv6::parse(bytes)?.destination()),
        _ => return None,
    };
    let hop = router.lookup(to).ok()?;
    let mtu = router.interfaces.get(hop.interface as usize)?.mtu;
    mtu.is_none_or(|mtu| packet.segment_bytes() <= mtu).then_some(hop)
}

/// A frame that a router originates, and its outgoing interface.
struct OutgoingFrame {
    interface: u32,
    to: Destination,
    frame: Vec<u8>,
}

/// Builds the reply to a request.
fn build_reply(
    router: &Router,
    interface: u32,
    frame: &[u8],
    request: RouterRequest,
) -> Option<OutgoingFrame> {
    let (_, source, kind, packet) = ethernet::split(frame)?;
    let own = router.interfaces.get(interface as usize)?;
    let on_link = |reply: LinkReply| OutgoingFrame { interface, to: reply.to, frame: reply.frame };
    match (request, kind) {
        (RouterRequest::Arp, _) => arp::reply(packet, own, router.stations()).map(on_link),
        (RouterRequest::Neighbour, _) => {
            let ip = Ipv6::parse(packet)?;
            neighbour::reply(&ip, &ip.transport()?, own, source, router.stations()).map(on_link)
        }
        (RouterRequest::Echo, ethernet::IPV4) => {
            let ip = Ipv4::parse(packet)?;
            frame_to_sender(router, interface, source, kind, |frame| Some(echo::reply_v4(&ip, frame)))
        }
        (RouterRequest::Echo, _) => {
            let ip = Ipv6::parse(packet)?;
            let transport = ip.transport()?;
            frame_to_sender(router, interface, source, kind, |frame| {
                Some(echo::reply_v6(&ip, &transport, frame))
            })
        }
    }
}

/// Builds the ICMP error about a frame of one segment with complete checksums; `None` if no error may be
/// sent.
fn build_error(router: &Router, interface: u32, frame: &[u8], error: IcmpError) -> Option<OutgoingFrame> {
    let (_, source, kind, packet) = ethernet::split(frame)?;
    if kind == ethernet::IPV4 {
        let ip = Ipv4::parse(packet)?;
        frame_to_sender(router, interface, source, kind, |out| {
            icmp_error::write_v4(router, interface, &ip, error, out)
        })
    } else {
        let ip = Ipv6::parse(packet)?;
        frame_to_sender(router, interface, source, kind, |out| {
            icmp_error::write_v6(router, interface, &ip, error, out)
        })
    }
}

/// Builds a frame to the sender of a packet: `write` appends the packet and returns its destination. Without
/// a route to it, the frame returns to the station that sent the packet, if that is a neighbour.
fn frame_to_sender(
    router: &Router,
    interface: u32,
    source: Mac,
    kind: u16,
    write: impl FnOnce(&mut Vec<u8>) -> Option<IpAddr>,
) -> Option<OutgoingFrame> {
    let mut frame = ethernet::header([0; 6], [0; 6], kind);
    let address = write(&mut frame)?;
    let own = router.interfaces.get(interface as usize)?;
    let (interface, to, to_mac) = match router.lookup(address) {
        Ok(hop) => (hop.interface, Destination::Station(hop.station), station_mac(hop.station)),
        Err(_) => {
            let is_on_link = own.addresses.iter().any(|a| a.contains(address));
            let is_neighbour = is_on_link || crate::address::is_link_local(address);
            let to = ethernet::destination(source, router.stations());
            is_neighbour.then_some((interface, to, source))?
        }
    };
    let from = router.interfaces.get(interface as usize)?.station;
    frame[..6].copy_from_slice(&to_mac);
    frame[6..12].copy_from_slice(&station_mac(from));
    Some(OutgoingFrame { interface, to, frame })
}

/// Sends a frame that the router originates, in fragments if necessary.
fn emit<F: EthernetPacket>(router: &Router, outgoing: OutgoingFrame, out: &mut Vec<RouterAction<F>>) {
    let OutgoingFrame { interface, to, frame } = outgoing;
    let mtu = router.interfaces.get(interface as usize).and_then(|i| i.mtu);
    match mtu.filter(|mtu| frame.len() - ETHERNET_HEADER > *mtu as usize) {
        Some(mtu) if frame[12..14] == ethernet::IPV4.to_be_bytes() => {
            let fragments = forward::fragments(&frame, mtu);
            out.extend(fragments.into_iter().map(|f| send(interface, to, F::from_frame(f))));
        }
        _ => out.push(send(interface, to, F::from_frame(frame))),
    }
}

fn send<F>(interface: u32, to: Destination, packet: F) -> RouterAction<F> {
    RouterAction::Send { interface, to, packet }
}

/// Changes the Ethernet addresses and the time to live of a forwarded frame.
fn rewrite_headers(frame: &mut [u8], router: &Router, hop: NextHop) {
    let from = router.interfaces.get(hop.interface as usize).map_or(0, |i| i.station);
    forward::rewrite(frame, station_mac(hop.station), station_mac(from));
}
