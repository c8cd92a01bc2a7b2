//! Routers with real frames, checked with an independent parser (etherparse).

use crate::chain;
use std::net::IpAddr;

use chain::{
    H0, H1, ParsedFrame, R0_LEFT, R2_RIGHT, chain, cidr, echo, ip, read, send, topology, udp_v4, udp_v6,
};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
    defrag::IpDefragPool,
};
use net::{Destination, DropCause, Node, PipeSpec, Topology, ip::ethernet};
use units::Instant;

fn narrow(mtu: u32) -> PipeSpec {
    PipeSpec { mtu: Some(mtu), ..PipeSpec::default() }
}

/// The reply to a frame of h0, which must be the only delivery.
fn reply(frame: Vec<u8>, middle: PipeSpec) -> ParsedFrame {
    let log = send(&mut chain(middle), H0, frame);
    assert_eq!(log.delivered.len(), 1, "{:?}", log.dropped);
    let (station, _, frame) = &log.delivered[0];
    assert_eq!((*station, &frame[..6]), (H0, &ethernet::station_mac(H0)[..]));
    assert_eq!(frame[6..12], ethernet::station_mac(R0_LEFT));
    read(frame)
}

#[test]
fn each_router_reports_an_exceeded_time_to_live() {
    for (ttl, router) in [(1, "10.0.0.2"), (2, "10.0.1.2"), (3, "10.0.2.2")] {
        let frame = udp_v4(b"probe", |h| h.time_to_live = ttl);
        let parsed = reply(frame.clone(), PipeSpec::default());
        assert_eq!(
            (parsed.from, parsed.to, parsed.kind.as_str()),
            (ip(router), ip("10.0.0.9"), "TimeExceeded(TtlExceededInTransit)")
        );
        // The router sent it with 64; `ttl - 1` routers are between it and h0.
        assert_eq!(parsed.ttl, 64 - (ttl - 1));
        // The quoted packet is the original, except for its time to live and header checksum.
        assert_eq!(parsed.payload.len(), frame.len() - 14);
        assert_eq!((parsed.payload[8], &parsed.payload[12..]), (1, &frame[26..]));
    }
    let delivered =
        send(&mut chain(PipeSpec::default()), H0, udp_v4(b"probe", |h| h.time_to_live = 4)).delivered;
    assert_eq!(delivered[0].0, H1);
    let parsed = read(&delivered[0].2);
    assert_eq!((parsed.ttl, parsed.payload.as_slice()), (1, &b"probe"[..]));
    assert_eq!(delivered[0].2[..6], ethernet::station_mac(H1));
    assert_eq!(delivered[0].2[6..12], ethernet::station_mac(R2_RIGHT));
}

#[test]
fn each_router_reports_an_exceeded_hop_limit() {
    for (limit, router) in [(1, "fd00::2"), (2, "fd00:0:0:1::2"), (3, "fd00:0:0:2::2")] {
        let frame = udp_v6(b"probe", |h| h.hop_limit = limit);
        let parsed = reply(frame.clone(), PipeSpec::default());
        assert_eq!(
            (parsed.from, parsed.to, parsed.kind.as_str()),
            (ip(router), ip("fd00::9"), "TimeExceeded(HopLimitExceeded)")
        );
        assert_eq!(parsed.ttl, 64 - (limit - 1));
        assert_eq!((parsed.payload[7], &parsed.payload[8..]), (1, &frame[22..]));
    }
    let delivered =
        send(&mut chain(PipeSpec::default()), H0, udp_v6(b"probe", |h| h.hop_limit = 4)).delivered;
    assert_eq!((delivered[0].0, read(&delivered[0].2).ttl), (H1, 1));
}

