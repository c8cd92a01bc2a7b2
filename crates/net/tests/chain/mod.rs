//! The network h0 - r0 - r1 - r2 - h1 with real frames, and an independent parser of the frames that routers
//! send.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::IpAddr;

use etherparse::{
    IpNumber, Ipv4Header, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, UdpHeader,
};
use net::{
    Cidr, Destination, DropCause, Network, NextHop, Node, Packet, PacketSink, PipeId, PipeSpec,
    RoutablePacket, Router, RouterAction, RouterArrival, Topology, XcpPacket,
    ip::{self, EthernetPacket, ethernet},
};
use units::Instant;

/// A frame of a host without offloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Packet for Bytes {
    fn segments(&self) -> u32 {
        1
    }
    fn segment_bytes(&self) -> u32 {
        self.last_segment_bytes()
    }
    fn last_segment_bytes(&self) -> u32 {
        self.0.len().saturating_sub(14) as u32
    }
    fn split_off(&mut self, _at: u32) -> Self {
        unreachable!("a single segment cannot be split")
    }
}

impl XcpPacket for Bytes {}

impl RoutablePacket for Bytes {
    fn process_at_router(self, router: &Router, arrival: RouterArrival, out: &mut Vec<RouterAction<Self>>) {
        ip::process_at_router(self, router, arrival, out);
    }
    fn next_hop_at(&self, router: &Router, _to: Destination) -> Option<NextHop> {
        ip::next_hop_at(self, router)
    }
}

impl EthernetPacket for Bytes {
    fn frame(&self) -> &[u8] {
        &self.0
    }
    fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn finished(&self) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(self.0.clone())
    }
    fn from_frame(frame: Vec<u8>) -> Self {
        Bytes(frame)
    }
}

#[derive(Default)]
pub struct Log {
    pub delivered: Vec<(u32, Instant, Vec<u8>)>,
    pub dropped: Vec<DropCause>,
    pub passed: Vec<(u32, Vec<u8>)>,
}

impl PacketSink<Bytes> for Log {
    fn deliver(&mut self, station: u32, at: Instant, packet: Bytes) {
        self.delivered.push((station, at, packet.0));
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, cause: DropCause, _packet: Bytes) {
        self.dropped.push(cause);
    }
    fn pass(&mut self, pipe: PipeId, _train: net::TrainTimes, packet: &Bytes) {
        self.passed.push((pipe.link, packet.0.clone()));
    }
}

/// The stations of the chain: those of hosts 0 and 1, then those of the routers from left to right.
pub const H0: u32 = 0;
pub const H1: u32 = 1;
pub const R0_LEFT: u32 = 2;
pub const R2_RIGHT: u32 = 7;
pub const END: Instant = Instant::from_nanos(u64::MAX / 4);

pub fn cidr(text: &str) -> Cidr {
    let (address, prefix) = text.split_once('/').unwrap();
    Cidr { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Network n is 10.0.n.0/24 and fd00:0:0:n::/64. In each the left end has number 1 and the right end 2; hosts
/// have 9.
pub fn topology(middle: PipeSpec) -> Topology {
    let mut topology = Topology::new(2, 0);
    let nodes =
        [Node::Host(0), topology.add_router(), topology.add_router(), topology.add_router(), Node::Host(1)];
    for link in 0..4 {
        let spec = if link == 2 { middle.clone() } else { PipeSpec::default() };
        topology.add_link(nodes[link], nodes[link + 1], spec.clone(), spec);
    }
    for link in 0..4 {
        let right = if link == 3 { 9 } else { 2 };
        let left = if link == 0 { 9 } else { 1 };
        let end = |interface: u32, number: u32| {
            (
                interface,
                [cidr(&format!("10.0.{link}.{number}/24")), cidr(&format!("fd00:0:0:{link}::{number}/64"))],
            )
        };
        let is_host = link == 0;
        for (node, (interface, addresses)) in
            [(nodes[link], end(u32::from(!is_host), left)), (nodes[link + 1], end(0, right))]
        {
            addresses.into_iter().for_each(|a| topology.add_address(node, interface, a));
        }
    }
    topology
}

pub fn chain(middle: PipeSpec) -> Network<Bytes> {
    topology(middle).build(1).unwrap()
}

/// Sends one frame and returns all deliveries and drops.
pub fn send(network: &mut Network<Bytes>, from: u32, frame: Vec<u8>) -> Log {
    let mut log = Log::default();
    let mut to = [0; 6];
    to.copy_from_slice(&frame[..6]);
    let to = ethernet::destination(to, network.stations());
    network.send(from, Instant::ZERO, to, Bytes(frame), &mut log);
    network.run_until(END, &mut log);
    log
}

/// The fields of a frame with correct checksums, from an independent parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedFrame {
    pub from: IpAddr,
    pub to: IpAddr,
    pub ttl: u8,
    /// The ICMP type as the parser names it, or the protocol.
    pub kind: String,
    pub payload: Vec<u8>,
}

/// Parses a frame with etherparse and asserts that every checksum in it is correct.
pub fn read(frame: &[u8]) -> ParsedFrame {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap_or_else(|e| panic!("{e}: {frame:02x?}"));
    let (from, to, ttl) = match sliced.net.as_ref().expect("IP") {
        NetSlice::Ipv4(v4) => {
            let header = v4.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4 header checksum");
            assert_eq!(usize::from(header.total_len), frame.len() - 14, "IPv4 length");
            (IpAddr::from(header.source), IpAddr::from(header.destination), header.time_to_live)
        }
        NetSlice::Ipv6(v6) => {
            let header = v6.header().to_header();
            assert_eq!(usize::from(header.payload_length), frame.len() - 54, "IPv6 length");
            (IpAddr::from(header.source), IpAddr::from(header.destination), header.hop_limit)
        }
        NetSlice::Arp(_) => panic!("an ARP frame, not IP"),
    };
    let (kind, payload) = match sliced.transport {
        Some(TransportSlice::Icmpv4(icmp)) => {
            assert_eq!(
                icmp.header().checksum,
                icmp.icmp_type().calc_checksum(icmp.payload()),
                "ICMP checksum"
            );
            (format!("{:?}", icmp.icmp_type()), icmp.payload().to_vec())
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { panic!("ICMPv6 over IPv4") };
            assert!(icmp.is_checksum_valid(from.octets(), to.octets()), "ICMPv6 checksum");
            (format!("{:?}", icmp.icmp_type()), icmp.payload().to_vec())
        }
        Some(TransportSlice::Udp(udp)) => {
            let header = udp.to_header();
            let sum = match (from, to) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    header.calc_checksum_ipv4_raw(a.octets(), b.octets(), udp.payload())
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    header.calc_checksum_ipv6_raw(a.octets(), b.octets(), udp.payload())
                }
                _ => panic!("two address families"),
            };
            assert_eq!(header.checksum, sum.unwrap(), "UDP checksum");
            ("udp".into(), udp.payload().to_vec())
        }
        _ => ("other".into(), frame[14..].to_vec()),
    };
    ParsedFrame { from, to, ttl, kind, payload }
}

