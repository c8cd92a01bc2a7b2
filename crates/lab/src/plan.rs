//! From a scenario to a network: nodes by number, and which directions are worth sampling.

use net::{Direction, Network, Node, Packet, PipeId, Topology, TopologyError};
use scenario::{Interface, Scenario, StaticRoute};

/// A direction of a link that is not ideal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampledPipe {
    pub(crate) pipe: PipeId,
    pub(crate) link: usize,
    pub(crate) reversed: bool,
    pub(crate) name: String,
}

impl SampledPipe {
    /// `forward` or `backward`.
    pub(crate) fn direction(&self) -> &'static str {
        if self.reversed { "backward" } else { "forward" }
    }
}

/// The scenario's network, with all changes of its links to come.
///
/// # Errors
/// Where the scenario's links, addresses or routes do not fit together.
pub(crate) fn network<P: Packet>(scenario: &Scenario) -> Result<Network<P>, TopologyError> {
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
pub(crate) fn topology(scenario: &Scenario) -> Topology {
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

/// The directions of links that limit, delay or lose.
pub(crate) fn sampled_pipes(scenario: &Scenario) -> Vec<SampledPipe> {
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
