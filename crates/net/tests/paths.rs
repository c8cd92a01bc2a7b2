//! The paths of packets through any graph of hosts, switches and routers. Each packet is delivered or
//! reported as dropped.

use net::{
    Cidr, Destination, Direction, DropCause, Network, Node, PacketSink, PipeId, PipeSpec, Rate, Station,
    Topology, TopologyError, TrainTimes, test_packet::TestPacket,
};
use proptest::prelude::*;
use units::{BitRate, Instant, Time};

const END: Instant = Instant::from_nanos(u64::MAX / 4);
const ROUTER: fn(u32) -> Node = Node::Router;

/// All deliveries, drops and passages.
#[derive(Default)]
struct Log {
    /// (station, time, number)
    delivered: Vec<(u32, Instant, u64)>,
    dropped: Vec<(DropCause, u64)>,
    passed: Vec<PipeId>,
}

impl PacketSink<TestPacket> for Log {
    fn deliver(&mut self, station: u32, at: Instant, packet: TestPacket) {
        self.delivered.push((station, at, packet.first));
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, cause: DropCause, packet: TestPacket) {
        self.dropped.push((cause, packet.first));
    }
    fn pass(&mut self, pipe: PipeId, _train: TrainTimes, _packet: &TestPacket) {
        self.passed.push(pipe);
    }
}

fn topology(hosts: u32, switches: u32, routers: u32, links: &[(Node, Node)]) -> Topology {
    let mut topology = Topology::new(hosts, switches);
    (0..routers).for_each(|_| _ = topology.add_router());
    links.iter().for_each(|l| topology.add_link(l.0, l.1, PipeSpec::default(), PipeSpec::default()));
    topology
}

/// Sends one packet of 100 B and returns all that follows.
fn send(network: &mut Network<TestPacket>, from: u32, to: Destination) -> Log {
    let mut log = Log::default();
    network.send(from, Instant::ZERO, to, TestPacket::single(7, 100), &mut log);
    network.run_until(END, &mut log);
    log
}

fn links_of(log: &Log) -> Vec<u32> {
    log.passed.iter().map(|p| p.link).collect()
}

#[test]
fn stations_are_in_order_of_hosts_then_routers_and_links() {
    let (h, s) = (Node::Host, Node::Switch);
    let topology = topology(3, 1, 1, &[(ROUTER(0), h(2)), (h(0), s(0)), (h(2), s(0)), (s(0), ROUTER(0))]);
    let station =
        |node, interface, link, direction| Station { node, interface, out: PipeId { link, direction } };
    // Host 1 has no link.
    assert_eq!(
        topology.stations(),
        [
            station(h(0), 0, 1, Direction::Forward),
            station(h(2), 0, 0, Direction::Backward),
            station(h(2), 1, 2, Direction::Forward),
            station(ROUTER(0), 0, 0, Direction::Forward),
            station(ROUTER(0), 1, 3, Direction::Backward),
        ]
    );
    assert!(topology.build::<TestPacket>(1).is_ok());
}

#[test]
fn two_hosts_need_no_switch() {
    let mut network = topology(2, 0, 0, &[(Node::Host(0), Node::Host(1))]).build(1).unwrap();
    for to in [Destination::Station(1), Destination::All] {
        assert_eq!(send(&mut network, 0, to).delivered, [(1, Instant::ZERO, 7)]);
    }
    let to_itself = send(&mut network, 0, Destination::Station(0));
    assert!(to_itself.delivered.is_empty() && to_itself.dropped.is_empty());
}

#[test]
fn a_broadcast_in_a_loop_of_switches_reaches_each_station_once() {
    let (h, s) = (Node::Host, Node::Switch);
    // Three switches in a ring with a second link between two of them, a host at each, and a second link of
    // host 2.
    let links = [
        (s(0), s(1)),
        (s(1), s(2)),
        (s(1), s(2)),
        (s(2), s(0)),
        (h(0), s(0)),
        (h(1), s(1)),
        (h(2), s(2)),
        (h(2), s(0)),
    ];
    let mut network = topology(3, 3, 0, &links).build(1).unwrap();
    for from in 0..4 {
        let mut receivers: Vec<u32> =
            send(&mut network, from, Destination::All).delivered.iter().map(|d| d.0).collect();
        receivers.sort_unstable();
        let others: Vec<u32> = (0..4).filter(|s| *s != from).collect();
        assert_eq!(receivers, others, "from station {from}");
    }
    // Unicast takes the direct link, and of two parallel links the first.
    assert_eq!(links_of(&send(&mut network, 1, Destination::Station(2))), [5, 1, 6]);
}

