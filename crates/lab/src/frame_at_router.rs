//! Tests of super-frames at routers, in a network built from a scenario.

use std::collections::BTreeMap;

use etherparse::{
    Icmpv4Type, SlicedPacket, TransportSlice, defrag::IpDefragPool, icmpv4::DestUnreachableHeader,
};
use net::{Direction, DropCause, Network, Packet, PacketSink, PipeId, PipeSpec, ip::EthernetPacket};
use scenario::{Cidr, Host, Interface, Link, LinkChange, Nic, Router, Scenario, StaticRoute};
use units::{Instant, Time};

use crate::frame::{
    Frame, VNET_HEADER, mac,
    tests::{read_tcp, tcp_v4},
};

fn cidr(text: &str) -> Cidr {
    let (address, prefix) = text.split_once('/').unwrap();
    Cidr { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
}

fn interface(address: &str) -> Interface {
    Interface { addresses: vec![cidr(address)] }
}

fn host(name: &str, address: &str, via: &str) -> Host {
    Host {
        name: name.into(),
        interfaces: vec![interface(address)],
        mtu: 1500,
        kernel: None,
        web100: false,
        hz: None,
        local_congestion: true,
        turnaround: Time::ZERO,
        receive_jitter: None,
        cost: scenario::HostCost::default(),
        sysctl: BTreeMap::new(),
        routes: vec![StaticRoute { to: cidr("0.0.0.0/0"), via: via.parse().unwrap() }],
        nic: Nic::default(),
        at: None,
        start: None,
        stop: None,
    }
}

fn link(a: &str, b: &str, spec: PipeSpec) -> Link {
    Link {
        name: format!("{a}-{b}"),
        ends: [a.into(), b.into()],
        forward: spec,
        backward: PipeSpec::default(),
        changes: Vec::new(),
    }
}

/// h1 - s1 - r1 -(spec)- h2, with the addresses of frames from `tcp_v4`.
fn scenario(spec: PipeSpec) -> Scenario {
    Scenario {
        name: "routed".into(),
        title: "routed".into(),
        duration: Time::from_secs(1),
        sample: Time::from_millis(10),
        seed: 1,
        repeat: 1,
        sysctl: None,
        fixed_neighbours: false,
        hosts: vec![host("h1", "10.0.0.1/31", "10.0.0.0"), host("h2", "10.0.0.2/31", "10.0.0.3")],
        switches: vec!["s1".into()],
        routers: vec![Router {
            name: "r1".into(),
            interfaces: vec![interface("10.0.0.0/31"), interface("10.0.0.3/31")],
            routes: Vec::new(),
        }],
        links: vec![
            link("h1", "s1", PipeSpec::default()),
            link("s1", "r1", PipeSpec::default()),
            link("r1", "h2", spec),
        ],
        flows: Vec::new(),
        captures: Vec::new(),
    }
}

const H1: u32 = 0;
const H2: u32 = 1;
const R1: usize = 2;
const R1_RIGHT: usize = 3;
const SLOW: PipeId = PipeId { link: 2, direction: Direction::Forward };

fn narrow(mtu: u32) -> PipeSpec {
    PipeSpec { mtu: Some(mtu), ..PipeSpec::default() }
}

#[derive(Default)]
struct Log {
    delivered: Vec<(u32, Instant, Frame)>,
    dropped: Vec<(PipeId, DropCause, u32)>,
}

impl PacketSink<Frame> for Log {
    fn deliver(&mut self, station: u32, at: Instant, frame: Frame) {
        self.delivered.push((station, at, frame));
    }
    fn drop(&mut self, pipe: PipeId, _at: Instant, cause: DropCause, frame: Frame) {
        self.dropped.push((pipe, cause, frame.segments()));
    }
}

/// A super-frame of three segments from h1 through r1, with the given flags and fragment offset.
fn super_frame(flags: u16) -> Frame {
    let mut frame = tcp_v4(2500, 1000, 0x18);
    let bytes = frame.frame_mut();
    bytes[..6].copy_from_slice(&mac(R1));
    bytes[20..22].copy_from_slice(&flags.to_be_bytes());
    bytes[24..26].fill(0);
    let sum = net::ip::checksum::checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

const DONT_FRAGMENT: u16 = 0x4000;

fn send(network: &mut Network<Frame>, frame: Frame) -> Log {
    let mut log = Log::default();
    let to = frame.destination(network.stations());
    network.send(H1, Instant::ZERO, to, frame, &mut log);
    network.run_until(Instant::from_secs(10), &mut log);
    log
}

fn network(spec: PipeSpec) -> Network<Frame> {
    engine_common::build_network(&scenario(spec)).unwrap()
}

#[test]
fn a_super_frame_crosses_a_router_unsplit() {
    // A segment with its headers has 1052 B: the MTU is compared with that, not with the super-frame.
    let log = send(&mut network(narrow(1052)), super_frame(DONT_FRAGMENT));
    let (station, _, frame) = &log.delivered[0];
    assert_eq!((*station, log.delivered.len(), frame.segments()), (H2, 1, 3));
    assert_eq!(frame.frame()[..6], mac(H2 as usize));
    assert_eq!(frame.frame()[6..12], mac(R1_RIGHT));
    assert_eq!(frame.frame()[22], 63);
    let sent: Vec<_> = super_frame(DONT_FRAGMENT).wire_segments().map(|s| read_tcp(&s)).collect();
    assert_eq!(frame.wire_segments().map(|s| read_tcp(&s)).collect::<Vec<_>>(), sent);
}

#[test]
fn a_super_frame_that_is_too_big_gets_one_icmp_error() {
    let log = send(&mut network(narrow(1051)), super_frame(DONT_FRAGMENT));
    assert_eq!(log.dropped, [(SLOW, DropCause::Mtu, 3)]);
    let [(H1, _, frame)] = &log.delivered[..] else { panic!("expected one frame") };
    assert_eq!((frame.segments(), &frame.bytes()[..VNET_HEADER]), (1, &[0; VNET_HEADER][..]));
    let sliced = SlicedPacket::from_ethernet(frame.frame()).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = sliced.transport else { panic!("no ICMP") };
    let too_big = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1051 };
    assert_eq!(icmp.icmp_type(), Icmpv4Type::DestinationUnreachable(too_big));
    let first = super_frame(DONT_FRAGMENT).wire_segments().next().unwrap();
    assert_eq!(icmp.payload(), &first[14..14 + 548], "it quotes the first segment as on the wire");
}

#[test]
fn without_dont_fragment_each_segment_is_fragmented() {
    let log = send(&mut network(narrow(600)), super_frame(0));
    let mut pool: IpDefragPool = IpDefragPool::new();
    let mut whole = Vec::new();
    for (station, _, frame) in &log.delivered {
        assert_eq!(
            (*station, frame.segments(), &frame.bytes()[..VNET_HEADER]),
            (H2, 1, &[0; VNET_HEADER][..])
        );
        assert!(frame.segment_bytes() <= 600);
        let sliced = SlicedPacket::from_ethernet(frame.frame()).unwrap();
        match pool.process_sliced_packet(&sliced, (), ()).unwrap() {
            Some(packet) => whole.push(packet.payload),
            // The last segment fits unfragmented.
            None if frame.segment_bytes() == 552 => whole.push(frame.frame()[34..].to_vec()),
            None => {}
        }
    }
    let sent: Vec<_> = super_frame(0).wire_segments().map(|s| s[34..].to_vec()).collect();
    assert_eq!(whole, sent);
}

#[test]
fn links_change_at_the_scenarios_times() {
    let mut scenario = scenario(PipeSpec::default());
    let slow = PipeSpec { delay: Time::from_millis(30), ..PipeSpec::default() };
    let change = LinkChange { at: Instant::from_millis(5), forward: slow, backward: PipeSpec::default() };
    scenario.links[2].changes = vec![change];
    assert_eq!(engine_common::sampled_pipes(&scenario).len(), 1, "only the direction that changes");
    let mut network = engine_common::build_network(&scenario).unwrap();
    assert_eq!(send(&mut network, super_frame(0)).delivered[0].1, Instant::ZERO);
    let mut log = Log::default();
    let now = Instant::from_secs(11);
    let frame = super_frame(0);
    network.send(H1, now, frame.destination(network.stations()), frame, &mut log);
    network.run_until(Instant::from_secs(20), &mut log);
    assert_eq!(log.delivered[0].1, now + Time::from_millis(30));
}

#[test]
fn routes_of_routers_and_hosts_come_from_the_scenario() {
    let mut scenario = scenario(PipeSpec::default());
    let via = "10.0.0.2".parse().unwrap();
    scenario.routers[0].routes = vec![StaticRoute { to: cidr("192.168.0.0/16"), via }];
    let mut network: Network<Frame> = engine_common::build_network(&scenario).unwrap();
    let mut frame = super_frame(0);
    frame.frame_mut()[30..34].copy_from_slice(&[192, 168, 7, 7]);
    frame.frame_mut()[24..26].fill(0);
    let sum = net::ip::checksum::checksum(&frame.frame()[14..34]);
    frame.frame_mut()[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(send(&mut network, frame).delivered[0].0, H2);
    scenario.routers[0].routes[0].via = "10.9.9.9".parse().unwrap();
    assert!(engine_common::build_network::<Frame>(&scenario).is_err());
}