#[test]
fn routers_reply_to_echo_requests_at_any_of_their_addresses() {
    for (to, hops) in [
        ("10.0.0.2", 0),
        ("10.0.1.1", 0),
        ("10.0.2.1", 1),
        ("10.0.3.1", 2),
        ("fd00::2", 0),
        ("fd00:0:0:3::1", 2),
    ] {
        let parsed = reply(echo(to, b"are you there"), PipeSpec::default());
        assert_eq!((parsed.from, parsed.ttl), (ip(to), 64 - hops));
        assert_eq!(parsed.kind, "EchoReply(IcmpEchoHeader { id: 7, seq: 9 })");
        assert_eq!(parsed.payload, b"are you there");
    }
}

#[test]
fn traceroute_ends_at_a_router() {
    let parsed = reply(udp_v4(b"probe", |h| h.destination = [10, 0, 2, 1]), PipeSpec::default());
    assert_eq!((parsed.from, parsed.kind.as_str()), (ip("10.0.2.1"), "DestinationUnreachable(Port)"));
    let to = |text: &str| match ip(text) {
        IpAddr::V6(v6) => v6.octets(),
        IpAddr::V4(_) => unreachable!("IPv6"),
    };
    let parsed = reply(udp_v6(b"probe", |h| h.destination = to("fd00:0:0:2::2")), PipeSpec::default());
    assert_eq!((parsed.from, parsed.kind.as_str()), (ip("fd00:0:0:2::2"), "DestinationUnreachable(Port)"));
}

#[test]
fn host_unreachable_and_network_unreachable_differ() {
    for (to, kind) in [([10, 0, 0, 77], "Host"), ([10, 0, 3, 77], "Network"), ([192, 168, 1, 1], "Network")] {
        let parsed = reply(udp_v4(b"probe", |h| h.destination = to), PipeSpec::default());
        assert_eq!((parsed.from, parsed.kind), (ip("10.0.0.2"), format!("DestinationUnreachable({kind})")));
    }
    let parsed = reply(udp_v6(b"probe", |h| h.destination[15] = 0x77), PipeSpec::default());
    assert_eq!((parsed.from, parsed.kind.as_str()), (ip("fd00::2"), "DestinationUnreachable(NoRoute)"));
}

#[test]
fn packets_too_big_cause_an_error_with_the_mtu() {
    let payload = vec![5; 1472];
    let parsed = reply(udp_v4(&payload, |h| h.dont_fragment = true), narrow(1400));
    assert_eq!(parsed.from, ip("10.0.1.2"));
    assert_eq!(parsed.kind, "DestinationUnreachable(FragmentationNeeded { next_hop_mtu: 1400 })");
    assert_eq!(parsed.payload.len(), 576 - 28, "the quoted packet is truncated");
    let parsed = reply(udp_v6(&vec![5; 1452], |_| {}), narrow(1400));
    assert_eq!((parsed.from, parsed.kind.as_str()), (ip("fd00:0:0:1::2"), "PacketTooBig { mtu: 1400 }"));
    assert_eq!(parsed.payload.len(), 1280 - 48);
    // Packets of exactly the MTU pass.
    for (frame, mtu) in
        [(udp_v4(&payload, |h| h.dont_fragment = true), 1500), (udp_v6(&vec![5; 1452], |_| {}), 1500)]
    {
        let log = send(&mut chain(narrow(mtu)), H0, frame);
        assert_eq!(log.delivered[0].0, H1);
    }
    let log = send(&mut chain(narrow(1499)), H0, udp_v4(&payload, |h| h.dont_fragment = true));
    assert_eq!((log.delivered[0].0, log.dropped), (H0, vec![DropCause::Mtu]));
}

/// Reassembles fragments as a receiver does.
fn reassembled(frames: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut pool: IpDefragPool = IpDefragPool::new();
    let mut whole = None;
    for frame in frames {
        read(frame);
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        whole = pool.process_sliced_packet(&sliced, (), ()).unwrap().map(|w| w.payload).or(whole);
    }
    whole
}