#[test]
fn packets_take_the_shorter_of_two_paths() {
    let (h, s) = (Node::Host, Node::Switch);
    let long = [(h(0), s(0)), (s(0), s(1)), (s(1), s(2)), (s(2), h(1)), (s(0), s(2))];
    let mut network = topology(2, 3, 0, &long).build(1).unwrap();
    assert_eq!(links_of(&send(&mut network, 0, Destination::Station(1))), [0, 4, 3]);
    // The same with routers.
    let long = [
        (h(0), ROUTER(0)),
        (ROUTER(0), ROUTER(1)),
        (ROUTER(1), ROUTER(2)),
        (ROUTER(2), h(1)),
        (ROUTER(0), ROUTER(2)),
    ];
    let mut network = topology(2, 0, 3, &long).build(1).unwrap();
    assert_eq!(links_of(&send(&mut network, 0, Destination::Station(1))), [0, 4, 3]);
}

/// h0 - r0 - r1 - h1 with r0 - r2 - r1 as a longer path, and addresses for h1.
fn triangle() -> Topology {
    let links = [
        (Node::Host(0), ROUTER(0)),
        (ROUTER(0), ROUTER(1)),
        (ROUTER(0), ROUTER(2)),
        (ROUTER(2), ROUTER(1)),
        (ROUTER(1), Node::Host(1)),
    ];
    let mut topology = topology(2, 0, 3, &links);
    topology.add_address(Node::Host(1), 0, cidr("10.9.0.2/24"));
    topology.add_address(ROUTER(2), 0, cidr("10.2.0.2/24"));
    topology.add_address(ROUTER(0), 1, cidr("10.1.0.1/24"));
    topology.add_address(ROUTER(1), 0, cidr("10.1.0.2/24"));
    topology
}

