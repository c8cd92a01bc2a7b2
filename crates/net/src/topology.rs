//! The topology of hosts, switches, routers and links: validates it and builds a [`Network`].
//!
//! Any graph is allowed: hosts and routers may have any number of links, and switches may form loops.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    Cidr, Network, NetworkPacket, NextHop, Node, PipeSpec, Router, RouterInterface, Station,
    address::is_link_local,
    graph::{Graph, PipeEnds},
    routed::MAX_STATIONS,
    router::{RoutingTable, StationAddresses},
};

/// Why a topology is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyError {
    /// A link names a node that does not exist, or joins a node to itself.
    BadLink(usize),
    /// An address belongs to an interface that does not exist.
    NoInterface(Node, u32),
    /// Two interfaces have the same address.
    SameAddress(IpAddr),
    /// No neighbour of the node has the gateway address of its route.
    BadRoute(Node, IpAddr),
    /// There are too many stations.
    TooLarge(usize),
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopologyError::BadLink(link) => {
                write!(f, "link {link} joins a node that does not exist, or a node to itself")
            }
            TopologyError::NoInterface(node, interface) => {
                write!(f, "{node} has no interface {interface}: it has too few links")
            }
            TopologyError::SameAddress(address) => write!(f, "two interfaces have the address {address}"),
            TopologyError::BadRoute(node, via) => {
                write!(f, "{node} has a route via {via}, but no neighbour has that address")
            }
            TopologyError::TooLarge(stations) => {
                write!(f, "hosts and routers have {stations} interfaces: the limit is {}", MAX_STATIONS - 1)
            }
        }
    }
}

impl std::error::Error for TopologyError {}

/// The description of a network.
#[derive(Debug, Clone)]
pub struct Topology {
    hosts: u32,
    switches: u32,
    routers: u32,
    links: Vec<(Node, Node, PipeSpec, PipeSpec)>,
    addresses: Vec<(Node, u32, Cidr)>,
    routes: Vec<(Node, Cidr, IpAddr)>,
}

impl Topology {
    /// A topology with this many hosts and switches, without links.
    pub fn new(hosts: u32, switches: u32) -> Self {
        Topology { hosts, switches, routers: 0, links: Vec::new(), addresses: Vec::new(), routes: Vec::new() }
    }

    /// Adds a router.
    pub fn add_router(&mut self) -> Node {
        self.routers += 1;
        Node::Router(self.routers - 1)
    }

    /// Joins `a` and `b`; `forward` is the direction from `a` to `b`. The links of a host or router are its
    /// interfaces, in the order of these calls.
    pub fn add_link(&mut self, a: Node, b: Node, forward: PipeSpec, backward: PipeSpec) {
        self.links.push((a, b, forward, backward));
    }

    /// Gives an interface of a host or router an address, to which routers forward packets.
    pub fn add_address(&mut self, node: Node, interface: u32, address: Cidr) {
        self.addresses.push((node, interface, address));
    }

    /// Gives a router or host a static route to all addresses of `to` via the neighbour with the address
    /// `via`.
    pub fn add_route(&mut self, node: Node, to: Cidr, via: IpAddr) {
        self.routes.push((node, to, via));
    }

    /// All stations: those of the hosts, by host and then in the order of the links, then those of the
    /// routers. If each host has one link, the indexes of stations and hosts are equal. Links that
    /// [`Topology::build`] rejects have no stations.
    pub fn stations(&self) -> Vec<Station> {
        self.graph().stations
    }

    /// Validates the topology and builds the network; `seed` seeds all random decisions (losses, jitter,
    /// queues).
    ///
    /// # Errors
    /// The topology is invalid: see [`TopologyError`].
    pub fn build<P: NetworkPacket>(&self, seed: u64) -> Result<Network<P>, TopologyError> {
        for (i, (a, b, _, _)) in self.links.iter().enumerate() {
            if !self.exists(*a) || !self.exists(*b) || a == b {
                return Err(TopologyError::BadLink(i));
            }
        }
        let graph = self.graph();
        if graph.stations.len() >= MAX_STATIONS as usize {
            return Err(TopologyError::TooLarge(graph.stations.len()));
        }
        let domains = graph.domains();
        let addresses = Arc::new(self.addresses(&graph.stations)?);
        let tables = self.tables(&graph, &domains, &addresses)?;
        let specs: Vec<PipeSpec> =
            self.links.iter().flat_map(|(_, _, f, b)| [f.clone(), b.clone()]).collect();
        let (host_tables, router_tables) = tables.split_at(tables.len() - self.routers as usize);
        let router = |(index, table): (usize, &RoutingTable)| {
            let own = graph.stations.iter().enumerate().filter(|(_, s)| s.node == Node::Router(index as u32));
            let interfaces = own.map(|(station, s)| RouterInterface {
                station: station as u32,
                addresses: addresses.of_station[station].clone(),
                mtu: specs[s.out.index()].mtu,
            });
            Router { interfaces: interfaces.collect(), table: table.clone() }
        };
        let routers = router_tables.iter().enumerate().map(router).collect();
        Ok(Network::new(&graph, domains, host_tables.to_vec(), routers, &specs, seed))
    }

