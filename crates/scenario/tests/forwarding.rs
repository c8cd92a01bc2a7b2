//! The network forwards packets along the scenario's paths, and the seed determines the losses.

use std::collections::BTreeSet;

use net::{
    Destination, DropCause, Network, Node, PacketSink, PipeId, Topology, TrainTimes, test_packet::TestPacket,
};
use proptest::prelude::*;
use scenario::{Interface, PathHop, Scenario, ScenarioFile, StaticRoute};
use units::Instant;

const END: Instant = Instant::from_nanos(u64::MAX / 4);

fn resolved(text: &str) -> Result<Scenario, String> {
    let file = ScenarioFile::parse("net.toml", text).map_err(|e| e.to_string())?;
    file.resolve(None, &[]).map_err(|e| e.to_string())
}

fn node(scenario: &Scenario, name: &str) -> Node {
    let host = scenario.hosts.iter().position(|h| h.name == name).map(|i| Node::Host(i as u32));
    let router = || scenario.routers.iter().position(|r| r.name == name).map(|i| Node::Router(i as u32));
    let switch = || scenario.switches.iter().position(|s| s == name).map(|i| Node::Switch(i as u32));
    host.or_else(router).or_else(switch).unwrap()
}

fn configure(topology: &mut Topology, node: Node, interfaces: &[Interface], routes: &[StaticRoute]) {
    for (index, interface) in interfaces.iter().enumerate() {
        interface.addresses.iter().for_each(|address| topology.add_address(node, index as u32, *address));
    }
    routes.iter().for_each(|route| topology.add_route(node, route.to, route.via));
}

fn topology(scenario: &Scenario) -> Topology {
    let mut topology = Topology::new(scenario.hosts.len() as u32, scenario.switches.len() as u32);
    scenario.routers.iter().for_each(|_| _ = topology.add_router());
    for link in &scenario.links {
        let [a, b] = link.ends.each_ref().map(|end| node(scenario, end));
        topology.add_link(a, b, link.forward.clone(), link.backward.clone());
    }
    for host in &scenario.hosts {
        configure(&mut topology, node(scenario, &host.name), &host.interfaces, &host.routes);
    }
    for router in &scenario.routers {
        configure(&mut topology, node(scenario, &router.name), &router.interfaces, &router.routes);
    }
    topology
}

#[derive(Default)]
struct Log {
    delivered: Vec<u32>,
    passed: Vec<PipeId>,
    dropped: Vec<(Instant, PipeId, DropCause, u64)>,
}

impl PacketSink<TestPacket> for Log {
    fn deliver(&mut self, station: u32, _at: Instant, _packet: TestPacket) {
        self.delivered.push(station);
    }
    fn drop(&mut self, pipe: PipeId, at: Instant, cause: DropCause, packet: TestPacket) {
        self.dropped.push((at, pipe, cause, packet.first));
    }
    fn pass(&mut self, pipe: PipeId, _train: TrainTimes, _packet: &TestPacket) {
        self.passed.push(pipe);
    }
}

/// The links that a packet crosses from host to host, to the first interface of the second; `None` if it does
/// not arrive.
fn sent(topology: &Topology, from: usize, to: usize) -> Option<Vec<PathHop>> {
    let mut network: Network<TestPacket> = topology.build(1).unwrap();
    let stations = topology.stations();
    let station = |host: usize, interface: u32| {
        let found =
            stations.iter().position(|s| s.node == Node::Host(host as u32) && s.interface == interface);
        found.map(|s| s as u32)
    };
    let target = station(to, 0)?;
    let next_hop = network.next_hop(from as u32, target)?;
    let mut log = Log::default();
    let packet = TestPacket::single(1, 100);
    network.send(
        station(from, next_hop.interface)?,
        Instant::ZERO,
        Destination::Station(target),
        packet,
        &mut log,
    );
    network.run_until(END, &mut log);
    let hop = |p: &PipeId| PathHop { link: p.link as usize, direction: p.direction };
    (log.delivered == [target]).then(|| log.passed.iter().map(hop).collect())
}

/// Hosts with one link each, at any of the switches and routers, which form any topology.
#[derive(Debug, Clone)]
struct Plan {
    /// The switch or router of each host.
    hosts: Vec<usize>,
    switches: usize,
    routers: usize,
    links: Vec<(usize, usize)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    (1..4usize, 1..5usize).prop_flat_map(|(switches, routers)| {
        let nodes = switches + routers;
        let hosts = proptest::collection::vec(0..nodes, 2..5);
        let links = proptest::collection::vec((0..nodes, 0..nodes), 1..10);
        (hosts, links).prop_map(move |(hosts, links)| Plan { hosts, switches, routers, links })
    })
}

