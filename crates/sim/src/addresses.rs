//! The stations that a flow's packets leave from and go to. A station is a port of a host or router in the
//! network.

use net::{Network, NetworkPacket, Station};
use scenario::{FlowSpec, Scenario};

use crate::Error;

/// A one-way route in the network's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// The sending station.
    pub(crate) from: u32,
    /// The destination station.
    pub(crate) to: u32,
    /// The next hop: the station on the sender's link layer that receives the packets first.
    pub(crate) next: u32,
}

/// The routes of a flow in both directions, and bytes of its IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// From the flow's sender to its receiver.
    pub(crate) forward: Route,
    /// From the receiver to the sender.
    pub(crate) reverse: Route,
    pub(crate) ip_header: u32,
}

/// The stations of a flow's addresses and the routes by each host's routing table.
pub(crate) fn addresses<P: NetworkPacket>(
    scenario: &Scenario,
    flow: &FlowSpec,
    stations: &[Station],
    network: &Network<P>,
) -> Result<Addresses, Error> {
    let found = || {
        let (own, peer) = scenario.flow_addresses(flow)?;
        let from = host(scenario, &flow.from)?;
        let to = host(scenario, &flow.to)?;
        let forward = route(network, stations, from, first_station(stations, to)?)?;
        // Replies go to the address of the first interface, even if requests left by another.
        let reverse = route(network, stations, to, first_station(stations, from)?)?;
        let ip_header = if own.is_ipv4() && peer.is_ipv4() { 20 } else { 40 };
        Some(Addresses { forward, reverse, ip_header })
    };
    found().ok_or_else(|| Error::NoPath(flow.name.clone()))
}

fn host(scenario: &Scenario, name: &str) -> Option<u32> {
    scenario.hosts.iter().position(|h| h.name == name).map(|i| i as u32)
}

fn first_station(stations: &[Station], host: u32) -> Option<u32> {
    stations.iter().position(|s| s.node == net::Node::Host(host)).map(|i| i as u32)
}

fn route<P: NetworkPacket>(network: &Network<P>, stations: &[Station], host: u32, to: u32) -> Option<Route> {
    if stations[to as usize].node == net::Node::Host(host) {
        return None;
    }
    let hop = network.next_hop(host, to)?;
    let from =
        stations.iter().position(|s| s.node == net::Node::Host(host) && s.interface == hop.interface)?;
    Some(Route { from: from as u32, to, next: hop.station })
}