/// An Ethernet header from h0 to its router.
fn to_router(kind: u16) -> Vec<u8> {
    let mut frame = ethernet::station_mac(R0_LEFT).to_vec();
    frame.extend(ethernet::station_mac(H0));
    frame.extend(kind.to_be_bytes());
    frame
}

/// A UDP packet from h0 to h1 with TTL 64, which may be fragmented; `change` modifies its header.
pub fn udp_v4(payload: &[u8], change: impl FnOnce(&mut Ipv4Header)) -> Vec<u8> {
    let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 9], [10, 0, 3, 9]).unwrap();
    header.dont_fragment = false;
    header.identification = 0x1234;
    change(&mut header);
    let udp = UdpHeader::with_ipv4_checksum(4000, 33434, &header, payload).unwrap();
    header.set_payload_len(8 + payload.len()).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut frame = to_router(ethernet::IPV4);
    header.write(&mut frame).unwrap();
    udp.write(&mut frame).unwrap();
    frame.extend(payload);
    frame
}

/// A UDP packet from h0 to h1 with hop limit 64; `change` modifies its header.
pub fn udp_v6(payload: &[u8], change: impl FnOnce(&mut Ipv6Header)) -> Vec<u8> {
    let octets = |address: &str| address.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut header = Ipv6Header {
        payload_length: (8 + payload.len()) as u16,
        next_header: IpNumber::UDP,
        hop_limit: 64,
        source: octets("fd00::9"),
        destination: octets("fd00:0:0:3::9"),
        ..Ipv6Header::default()
    };
    change(&mut header);
    let udp = UdpHeader::with_ipv6_checksum(4000, 33434, &header, payload).unwrap();
    let mut frame = to_router(ethernet::IPV6);
    header.write(&mut frame).unwrap();
    udp.write(&mut frame).unwrap();
    frame.extend(payload);
    frame
}

/// An echo request from h0 to `to`.
pub fn echo(to: &str, payload: &[u8]) -> Vec<u8> {
    let (from, to) = match ip(to) {
        IpAddr::V4(v4) => (ip("10.0.0.9"), IpAddr::V4(v4)),
        IpAddr::V6(v6) => (ip("fd00::9"), IpAddr::V6(v6)),
    };
    let builder = PacketBuilder::ethernet2(ethernet::station_mac(H0), ethernet::station_mac(R0_LEFT));
    let mut frame = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => builder
            .ipv4(from.octets(), to.octets(), 3)
            .icmpv4_echo_request(7, 9)
            .write(&mut frame, payload)
            .unwrap(),
        (IpAddr::V6(from), IpAddr::V6(to)) => builder
            .ipv6(from.octets(), to.octets(), 3)
            .icmpv6_echo_request(7, 9)
            .write(&mut frame, payload)
            .unwrap(),
        _ => unreachable!("one address family"),
    }
    frame
}