#[test]
fn fragments_carry_the_same_payload() {
    for (bytes, mtu) in [(1472, 1400), (1472, 68), (4000, 577), (100, 100), (8, 28), (65_507, 1500)] {
        let payload: Vec<u8> = (0..bytes).map(|i| (i / 7) as u8).collect();
        let frame = udp_v4(&payload, |_| {});
        let log = send(&mut chain(narrow(mtu)), H0, frame.clone());
        let frames: Vec<Vec<u8>> = log.delivered.iter().map(|d| d.2.clone()).collect();
        assert!(log.delivered.iter().all(|d| d.0 == H1));
        assert!(frames.iter().all(|f| f.len() - 14 <= mtu as usize), "{bytes} B by {mtu}");
        let expected = (bytes as usize + 8).div_ceil((mtu as usize - 20) & !7);
        assert_eq!(frames.len(), expected, "the minimum number of fragments: {bytes} B by {mtu}");
        assert_eq!(reassembled(&frames).unwrap(), frame[34..], "{bytes} B by {mtu}");
    }
}

#[test]
fn fragments_are_fragmented_again() {
    let payload: Vec<u8> = (0..5000).map(|i| (i / 7) as u8).collect();
    let frame = udp_v4(&payload, |_| {});
    let first = send(&mut chain(narrow(1500)), H0, frame.clone());
    let mut frames = Vec::new();
    for (_, _, mut fragment) in first.delivered {
        fragment[..6].copy_from_slice(&ethernet::station_mac(R0_LEFT));
        frames.extend(send(&mut chain(narrow(300)), H0, fragment).delivered.into_iter().map(|d| d.2));
    }
    assert!(frames.iter().all(|f| f.len() <= 314));
    frames.reverse();
    assert_eq!(reassembled(&frames).unwrap(), frame[34..]);
}

#[test]
fn only_options_with_the_copied_flag_go_into_every_fragment() {
    // Router alert (copied), record route (not copied), two no-operations.
    let options = [0x94, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 1];
    let frame = udp_v4(&[9; 400], |h| h.options = options.into());
    let log = send(&mut chain(narrow(200)), H0, frame.clone());
    let headers: Vec<Vec<u8>> =
        log.delivered.iter().map(|d| d.2[34..14 + usize::from(d.2[14] & 15) * 4].to_vec()).collect();
    assert_eq!(headers, [options.to_vec(), vec![0x94, 4, 0, 0], vec![0x94, 4, 0, 0]]);
    let frames: Vec<Vec<u8>> = log.delivered.iter().map(|d| d.2.clone()).collect();
    assert_eq!(reassembled(&frames).unwrap(), frame[46..]);
}

#[test]
fn errors_later_fragments_and_invalid_sources_cause_no_error() {
    let error = reply(udp_v4(b"probe", |h| h.time_to_live = 1), PipeSpec::default());
    let again = |kind: [u8; 2]| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(ethernet::station_mac(H0), ethernet::station_mac(R0_LEFT))
            .ipv4([10, 0, 0, 9], [10, 0, 3, 9], 1)
            .icmpv4_raw(kind[0], kind[1], [0; 4])
            .write(&mut frame, &error.payload)
            .unwrap();
        frame
    };
    let silent = |frame: Vec<u8>| {
        let log = send(&mut chain(narrow(1400)), H0, frame);
        assert_eq!((log.delivered.len(), log.dropped.len()), (0, 1), "{:?}", log.delivered);
    };
    silent(again([11, 0]));
    silent(again([3, 4]));
    reply(again([8, 0]), PipeSpec::default());
    silent(udp_v4(b"probe", |h| {
        h.time_to_live = 1;
        h.fragment_offset = 3.try_into().unwrap();
    }));
    for source in [[0, 0, 0, 0], [255, 255, 255, 255], [224, 0, 0, 1], [127, 0, 0, 1]] {
        silent(udp_v4(b"probe", |h| {
            h.time_to_live = 1;
            h.source = source;
        }));
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(ethernet::station_mac(H0), ethernet::station_mac(R0_LEFT))
        .ipv6(
            udp_v6(b"", |_| {})[22..38].try_into().unwrap(),
            udp_v6(b"", |_| {})[38..54].try_into().unwrap(),
            1,
        )
        .icmpv6_raw(3, 0, [0; 4])
        .write(&mut frame, &[0; 40])
        .unwrap();
    silent(frame);
    silent(udp_v6(b"probe", |h| {
        h.hop_limit = 1;
        h.source = [0; 16];
    }));
}

