//! Hosts, switches, routers and the links between them, checked and made into a [`Network`].
//!
//! Any graph will do: hosts and routers may have any number of links, and switches may form loops.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    Cidr, Network, Packet, PipeSpec, Router, RouterInterface,
    address::is_link_local,
    graph::{Graph, Hop, Station},
    routed::MOST_STATIONS,
    router::{Addresses, Table, Way},
};

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A host, by index.
    Host(u32),
    /// A switch, by index.
    Switch(u32),
    /// A router, by index.
    Router(u32),
}

/// Which way along a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the link's first end to its second.
    Forward,
    /// The other way.
    Backward,
}

/// One direction of one link, in the order of [`Topology::link`] calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipeId {
    /// The link's index.
    pub link: u32,
    /// Which way.
    pub direction: Direction,
}

/// What cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyError {
    /// A link names a node that does not exist, or joins a node to itself.
    BadLink(usize),
    /// An address was given to an interface that does not exist.
    NoInterface(Node, u32),
    /// Two interfaces have the same address.
    SameAddress(IpAddr),
    /// A route leads to an address that nobody has on the networks of that node.
    BadRoute(Node, IpAddr),
    /// There are more stations than a network may have.
    TooLarge(usize),
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopologyError::BadLink(link) => {
                write!(f, "link {link} joins a node that does not exist, or one node to itself")
            }
            TopologyError::NoInterface(node, interface) => {
                write!(f, "{node} has no interface {interface}: it has not so many links")
            }
            TopologyError::SameAddress(address) => write!(f, "two interfaces have the address {address}"),
            TopologyError::BadRoute(node, via) => {
                write!(f, "{node} has a route by {via}, which nobody on its links has as address")
            }
            TopologyError::TooLarge(stations) => {
                write!(f, "{stations} ends of links at hosts and routers: fewer than {MOST_STATIONS} will do")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Host(h) => write!(f, "host {h}"),
            Node::Switch(s) => write!(f, "switch {s}"),
            Node::Router(r) => write!(f, "router {r}"),
        }
    }
}

/// A network's plan.
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
    /// A plan of so many hosts and switches, without links.
    pub fn new(hosts: u32, switches: u32) -> Self {
        Topology { hosts, switches, routers: 0, links: Vec::new(), addresses: Vec::new(), routes: Vec::new() }
    }

    /// One more router.
    pub fn router(&mut self) -> Node {
        self.routers += 1;
        Node::Router(self.routers - 1)
    }

    /// Joins `a` and `b`; `forward` is the direction from `a` to `b`. The links of a host or router are its
    /// interfaces, in this order.
    pub fn link(&mut self, a: Node, b: Node, forward: PipeSpec, backward: PipeSpec) {
        self.links.push((a, b, forward, backward));
    }

    /// Gives an interface of a host or router an address, by which routers find it.
    pub fn address(&mut self, node: Node, interface: u32, address: Cidr) {
        self.addresses.push((node, interface, address));
    }

    /// Gives a router or host a static route: to all addresses of `to` by way of the neighbour with the address `via`.
    pub fn route(&mut self, node: Node, to: Cidr, via: IpAddr) {
        self.routes.push((node, to, via));
    }

    /// All stations: the hosts' first, by host and then in the links' order, then the routers'. With one link a
    /// host, station and host have the same number. Links that [`Topology::build`] refuses have none.
    pub fn stations(&self) -> Vec<Station> {
        self.graph().stations
    }

    /// Checks the plan and builds the network; `seed` is for its losses.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn build<P: Packet>(&self, seed: u64) -> Result<Network<P>, TopologyError> {
        for (i, (a, b, _, _)) in self.links.iter().enumerate() {
            if !self.exists(*a) || !self.exists(*b) || a == b {
                return Err(TopologyError::BadLink(i));
            }
        }
        let graph = self.graph();
        if graph.stations.len() >= MOST_STATIONS as usize {
            return Err(TopologyError::TooLarge(graph.stations.len()));
        }
        let domains = graph.domains();
        let addresses = Arc::new(self.addresses(&graph.stations)?);
        let tables = self.tables(&graph, &domains, &addresses)?;
        let specs: Vec<PipeSpec> =
            self.links.iter().flat_map(|(_, _, f, b)| [f.clone(), b.clone()]).collect();
        let (host_tables, router_tables) = tables.split_at(tables.len() - self.routers as usize);
        let router = |(index, table): (usize, &Table)| {
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
        let good = self.links.iter().filter(|l| self.exists(l.0) && self.exists(l.1));
        let hops = good.flat_map(|l| [Hop { from: l.0, to: l.1 }, Hop { from: l.1, to: l.0 }]).collect();
        Graph::new(self.hosts, self.switches, self.routers, hops)
    }

    fn addresses(&self, stations: &[Station]) -> Result<Addresses, TopologyError> {
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
        Ok(Addresses { of_station, owners: owners.into_iter().collect() })
    }

    /// The tables of all hosts, then of all routers. Without routers nobody needs any.
    fn tables(
        &self,
        graph: &Graph,
        domains: &[u32],
        addresses: &Arc<Addresses>,
    ) -> Result<Vec<Table>, TopologyError> {
        if self.routers == 0 {
            return Ok(Vec::new());
        }
        let nodes = (0..self.hosts).map(Node::Host).chain((0..self.routers).map(Node::Router));
        let mut tables = nodes
            .map(|node| {
                let own = (0..graph.stations.len()).filter(|s| graph.stations[*s].node == node);
                Ok(Table {
                    routes: self.static_routes(node, graph, domains, addresses)?,
                    networks: own.flat_map(|s| addresses.of_station[s].clone()).collect(),
                    ways: Vec::with_capacity(graph.stations.len()),
                    addresses: addresses.clone(),
                })
            })
            .collect::<Result<Vec<Table>, TopologyError>>()?;
        for station in 0..graph.stations.len() {
            let ways = graph.ways(station);
            let (hosts, others) = ways.split_at(self.hosts as usize);
            let ends = hosts.iter().chain(&others[self.switches as usize..]);
            tables.iter_mut().zip(ends).for_each(|(table, way)| table.ways.push(*way));
        }
        Ok(tables)
    }

    fn static_routes(
        &self,
        node: Node,
        graph: &Graph,
        domains: &[u32],
        addresses: &Addresses,
    ) -> Result<Vec<(Cidr, Way)>, TopologyError> {
        let own: Vec<usize> = (0..graph.stations.len()).filter(|s| graph.stations[*s].node == node).collect();
        let way = |via: IpAddr| {
            let has = |station: usize| addresses.of_station[station].iter().any(|a| a.address == via);
            own.iter().find_map(|&from| {
                let neighbours = (0..graph.stations.len()).filter(|s| domains[*s] == domains[from]);
                let station = neighbours.filter(|s| !own.contains(s)).find(|s| has(*s))? as u32;
                Some(Way { interface: graph.stations[from].interface, station })
            })
        };
        let mut routes = Vec::new();
        for &(_, to, via) in self.routes.iter().filter(|r| r.0 == node) {
            routes.push((to, way(via).ok_or(TopologyError::BadRoute(node, via))?));
        }
        // Stable: of two alike the first counts.
        routes.sort_by_key(|(to, _)| std::cmp::Reverse(to.prefix));
        Ok(routes)
    }
}