    fn exists(&self, node: Node) -> bool {
        match node {
            Node::Host(h) => h < self.hosts,
            Node::Switch(s) => s < self.switches,
            Node::Router(r) => r < self.routers,
        }
    }

    fn graph(&self) -> Graph {
        let valid = self.links.iter().filter(|l| self.exists(l.0) && self.exists(l.1));
        let pipes =
            valid.flat_map(|l| [PipeEnds { from: l.0, to: l.1 }, PipeEnds { from: l.1, to: l.0 }]).collect();
        Graph::new(self.hosts, self.switches, self.routers, pipes)
    }

    fn addresses(&self, stations: &[Station]) -> Result<StationAddresses, TopologyError> {
        let mut of_station = vec![Vec::new(); stations.len()];
        let mut owners = BTreeMap::new();
        for &(node, interface, cidr) in &self.addresses {
            let station = stations
                .iter()
                .position(|s| s.node == node && s.interface == interface)
                .ok_or(TopologyError::NoInterface(node, interface))?;
            of_station[station].push(cidr);
            if !is_link_local(cidr.address) && owners.insert(cidr.address, station as u32).is_some() {
                return Err(TopologyError::SameAddress(cidr.address));
            }
        }
        Ok(StationAddresses { of_station, owners: owners.into_iter().collect() })
    }

    /// The routing tables of all hosts, then of all routers. Empty without routers, because switches need
    /// none.
    fn tables(
        &self,
        graph: &Graph,
        domains: &[u32],
        addresses: &Arc<StationAddresses>,
    ) -> Result<Vec<RoutingTable>, TopologyError> {
        if self.routers == 0 {
            return Ok(Vec::new());
        }
        let nodes = (0..self.hosts).map(Node::Host).chain((0..self.routers).map(Node::Router));
        let mut tables = nodes
            .map(|node| {
                let own = (0..graph.stations.len()).filter(|s| graph.stations[*s].node == node);
                Ok(RoutingTable {
                    routes: self.static_routes(node, graph, domains, addresses)?,
                    networks: own.flat_map(|s| addresses.of_station[s].clone()).collect(),
                    next_hops: Vec::with_capacity(graph.stations.len()),
                    addresses: addresses.clone(),
                })
            })
            .collect::<Result<Vec<RoutingTable>, TopologyError>>()?;
        for station in 0..graph.stations.len() {
            let next_hops = graph.next_hops(station);
            let (hosts, others) = next_hops.split_at(self.hosts as usize);
            let of_nodes = hosts.iter().chain(&others[self.switches as usize..]);
            tables.iter_mut().zip(of_nodes).for_each(|(table, next_hop)| table.next_hops.push(*next_hop));
        }
        Ok(tables)
    }

    fn static_routes(
        &self,
        node: Node,
        graph: &Graph,
        domains: &[u32],
        addresses: &StationAddresses,
    ) -> Result<Vec<(Cidr, NextHop)>, TopologyError> {
        let own: Vec<usize> = (0..graph.stations.len()).filter(|s| graph.stations[*s].node == node).collect();
        let next_hop = |via: IpAddr| {
            let has = |station: usize| addresses.of_station[station].iter().any(|a| a.address == via);
            own.iter().find_map(|&from| {
                let neighbours = (0..graph.stations.len()).filter(|s| domains[*s] == domains[from]);
                let station = neighbours.filter(|s| !own.contains(s)).find(|s| has(*s))? as u32;
                Some(NextHop { interface: graph.stations[from].interface, station })
            })
        };
        let mut routes = Vec::new();
        for &(_, to, via) in self.routes.iter().filter(|r| r.0 == node) {
            routes.push((to, next_hop(via).ok_or(TopologyError::BadRoute(node, via))?));
        }
        // The sort is stable: of two equal prefixes the first route applies.
        routes.sort_by_key(|(to, _)| std::cmp::Reverse(to.prefix));
        Ok(routes)
    }
}