fn cidr(text: &str) -> Cidr {
    let (address, prefix) = text.split_once('/').unwrap();
    Cidr { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
}

#[test]
fn a_static_route_overrides_the_shortest_path() {
    let mut topology = triangle();
    let mut network = topology.build(1).unwrap();
    assert_eq!(links_of(&send(&mut network, 0, Destination::Station(1))), [0, 1, 4]);
    topology.add_route(ROUTER(0), cidr("10.0.0.0/8"), "10.2.0.2".parse().unwrap());
    let mut network = topology.build(1).unwrap();
    assert_eq!(links_of(&send(&mut network, 0, Destination::Station(1))), [0, 2, 3, 4]);
    // The route with the longest prefix applies, in any order.
    topology.add_route(ROUTER(0), cidr("10.9.0.0/16"), "10.1.0.2".parse().unwrap());
    let mut network = topology.build(1).unwrap();
    assert_eq!(links_of(&send(&mut network, 0, Destination::Station(1))), [0, 1, 4]);
}

#[test]
fn a_routing_loop_ends_with_a_drop() {
    let mut topology = triangle();
    topology.add_route(ROUTER(0), cidr("10.9.0.0/16"), "10.1.0.2".parse().unwrap());
    topology.add_route(ROUTER(1), cidr("10.9.0.0/8"), "10.1.0.1".parse().unwrap());
    // Router 1 has a link to host 1, but the static route overrides it.
    let log = send(&mut topology.build(1).unwrap(), 0, Destination::Station(1));
    assert_eq!((log.delivered.len(), log.dropped.clone()), (0, vec![(DropCause::Router, 7)]));
    assert!(log.passed.len() > 255, "{} links passed", log.passed.len());
}

#[test]
fn hosts_do_not_forward() {
    let (h, r) = (Node::Host, ROUTER);
    let mut network = topology(3, 0, 1, &[(h(0), h(1)), (h(1), h(2)), (h(2), r(0))]).build(1).unwrap();
    // Stations: h0, h1 to h0, h1 to h2, h2 to h1, h2 to r0.
    let log = send(&mut network, 0, Destination::Station(3));
    assert_eq!(log.dropped, [(DropCause::Router, 7)]);
    assert_eq!(network.next_hop(0, 3), None);
    assert_eq!(network.next_hop(1, 3).unwrap().interface, 1);
}

#[test]
fn invalid_addresses_and_routes_are_rejected() {
    let build = |change: &dyn Fn(&mut Topology)| {
        let mut topology = triangle();
        change(&mut topology);
        topology.build::<TestPacket>(1).map(|_| ()).unwrap_err()
    };
    let via = "10.1.0.9".parse().unwrap();
    assert_eq!(
        build(&|t| t.add_route(ROUTER(0), cidr("0.0.0.0/0"), via)),
        TopologyError::BadRoute(ROUTER(0), via)
    );
    assert_eq!(
        build(&|t| t.add_address(Node::Host(1), 1, cidr("10.1.0.7/24"))),
        TopologyError::NoInterface(Node::Host(1), 1)
    );
    let same = cidr("10.9.0.2/16");
    assert_eq!(build(&|t| t.add_address(Node::Host(0), 0, same)), TopologyError::SameAddress(same.address));
}

#[test]
fn packets_above_the_mtu_are_dropped_at_the_link() {
    let mut topology = Topology::new(2, 1);
    let narrow = PipeSpec { mtu: Some(1000), ..PipeSpec::default() };
    topology.add_link(Node::Host(0), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
    topology.add_link(Node::Switch(0), Node::Host(1), narrow.clone(), PipeSpec::default());
    let mut network = topology.build(1).unwrap();
    let mut log = Log::default();
    let second = PipeId { link: 1, direction: Direction::Forward };
    let train = |first, bytes| TestPacket { first, segments: 3, bytes, last_bytes: 10 };
    for packet in [train(0, 1000), train(10, 1001)] {
        network.send(0, Instant::ZERO, Destination::Station(1), packet, &mut log);
    }
    network.change_pipe(second, Instant::ZERO, &PipeSpec::default());
    network.send(0, Instant::ZERO, Destination::Station(1), train(20, 1001), &mut log);
    network.run_until(END, &mut log);
    assert_eq!(log.delivered.iter().map(|d| d.2).collect::<Vec<_>>(), [0, 20]);
    assert_eq!(log.dropped, [(DropCause::Mtu, 10)]);
}

#[test]
fn scheduled_changes_apply_before_packets_of_the_same_instant() {
    let mut topology = Topology::new(2, 1);
    let delay = |ms: u64| PipeSpec { delay: Time::from_millis(ms), ..PipeSpec::default() };
    topology.add_link(Node::Host(0), Node::Switch(0), delay(5), PipeSpec::default());
    topology.add_link(Node::Switch(0), Node::Host(1), PipeSpec::default(), PipeSpec::default());
    let mut network = topology.build(1).unwrap();
    let second = PipeId { link: 1, direction: Direction::Forward };
    // The packet arrives at the second link at 5 ms.
    network.schedule_change(Instant::from_millis(5), second, delay(1));
    network.schedule_change(Instant::from_millis(5), second, delay(7));
    network.schedule_change(Instant::from_nanos(5_000_001), second, delay(100));
    network.schedule_change(Instant::from_millis(2), second, delay(50));
    assert_eq!(network.next_event(), Some(Instant::from_millis(2)));
    let mut log = Log::default();
    network.send(0, Instant::ZERO, Destination::Station(1), TestPacket::single(1, 100), &mut log);
    network.run_until(Instant::from_millis(5), &mut log);
    assert_eq!(network.next_event(), Some(Instant::from_nanos(5_000_001)));
    network.run_until(Instant::from_millis(5), &mut log);
    assert_eq!(log.passed.len(), 1);
    let mut second_network = topology.build(1).unwrap();
    second_network.schedule_change(Instant::from_millis(5), second, delay(7));
    second_network.send(0, Instant::ZERO, Destination::Station(1), TestPacket::single(1, 100), &mut log);
    second_network.run_until(END, &mut log);
    assert_eq!(log.delivered, [(1, Instant::from_millis(12), 1)]);
    assert_eq!(second_network.next_event(), None, "no event and no expired timer remains");
}

#[test]
fn a_train_crosses_routers_without_being_stored() {
    let slow = || PipeSpec { rate: Rate::Constant(BitRate(1_000_000_000)), ..PipeSpec::default() };
    let mut topology = Topology::new(2, 0);
    let routers = [topology.add_router(), topology.add_router()];
    topology.add_link(Node::Host(0), routers[0], PipeSpec::default(), PipeSpec::default());
    topology.add_link(routers[0], routers[1], slow(), PipeSpec::default());
    topology.add_link(routers[1], Node::Host(1), slow(), PipeSpec::default());
    let mut network = topology.build(1).unwrap();
    let mut log = Log::default();
    let train = TestPacket { first: 0, segments: 44, bytes: 1486, last_bytes: 1486 };
    network.send(0, Instant::ZERO, Destination::Station(1), train, &mut log);
    network.run_until(END, &mut log);
    assert_eq!(log.delivered[0].1, Instant::from_nanos(45 * 12_000));
}

/// Up to `max - 1` random links between this number of hosts, switches and routers.
fn links(hosts: u32, switches: u32, routers: u32, max: usize) -> impl Strategy<Value = Vec<(Node, Node)>> {
    let nodes = hosts + switches + routers;
    let node = move |n: u32| match n {
        n if n < hosts => Node::Host(n),
        n if n < hosts + switches => Node::Switch(n - hosts),
        n => Node::Router(n - hosts - switches),
    };
    let ends = (0..nodes, 1..nodes).prop_map(move |(a, step)| (node(a), node((a + step) % nodes)));
    proptest::collection::vec(ends, 1..max)
}

/// The definition: of all shortest paths from `from` that end with link `last`, the one with the lowest link
/// numbers.
fn best_path(
    links: &[(Node, Node)],
    from: Node,
    first: Option<u32>,
    target: Node,
    last: u32,
) -> Option<Vec<u32>> {
    let mut paths: Vec<(Node, Vec<u32>)> = vec![(from, Vec::new())];
    for _ in 0..=links.len() {
        let arrived = |p: &&(Node, Vec<u32>)| p.0 == target && p.1.last() == Some(&last);
        if let Some(found) = paths.iter().filter(arrived).map(|p| p.1.clone()).min() {
            return Some(found);
        }
        let extend = |(at, path): &(Node, Vec<u32>)| {
            let forwards = path.is_empty() || !matches!(at, Node::Host(_));
            let next = links.iter().enumerate().filter_map(|(i, (a, b))| match *at {
                at if at == *a => Some((i as u32, *b)),
                at if at == *b => Some((i as u32, *a)),
                _ => None,
            });
            let allowed = next.filter(|(i, _)| {
                forwards && !path.contains(i) && (!path.is_empty() || first.is_none_or(|f| f == *i))
            });
            allowed.map(|(i, node)| (node, [&path[..], &[i]].concat())).collect::<Vec<_>>()
        };
        paths = paths.iter().flat_map(extend).collect();
    }
    None
}

proptest! {
    #[test]
    fn switches_take_the_shortest_path_and_flood_once(links in links(4, 4, 0, 9)) {
        let topology = topology(4, 4, 0, &links);
        let stations = topology.stations();
        let mut network = topology.build(1).unwrap();
        for (from, a) in stations.iter().enumerate() {
            let mut reached = Vec::new();
            for (to, b) in stations.iter().enumerate().filter(|(to, _)| *to != from) {
                let best = best_path(&links, a.node, Some(a.out.link), b.node, b.out.link);
                let log = send(&mut network, from as u32, Destination::Station(to as u32));
                prop_assert_eq!(log.delivered.len() + log.dropped.len(), 1);
                match best {
                    Some(best) => {
                        reached.push(to as u32);
                        prop_assert_eq!(links_of(&log), best);
                        prop_assert_eq!(&log.delivered, &[(to as u32, Instant::ZERO, 7)]);
                    }
                    None => prop_assert_eq!(&log.dropped, &[(DropCause::Router, 7)]),
                }
            }
            let mut receivers: Vec<u32> =
                send(&mut network, from as u32, Destination::All).delivered.iter().map(|d| d.0).collect();
            receivers.sort_unstable();
            prop_assert_eq!(receivers, reached);
        }
    }

    #[test]
    fn routers_take_the_shortest_path(links in links(4, 0, 4, 9)) {
        let topology = topology(4, 0, 4, &links);
        let stations = topology.stations();
        let mut network = topology.build(1).unwrap();
        for host in 0..4 {
            let own = Node::Host(host);
            for (to, b) in stations.iter().enumerate().filter(|(_, s)| matches!(s.node, Node::Host(_)) && s.node != own) {
                let best = best_path(&links, own, None, b.node, b.out.link);
                let hop = network.next_hop(host, to as u32);
                prop_assert_eq!(hop.is_some(), best.is_some());
                let (Some(hop), Some(best)) = (hop, best) else { continue };
                let from = stations.iter().position(|s| s.node == own && s.interface == hop.interface).unwrap();
                let log = send(&mut network, from as u32, Destination::Station(to as u32));
                prop_assert_eq!(links_of(&log), best);
                prop_assert_eq!(&log.delivered, &[(to as u32, Instant::ZERO, 7)]);
            }
        }
    }

    /// In any graph a packet ends once: delivered, dropped, or consumed by the router that it is for. A next
    /// hop of a host leads to the destination.
    #[test]
    fn packets_are_conserved_in_any_graph(links in links(4, 3, 3, 14)) {
        let topology = topology(4, 3, 3, &links);
        let stations = topology.stations();
        let mut network = topology.build(1).unwrap();
        for (from, a) in stations.iter().enumerate() {
            for (to, b) in stations.iter().enumerate().filter(|(to, _)| *to != from) {
                let log = send(&mut network, from as u32, Destination::Station(to as u32));
                let is_consumed = matches!(b.node, Node::Router(_)) && log.dropped.is_empty();
                prop_assert_eq!(log.delivered.len() + log.dropped.len() + usize::from(is_consumed), 1);
                prop_assert!(log.delivered.iter().all(|d| d.0 == to as u32));
                if let Node::Host(host) = a.node
                    && network.next_hop(host, to as u32).is_some_and(|w| w.interface == a.interface)
                {
                    prop_assert!(log.dropped.is_empty());
                    let last = *log.passed.last().unwrap();
                    let end = stations.iter().find(|s| s.out.link == last.link && s.out.direction != last.direction);
                    prop_assert_eq!(end.unwrap().node, b.node);
                }
            }
        }
    }
}
