//! Builds the network of a scenario: nodes, links with their changes, addresses and routes.

use net::{Direction, Network, NetworkPacket, Node, PipeId, Topology, TopologyError};
use scenario::{Interface, Scenario, StaticRoute};

/// The scenario's network, with every change of its links scheduled.
///
/// # Errors
/// [`TopologyError`] if the scenario's links, addresses or routes do not fit together.
pub fn build_network<P: NetworkPacket>(scenario: &Scenario) -> Result<Network<P>, TopologyError> {
    let mut network = build_topology(scenario).build(scenario.seed)?;
    for (index, link) in scenario.links.iter().enumerate() {
        for change in &link.changes {
            network.schedule_change(change.at, pipe(index, Direction::Forward), change.forward.clone());
            network.schedule_change(change.at, pipe(index, Direction::Backward), change.backward.clone());
        }
    }
    Ok(network)
}

/// The scenario's topology. Its stations map ports to hosts and routers. An unknown name of a link's end
/// becomes a node that [`Topology::build`] rejects.
pub fn build_topology(scenario: &Scenario) -> Topology {
    let mut topology = Topology::new(scenario.hosts.len() as u32, scenario.switches.len() as u32);
    scenario.routers.iter().for_each(|_| _ = topology.add_router());
    for link in &scenario.links {
        let [a, b] = &link.ends;
        topology.add_link(node(scenario, a), node(scenario, b), link.forward.clone(), link.backward.clone());
    }
    for (index, host) in scenario.hosts.iter().enumerate() {
        // The network has no port for an interface without a link.
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
            topology.add_address(node, index as u32, *cidr);
        }
    }
    for route in routes {
        topology.add_route(node, route.to, route.via);
    }
}

fn pipe(link: usize, direction: Direction) -> PipeId {
    PipeId { link: link as u32, direction }
}