#[test]
fn malformed_packets_are_dropped() {
    let good = udp_v4(b"probe", |_| {});
    for (at, bit) in [(24, 1), (14, 0x10), (14, 2), (17, 0x80)] {
        let mut frame = good.clone();
        frame[at] ^= bit;
        let log = send(&mut chain(PipeSpec::default()), H0, frame);
        assert_eq!((log.delivered.len(), log.dropped), (0, vec![DropCause::Router]), "byte {at}");
    }
    // The router ignores frames for another station, and unicast packets in broadcast frames.
    for mac in [ethernet::BROADCAST, ethernet::station_mac(99)] {
        let mut frame = good.clone();
        frame[..6].copy_from_slice(&mac);
        let log = send(&mut chain(PipeSpec::default()), H0, frame);
        assert_eq!((log.delivered.len(), log.dropped.len(), log.passed.len()), (0, 0, 1));
    }
}

#[test]
fn ethernet_padding_is_not_part_of_the_packet() {
    let mut frame = udp_v4(b"x", |_| {});
    frame.extend([0xee; 20]);
    let log = send(&mut chain(PipeSpec::default()), H0, frame.clone());
    assert_eq!(log.delivered[0].2.len(), frame.len());
    let mut frame = udp_v4(b"x", |h| h.time_to_live = 1);
    frame.extend([0xee; 20]);
    assert_eq!(reply(frame, PipeSpec::default()).payload.len(), 29);
}

#[test]
fn routers_reply_to_arp_only_for_their_address_on_that_link() {
    let request = |target: [u8; 4]| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(ethernet::station_mac(H0), ethernet::BROADCAST)
            .arp(
                ArpEthIpv4Packet {
                    operation: ArpOperation::REQUEST,
                    sender_mac: ethernet::station_mac(H0),
                    sender_ipv4: [10, 0, 0, 9],
                    target_mac: [0; 6],
                    target_ipv4: target,
                }
                .into(),
            )
            .write(&mut frame)
            .unwrap();
        send(&mut chain(PipeSpec::default()), H0, frame).delivered
    };
    let delivered = request([10, 0, 0, 2]);
    let sliced = SlicedPacket::from_ethernet(&delivered[0].2).unwrap();
    let Some(NetSlice::Arp(arp)) = sliced.net else { panic!("not an ARP frame") };
    assert_eq!(arp.operation(), ArpOperation::REPLY);
    assert_eq!(
        (arp.sender_hw_addr(), arp.sender_protocol_addr()),
        (&ethernet::station_mac(R0_LEFT)[..], &[10, 0, 0, 2][..])
    );
    assert_eq!(
        (arp.target_hw_addr(), arp.target_protocol_addr()),
        (&ethernet::station_mac(H0)[..], &[10, 0, 0, 9][..])
    );
    assert_eq!(request([10, 0, 1, 1]), [], "the router's address on another link");
    assert_eq!(request([10, 0, 0, 3]), [], "no station's address");
}

/// A neighbour solicitation by h0 for `target`, with or without the source link-layer address option.
fn solicit(from: &str, target: &str, option: &[u8], hop_limit: u8) -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut body = octets(target).to_vec();
    body.extend(option);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(ethernet::station_mac(H0), [0x33, 0x33, 0xff, 0, 0, 2])
        .ipv6(octets(from), octets("ff02::1:ff00:2"), hop_limit)
        .icmpv6_raw(135, 0, [0; 4])
        .write(&mut frame, &body)
        .unwrap();
    frame
}

