//! From a scenario to a network: nodes by number, and which directions are worth sampling.

use datagrams::{Draws, Source, SourcePlan};
use net::{Direction, Network, Node, Packet, PipeId, Topology, TopologyError};
use units::Time;

use crate::{Interface, Scenario, StaticRoute, Udp};

/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: u32 = 8;

/// A direction of a link that is not ideal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPipe {
    /// The network's number of it.
    pub pipe: PipeId,
    /// Index into [`Scenario::links`].
    pub link: usize,
    /// From the link's second end to its first.
    pub reversed: bool,
    /// The link's name.
    pub name: String,
}

impl SampledPipe {
    /// `forward` or `backward`.
    pub fn direction(&self) -> &'static str {
        if self.reversed { "backward" } else { "forward" }
    }
}

/// The scenario's network, with all changes of its links to come.
///
/// # Errors
/// Where the scenario's links, addresses or routes do not fit together.
pub fn network<P: Packet>(scenario: &Scenario) -> Result<Network<P>, TopologyError> {
    let mut network = topology(scenario).build(scenario.seed)?;
    for (index, link) in scenario.links.iter().enumerate() {
        for change in &link.changes {
            network.schedule(change.at, pipe(index, Direction::Forward), change.forward.clone());
            network.schedule(change.at, pipe(index, Direction::Backward), change.backward.clone());
        }
    }
    Ok(network)
}

/// The scenario's topology; its stations say which port is whose. Names that it does not know become nodes that
/// `build` refuses.
pub fn topology(scenario: &Scenario) -> Topology {
    let mut topology = Topology::new(scenario.hosts.len() as u32, scenario.switches.len() as u32);
    scenario.routers.iter().for_each(|_| _ = topology.router());
    for link in &scenario.links {
        let [a, b] = &link.ends;
        topology.link(node(scenario, a), node(scenario, b), link.forward.clone(), link.backward.clone());
    }
    for (index, host) in scenario.hosts.iter().enumerate() {
        // An interface without a link reaches nobody.
        let links = scenario.link_count(&host.name);
        let interfaces = &host.interfaces[..links.min(host.interfaces.len())];
        configure(&mut topology, Node::Host(index as u32), interfaces, &host.routes);
    }
    for (index, router) in scenario.routers.iter().enumerate() {
        configure(&mut topology, Node::Router(index as u32), &router.interfaces, &router.routes);
    }
    topology
}

fn node(scenario: &Scenario, name: &str) -> Node {
    let switch = || scenario.switches.iter().position(|s| s == name);
    if let Some(host) = scenario.hosts.iter().position(|h| h.name == name) {
        Node::Host(host as u32)
    } else if let Some(router) = scenario.routers.iter().position(|r| r.name == name) {
        Node::Router(router as u32)
    } else {
        Node::Switch(switch().map_or(u32::MAX, |s| s as u32))
    }
}

fn configure(topology: &mut Topology, node: Node, interfaces: &[Interface], routes: &[StaticRoute]) {
    for (index, interface) in interfaces.iter().enumerate() {
        for cidr in &interface.addresses {
            topology.address(node, index as u32, *cidr);
        }
    }
    for route in routes {
        topology.route(node, route.to, route.via);
    }
}

fn pipe(link: usize, direction: Direction) -> PipeId {
    PipeId { link: link as u32, direction }
}

/// How long an echo may take: a second, or some round trips of the longest path, full queues included.
pub fn patience(scenario: &Scenario) -> Time {
    const SECOND: u64 = 1_000_000_000;
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    let nanos: u64 = directions
        .map(|d| {
            let queue =
                d.rate.mean().zip(d.queue.bytes(1514)).map_or(0, |(rate, held)| rate.transmit_time(held).0);
            d.delay.0.saturating_add(queue)
        })
        .fold(0, u64::saturating_add);
    Time(nanos.saturating_mul(2).clamp(SECOND, 60 * SECOND))
}

/// The datagrams of the scenario's flow number `index` with the scenario's `seed`, from `start` on; `most` is the payload of
/// those that the flow gives no size.
pub fn source(udp: &Udp, most: u32, seed: u64, index: usize, start: Time) -> Source {
    let payload = udp.packet.map_or(most, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
    let plan = SourcePlan { rate: udp.rate, payload, together: 1, size: udp.size, bursts: udp.bursts };
    Source::new(&plan, Draws::new(seed, 2 * index as u32 + 1), start)
}

/// The directions of links that limit, delay or lose.
pub fn sampled_pipes(scenario: &Scenario) -> Vec<SampledPipe> {
    let mut pipes = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for reversed in [false, true] {
            // A direction that is ideal at first may become something else.
            let mut later =
                link.changes.iter().map(|change| if reversed { &change.backward } else { &change.forward });
            if !link.direction(reversed).is_ideal() || later.any(|spec| !spec.is_ideal()) {
                let direction = if reversed { Direction::Backward } else { Direction::Forward };
                pipes.push(SampledPipe {
                    pipe: pipe(index, direction),
                    link: index,
                    reversed,
                    name: link.name.clone(),
                });
            }
        }
    }
    pipes
}
