//! What a router does to Ethernet frames, byte by byte: it forwards IPv4 and IPv6, fragments IPv4, answers ARP,
//! neighbour solicitations and echo requests, and sends ICMP errors.
//!
//! Sources: RFC 1812 (routers), 791 and 8200 (IP), 792 and 4443 (ICMP), 826 (ARP), 4861 (neighbour discovery),
//! 1191 and 8201 (path MTU), 1624 (checksums). Nothing in a frame is trusted, and nothing here panics. Frames are
//! Ethernet's, without preamble and check sequence; what a kernel left for hardware to finish (super-packets,
//! checksums) is the business of whoever implements [`EthernetPacket`].
//!
//! Departures:
//! 1. No ICMP rate limit (RFC 1812 section 4.3.2.8): who sends a thousand packets too large is told a thousand times.
//! 2. No ARP or neighbour discovery by routers: the plan says who has which address.
//! 3. No redirects, no router advertisements, no source quench, no multicast routing, no directed broadcasts.
//! 4. IP options and IPv6 hop-by-hop options are carried, not acted upon: no source routing, no recording.
//!    Answers have no options.
//! 5. A router puts no fragments together, so it does not answer an echo request in fragments.
//! 6. A router has no link-local addresses but those that were given to it.
//! 7. The identification of an answer over IPv4 is that of the packet it answers.
//! 8. Of a super-packet that is too large or has no time to live, the first segment alone is answered; one that
//!    must be fragmented is stored until it has come as a whole.
//! 9. An error has the address of the interface through which its cause came, not of that by which it leaves (RFC 1812
//!    section 4.3.2.4): a traceroute shows the way there. Mostly they are the same.
//! 10. A router is sent nothing but echoes and neighbour discovery: UDP finds no port, TCP and other protocols no answer.

mod arp;
pub mod checksum;
mod decide;
mod echo;
mod error;
pub mod ethernet;
mod forward;
mod ipv4;
mod ipv6;
mod neighbour;

use std::net::{IpAddr, Ipv6Addr};

pub use decide::{Decision, Fault, Question, decide};

use crate::{Arrival, Destination, Emission, Packet, Router, Way};
use checksum::{fold, pseudo_header_sum, sum_words};
use ethernet::{ETHERNET_HEADER, Mac, station_mac};
use ipv4::Ipv4;
use ipv6::{Ipv6, Transport};

/// Time to live, or hop limit, of what routers send themselves (RFC 1812 section 4.2.2.9 asks for at least the
/// network's diameter; 64 is the default of today, RFC 1700).
const TTL: u8 = 64;

/// A packet that is an Ethernet frame, or a super-packet of several.
pub trait EthernetPacket: Packet {
    /// The frame; of a super-packet the common headers and all payload.
    fn frame(&self) -> &[u8];
    /// The same.
    fn frame_mut(&mut self) -> &mut [u8];
    /// Each segment as a frame of its own with all checksums in order.
    fn finished(&self) -> impl Iterator<Item = Vec<u8>>;
    /// A single frame.
    fn from_frame(frame: Vec<u8>) -> Self;
}

/// What a router sends by itself, on the link of the interface that it answers.
struct Reply {
    to: Destination,
    frame: Vec<u8>,
}

/// [`Packet::at_router`] for Ethernet frames.
pub fn at_router<F: EthernetPacket>(
    mut packet: F,
    router: &Router,
    arrival: Arrival,
    out: &mut Vec<Emission<F>>,
) {
    let interface = arrival.interface;
    match decide(router, interface, packet.frame(), packet.segment_bytes()) {
        Decision::Ignore => {}
        Decision::Refuse => out.push(Emission::Refuse(packet)),
        Decision::Forward(way) => {
            readdress(packet.frame_mut(), router, way);
            out.push(send(way.interface, Destination::Station(way.station), packet));
        }
        Decision::Fragment(way, mtu) => {
            readdress(packet.frame_mut(), router, way);
            let to = Destination::Station(way.station);
            for single in packet.finished() {
                let fragments = forward::fragments(&single, mtu);
                if fragments.is_empty() {
                    out.push(Emission::Refuse(F::from_frame(single)));
                }
                out.extend(fragments.into_iter().map(|f| send(way.interface, to, F::from_frame(f))));
            }
        }
        Decision::Answer(question) => {
            let single = packet.finished().next();
            if let Some(answer) = single.and_then(|frame| answer(router, interface, &frame, question)) {
                emit(router, answer, out);
            }
        }
        Decision::Fail(fault) => {
            let single = packet.finished().next();
            out.push(match fault {
                Fault::TooBig(interface) => Emission::TooBig(interface, packet),
                _ => Emission::Refuse(packet),
            });
            if let Some(error) = single.and_then(|frame| complain(router, interface, &frame, fault)) {
                emit(router, error, out);
            }
        }
    }
}