#[test]
fn routers_reply_to_neighbour_solicitations() {
    let mut option = vec![1, 1];
    option.extend(ethernet::station_mac(H0));
    for (from, option, to, solicited) in [
        ("fd00::9", &option[..], "fd00::9", true),
        ("fe80::9", &option[..], "fe80::9", true),
        ("fe80::9", &[][..], "fe80::9", true),
        ("::", &[][..], "ff02::1", false),
    ] {
        let log = send(&mut chain(PipeSpec::default()), H0, solicit(from, "fd00::2", option, 255));
        let (_, _, frame) = &log.delivered[0];
        let parsed = read(frame);
        assert_eq!((parsed.from, parsed.to, parsed.ttl), (ip("fd00::2"), ip(to), 255));
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Icmpv6(icmp)) = sliced.transport else { panic!("not ICMPv6") };
        let etherparse::Icmpv6Type::NeighborAdvertisement(header) = icmp.icmp_type() else {
            panic!("{parsed:?}")
        };
        assert_eq!((header.router, header.solicited, header.r#override), (true, solicited, true));
        let mut target_address_option = vec![2, 1];
        target_address_option.extend(ethernet::station_mac(R0_LEFT));
        assert_eq!(parsed.payload[16..], target_address_option);
    }
    for frame in [solicit("fd00::9", "fd00::2", &option, 254), solicit("fd00::9", "fd00::3", &option, 255)] {
        assert_eq!(send(&mut chain(PipeSpec::default()), H0, frame).delivered, []);
    }
}

#[test]
fn a_static_route_overrides_the_shortest_path() {
    // h0 - r0 - r1 - h1, and r0 - r2 - r1; the route goes via r2.
    let mut topology = Topology::new(2, 0);
    let r = [topology.add_router(), topology.add_router(), topology.add_router()];
    for (a, b) in [(Node::Host(0), r[0]), (r[0], r[1]), (r[0], r[2]), (r[2], r[1]), (r[1], Node::Host(1))] {
        topology.add_link(a, b, PipeSpec::default(), PipeSpec::default());
    }
    for (node, interface, address) in [
        (Node::Host(0), 0, "10.0.0.9/24"),
        (Node::Host(1), 0, "10.0.3.9/24"),
        (r[0], 0, "10.0.0.2/24"),
        (r[2], 0, "10.0.2.2/24"),
        (r[2], 1, "10.0.4.2/24"),
    ] {
        topology.add_address(node, interface, cidr(address));
    }
    let links = |topology: &Topology| {
        let log = send(&mut topology.build(1).unwrap(), H0, udp_v4(b"x", |_| {}));
        assert_eq!(log.delivered[0].0, H1);
        log.passed.iter().map(|p| p.0).collect::<Vec<_>>()
    };
    assert_eq!(links(&topology), [0, 1, 4]);
    topology.add_route(r[0], cidr("10.0.3.0/24"), ip("10.0.2.2"));
    assert_eq!(links(&topology), [0, 2, 3, 4]);
}

#[test]
fn a_routing_loop_ends_with_an_error_to_the_sender() {
    let mut topology = topology(PipeSpec::default());
    topology.add_route(Node::Router(1), cidr("10.0.3.0/24"), ip("10.0.1.1"));
    topology.add_route(Node::Router(0), cidr("10.0.3.0/24"), ip("10.0.1.2"));
    let log = send(&mut topology.build(1).unwrap(), H0, udp_v4(b"x", |h| h.time_to_live = 255));
    assert_eq!(
        log.passed.iter().filter(|p| p.0 == 1).count(),
        254,
        "255 routers received it, the first of them before this link"
    );
    assert_eq!(read(&log.delivered[0].2).kind, "TimeExceeded(TtlExceededInTransit)");
    assert_eq!(log.dropped, [DropCause::Router]);
}

#[test]
fn a_change_of_mtu_affects_the_router_at_once() {
    let mut network = chain(PipeSpec::default());
    let frame = || udp_v4(&[1; 1000], |h| h.dont_fragment = true);
    assert_eq!(send(&mut network, H0, frame()).delivered[0].0, H1);
    let pipe = net::PipeId { link: 2, direction: net::Direction::Forward };
    network.change_pipe(pipe, Instant::from_nanos(1), &narrow(700));
    let mut log = chain::Log::default();
    network.send(H0, Instant::from_nanos(1), Destination::Station(R0_LEFT), chain::Bytes(frame()), &mut log);
    assert_eq!(
        read(&log.delivered[0].2).kind,
        "DestinationUnreachable(FragmentationNeeded { next_hop_mtu: 700 })"
    );
}

/// RFC 1812 section 4.3.2.7, RFC 4443 section 2.4e: no error about a multicast frame, nor about a packet with
/// a broadcast source address.
#[test]
fn multicast_frames_and_broadcast_sources_cause_no_error() {
    let own_v4 = udp_v4(b"probe", |h| h.destination = [10, 0, 0, 2]);
    let own_v6 =
        udp_v6(b"probe", |h| h.destination = "fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    for frame in [&own_v4, &own_v6] {
        assert_eq!(send(&mut chain(PipeSpec::default()), H0, frame.clone()).delivered.len(), 1);
    }
    for (frame, group) in [
        (own_v4, ethernet::BROADCAST),
        (own_v6, [0x33, 0x33, 0, 0, 0, 1]),
        (echo("10.0.0.2", b"x"), ethernet::BROADCAST),
    ] {
        let mut frame = frame;
        frame[..6].copy_from_slice(&group);
        let log = send(&mut chain(PipeSpec::default()), H0, frame);
        assert!(log.delivered.is_empty(), "{:02x?}", log.delivered);
    }
    for to in [[10, 0, 0, 2], [10, 0, 3, 9], [10, 9, 9, 9]] {
        let frame = udp_v4(b"probe", |h| (h.source, h.destination) = ([10, 0, 0, 255], to));
        let log = send(&mut chain(PipeSpec::default()), H0, frame);
        assert!(log.delivered.is_empty(), "{:02x?}", log.delivered);
    }
}

/// RFC 791 section 3.2: the remaining bytes are one fragment as soon as they fit, whole units of 8 bytes or
/// not.
#[test]
fn the_last_fragment_may_fill_the_mtu() {
    // 1500 B in total: 1480 after the header, of which the first fragment carries 984, and 496 remain.
    let frame = udp_v4(&[7; 1472], |_| {});
    for (mtu, lengths) in [(1006, vec![1004, 516]), (760, vec![756, 756, 28]), (518, vec![516, 516, 508])] {
        let log = send(&mut chain(narrow(mtu)), H0, frame.clone());
        let sizes: Vec<usize> = log.delivered.iter().map(|d| d.2.len() - 14).collect();
        assert_eq!(sizes, lengths, "MTU {mtu}");
    }
    // At MTU 762 (20 + 742) the first fragment carries 736, and the remaining 744 do not fit. At 764 they
    // fit, as 20 + 744.
    let log = send(&mut chain(narrow(764)), H0, frame);
    assert_eq!(log.delivered.iter().map(|d| d.2.len() - 14).collect::<Vec<_>>(), [764, 756]);
    // The remaining 743 bytes are not a multiple of 8 and just fit.
    let log = send(&mut chain(narrow(763)), H0, udp_v4(&[7; 1471], |_| {}));
    assert_eq!(log.delivered.iter().map(|d| d.2.len() - 14).collect::<Vec<_>>(), [756, 763]);
}
