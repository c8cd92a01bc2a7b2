//! Hosts, switches and the links between them, checked and made into a [`Network`].

use std::collections::VecDeque;

use crate::{
    Network, Packet, PipeSpec,
    network::{Hop, Route},
};

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A host, by index.
    Host(u32),
    /// A switch, by index.
    Switch(u32),
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

impl PipeId {
    pub(crate) fn index(self) -> usize {
        self.link as usize * 2 + usize::from(self.direction == Direction::Backward)
    }

    pub(crate) fn from_index(index: usize) -> Self {
        let direction = if index.is_multiple_of(2) { Direction::Forward } else { Direction::Backward };
        PipeId { link: (index / 2) as u32, direction }
    }
}

/// What cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyError {
    /// A link names a host or switch that does not exist, or joins a node to itself.
    BadLink(usize),
    /// A host has no link, or more than one.
    HostLinks(u32, usize),
    /// This link closes a loop: a broadcast would go round for ever.
    Loop(usize),
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopologyError::BadLink(link) => {
                write!(f, "link {link} joins a node that does not exist, or one node to itself")
            }
            TopologyError::HostLinks(host, n) => {
                write!(f, "host {host} has {n} links; a host needs exactly one")
            }
            TopologyError::Loop(link) => {
                write!(f, "link {link} closes a loop of switches; broadcasts would never end")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

/// A network's plan.
#[derive(Debug, Clone)]
pub struct Topology {
    hosts: u32,
    switches: u32,
    links: Vec<(Node, Node, PipeSpec, PipeSpec)>,
}

impl Topology {
    /// A plan of so many hosts and switches, without links.
    pub fn new(hosts: u32, switches: u32) -> Self {
        Topology { hosts, switches, links: Vec::new() }
    }

    /// Joins `a` and `b`; `forward` is the direction from `a` to `b`.
    pub fn link(&mut self, a: Node, b: Node, forward: PipeSpec, backward: PipeSpec) {
        self.links.push((a, b, forward, backward));
    }

    /// Checks the plan and builds the network; `seed` is for its losses.
    pub fn build<P: Packet>(&self, seed: u64) -> Result<Network<P>, TopologyError> {
        let nodes = (self.hosts + self.switches) as usize;
        let mut group: Vec<usize> = (0..nodes).collect();
        for (i, (a, b, _, _)) in self.links.iter().enumerate() {
            let (Some(a), Some(b)) = (self.index(*a), self.index(*b)) else {
                return Err(TopologyError::BadLink(i));
            };
            if a == b {
                return Err(TopologyError::BadLink(i));
            }
            let (from, to) = (group[a], group[b]);
            if from == to {
                return Err(TopologyError::Loop(i));
            }
            group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
        }
        for host in 0..self.hosts {
            let links =
                self.links.iter().filter(|l| l.0 == Node::Host(host) || l.1 == Node::Host(host)).count();
            if links != 1 {
                return Err(TopologyError::HostLinks(host, links));
            }
        }
        let hops: Vec<Hop> = self
            .links
            .iter()
            .flat_map(|(a, b, _, _)| [Hop { from: *a, to: *b }, Hop { from: *b, to: *a }])
            .collect();
        let specs: Vec<PipeSpec> =
            self.links.iter().flat_map(|(_, _, f, b)| [f.clone(), b.clone()]).collect();
        Ok(Network::new(self.route(&hops), hops, &specs, seed))
    }

    fn index(&self, node: Node) -> Option<usize> {
        match node {
            Node::Host(h) if h < self.hosts => Some(h as usize),
            Node::Switch(s) if s < self.switches => Some((self.hosts + s) as usize),
            _ => None,
        }
    }

    /// For each node and host: the pipe to take. The plan is a forest, so there is one way at most.
    fn route(&self, hops: &[Hop]) -> Route {
        let nodes = (self.hosts + self.switches) as usize;
        let mut next = vec![vec![None; self.hosts as usize]; nodes];
        for host in 0..self.hosts as usize {
            let mut seen = vec![false; nodes];
            seen[host] = true;
            let mut todo = VecDeque::from([host]);
            while let Some(node) = todo.pop_front() {
                for (pipe, hop) in hops.iter().enumerate() {
                    let (Some(from), Some(to)) = (self.index(hop.from), self.index(hop.to)) else { continue };
                    if to == node && !seen[from] {
                        seen[from] = true;
                        next[from][host] = Some(pipe);
                        todo.push_back(from);
                    }
                }
            }
        }
        Route { hosts: self.hosts as usize, next }
    }
}