/// [`Packet::way_at`] for Ethernet frames.
pub fn way_at<F: EthernetPacket>(packet: &F, router: &Router) -> Option<Way> {
    let (_, _, kind, bytes) = ethernet::split(packet.frame())?;
    let to = match kind {
        ethernet::IPV4 => IpAddr::V4(Ipv4::parse(bytes)?.destination()),
        ethernet::IPV6 => IpAddr::V6(Ipv6::parse(bytes)?.destination()),
        _ => return None,
    };
    let way = router.lookup(to).ok()?;
    let mtu = router.interfaces.get(way.interface as usize)?.mtu;
    mtu.is_none_or(|mtu| packet.segment_bytes() <= mtu).then_some(way)
}

/// A frame to be sent by an interface.
struct Outgoing {
    interface: u32,
    to: Destination,
    frame: Vec<u8>,
}

fn answer(router: &Router, interface: u32, frame: &[u8], question: Question) -> Option<Outgoing> {
    let (_, source, kind, packet) = ethernet::split(frame)?;
    let own = router.interfaces.get(interface as usize)?;
    let on_link = |reply: Reply| Outgoing { interface, to: reply.to, frame: reply.frame };
    match (question, kind) {
        (Question::Arp, _) => arp::reply(packet, own, router.stations()).map(on_link),
        (Question::Neighbour, _) => {
            let ip = Ipv6::parse(packet)?;
            neighbour::reply(&ip, &ip.transport()?, own, source, router.stations()).map(on_link)
        }
        (Question::Echo, ethernet::IPV4) => {
            let ip = Ipv4::parse(packet)?;
            back(router, interface, source, kind, |frame| Some(echo::reply_v4(&ip, frame)))
        }
        (Question::Echo, _) => {
            let ip = Ipv6::parse(packet)?;
            let transport = ip.transport()?;
            back(router, interface, source, kind, |frame| Some(echo::reply_v6(&ip, &transport, frame)))
        }
    }
}

/// The ICMP error about a frame of one segment with finished checksums; `None` where none may be sent.
fn complain(router: &Router, interface: u32, frame: &[u8], fault: Fault) -> Option<Outgoing> {
    let (_, source, kind, packet) = ethernet::split(frame)?;
    if kind == ethernet::IPV4 {
        let ip = Ipv4::parse(packet)?;
        back(router, interface, source, kind, |out| error::write_v4(router, interface, &ip, fault, out))
    } else {
        let ip = Ipv6::parse(packet)?;
        back(router, interface, source, kind, |out| error::write_v6(router, interface, &ip, fault, out))
    }
}

/// A frame for the sender of a packet: `write` appends the packet and says for whom it is. Where no way leads there, it
/// goes to where the packet came from, if that is on the same link.
fn back(
    router: &Router,
    interface: u32,
    source: Mac,
    kind: u16,
    write: impl FnOnce(&mut Vec<u8>) -> Option<IpAddr>,
) -> Option<Outgoing> {
    let mut frame = ethernet::header([0; 6], [0; 6], kind);
    let address = write(&mut frame)?;
    let own = router.interfaces.get(interface as usize)?;
    let (interface, to, to_mac) = match router.lookup(address) {
        Ok(way) => (way.interface, Destination::Station(way.station), station_mac(way.station)),
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
    Some(Outgoing { interface, to, frame })
}

/// Sends what the router made itself, in fragments if need be.
fn emit<F: EthernetPacket>(router: &Router, outgoing: Outgoing, out: &mut Vec<Emission<F>>) {
    let Outgoing { interface, to, frame } = outgoing;
    let mtu = router.interfaces.get(interface as usize).and_then(|i| i.mtu);
    match mtu.filter(|mtu| frame.len() - ETHERNET_HEADER > *mtu as usize) {
        Some(mtu) if frame[12..14] == ethernet::IPV4.to_be_bytes() => {
            let fragments = forward::fragments(&frame, mtu);
            out.extend(fragments.into_iter().map(|f| send(interface, to, F::from_frame(f))));
        }
        _ => out.push(send(interface, to, F::from_frame(frame))),
    }
}

fn send<F>(interface: u32, to: Destination, packet: F) -> Emission<F> {
    Emission::Send { interface, to, packet }
}

/// Changes what changes on the way through a router.
fn readdress(frame: &mut [u8], router: &Router, way: Way) {
    let from = router.interfaces.get(way.interface as usize).map_or(0, |i| i.station);
    forward::rewrite(frame, station_mac(way.station), station_mac(from));
}

/// Appends an ICMPv6 packet to `frame`, its checksum computed (RFC 4443 section 2.3).
fn icmpv6_packet(
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

/// Whether the checksum of an ICMPv6 message is right.
fn is_whole_icmpv6(ip: &Ipv6<'_>, transport: &Transport<'_>) -> bool {
    let pseudo = pseudo_header_sum(ip.addresses(), ipv6::ICMPV6, transport.bytes.len());
    fold(pseudo + sum_words(transport.bytes)) == 0xffff
}