impl Plan {
    fn node(&self, at: usize) -> String {
        if at < self.switches { format!("s{at}") } else { format!("r{}", at - self.switches) }
    }

    /// The root of each node's domain: switches that are linked are one, every link of a router one of its
    /// own unless a switch is at its other end.
    fn switch_roots(&self) -> Vec<usize> {
        let mut root: Vec<usize> = (0..self.switches).collect();
        for _ in 0..self.switches {
            for &(a, b) in &self.links {
                if a < self.switches && b < self.switches {
                    let smaller = root[a].min(root[b]);
                    (root[a], root[b]) = (smaller, smaller);
                }
            }
        }
        root
    }

    /// The scenario file; hosts of one domain share a network.
    fn text(&self) -> String {
        let roots = self.switch_roots();
        let mut text = String::new();
        for (host, &at) in self.hosts.iter().enumerate() {
            let network = if at < self.switches { roots[at] } else { 100 + host };
            text += &format!("[hosts.h{host}]\naddress = \"10.0.{network}.{}/24\"\n", host + 1);
        }
        let names = |range: std::ops::Range<usize>| range.map(|p| self.node(p)).collect::<Vec<_>>();
        text += &format!("[routers]\nnames = {:?}\n", names(self.switches..self.switches + self.routers));
        text += &format!("[switches]\nnames = {:?}\n", names(0..self.switches));
        let mut seen = BTreeSet::new();
        for &(a, b) in self.links.iter().filter(|(a, b)| a != b) {
            // Parallel links need a name.
            let (a, b) = (self.node(a), self.node(b));
            let number = seen.len();
            seen.insert((a.clone(), b.clone(), number));
            text += &format!("[[links]]\nname = \"l{number}\"\nends = [\"{a}\", \"{b}\"]\n");
        }
        for (host, &at) in self.hosts.iter().enumerate() {
            text += &format!("[[links]]\nends = [\"h{host}\", \"{}\"]\n", self.node(at));
        }
        text
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn packets_follow_the_scenarios_paths(plan in plans()) {
        let text = plan.text();
        let Ok(scenario) = resolved(&text) else { return Err(TestCaseError::reject(format!("not a network: {}", resolved(&text).unwrap_err()))) };
        let topology = topology(&scenario);
        for from in 0..scenario.hosts.len() {
            for to in (0..scenario.hosts.len()).filter(|to| *to != from) {
                let printed = scenario.path(&scenario.hosts[from].name, &scenario.hosts[to].name);
                prop_assert_eq!(&printed, &sent(&topology, from, to), "h{} to h{} of\n{}", from, to, text);
            }
        }
    }
}

const LOSSY: &str = r#"
seed = 1
[hosts.h1]
address = "10.0.1.1/24"
[hosts.h2]
address = "10.0.2.1/24"
[routers]
names = ["r1"]
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
forward = { loss = { to_bad = 0.02, to_good = 0.3, model = "gilbert-elliott" } }
[[links]]
ends = ["s1", "r1"]
forward = { rate = "50mbit", queue = "60kB", delay = "2ms", jitter = "300us", qdisc = { kind = "red", min = "10kB", max = "40kB" } }
[[links]]
ends = ["r1", "h2"]
forward = { rate = "40mbit", queue = "20p", loss = "1%", duplicate = "1%" }
"#;

fn drops(seed: u64) -> Vec<(Instant, PipeId, DropCause, u64)> {
    let scenario = resolved(&LOSSY.replace("seed = 1", &format!("seed = {seed}"))).unwrap();
    let topology = topology(&scenario);
    let mut network: Network<TestPacket> = topology.build(scenario.seed).unwrap();
    let mut log = Log::default();
    for number in 0..3000u64 {
        let now = Instant::from_nanos(number * 200_000 + number * number % 50_000);
        network.run_until(now, &mut log);
        network.send(0, now, Destination::Station(1), TestPacket::single(number, 1486), &mut log);
    }
    network.run_until(END, &mut log);
    log.dropped
}

#[test]
fn a_scenario_and_its_seed_drop_the_same_packets_in_the_same_order() {
    let first = drops(1);
    assert_eq!(first, drops(1));
    assert_ne!(first, drops(2));
    for cause in [DropCause::Loss, DropCause::Aqm, DropCause::Queue] {
        assert!(first.iter().any(|drop| drop.2 == cause), "{cause:?} among {} drops", first.len());
    }
    // Only the seed determines the wire's losses on the first link; the queue discipline does not change
    // them.
    let wire = |seed| drops(seed).into_iter().filter(|d| d.1.link == 0).map(|d| d.3).collect::<Vec<_>>();
    assert!(wire(1).len() > 50 && wire(1) != wire(2), "{}", wire(1).len());
}
