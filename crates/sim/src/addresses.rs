//! Which stations a flow's packets leave and go to.

use net::{Network, Packet, Station};
use scenario::{Flow, Scenario};

use crate::Error;

/// A one-way route as the network wants it told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// The station that sends.
    pub(crate) from: u32,
    /// The station that is meant.
    pub(crate) to: u32,
    /// The station on the sender's own link layer that packets go to first.
    pub(crate) next: u32,
}

/// Both ways of a flow, and its IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) there: Route,
    pub(crate) back: Route,
    pub(crate) ip_header: u32,
}

/// The stations of a flow's addresses, as each host's table leads there.
pub(crate) fn addresses<P: Packet>(
    scenario: &Scenario,
    flow: &Flow,
    stations: &[Station],
    network: &Network<P>,
) -> Result<Addresses, Error> {
    let found = || {
        let (own, peer) = scenario.flow_addresses(flow)?;
        let from = host(scenario, &flow.from)?;
        let to = host(scenario, &flow.to)?;
        let there = route(network, stations, from, first_station(stations, to)?)?;
        // Answers go to the address of the first interface, whichever way requests left.
        let back = route(network, stations, to, first_station(stations, from)?)?;
        let ip_header = if own.is_ipv4() && peer.is_ipv4() { 20 } else { 40 };
        Some(Addresses { there, back, ip_header })
    };
    found().ok_or_else(|| Error::NoWay(flow.name.clone()))
}

fn host(scenario: &Scenario, name: &str) -> Option<u32> {
    scenario.hosts.iter().position(|h| h.name == name).map(|i| i as u32)
}

fn first_station(stations: &[Station], host: u32) -> Option<u32> {
    stations.iter().position(|s| s.node == net::Node::Host(host)).map(|i| i as u32)
}

fn route<P: Packet>(network: &Network<P>, stations: &[Station], host: u32, to: u32) -> Option<Route> {
    if stations[to as usize].node == net::Node::Host(host) {
        return None;
    }
    let way = network.way(host, to)?;
    let from =
        stations.iter().position(|s| s.node == net::Node::Host(host) && s.interface == way.interface)?;
    Some(Route { from: from as u32, to, next: way.station })
}
