//! The ways through a graph of hosts, switches and routers.
//!
//! Between stations of one switched network a packet takes the shortest way through its switches. To any other
//! station it takes the shortest way of all, counted in links, until it comes to a router on the
//! station's switched network. Of several shortest ways it takes the one whose links come first in the
//! plan, link by link from the sender; so the way is the same whether it is chosen at once or hop by hop.

use std::collections::VecDeque;

use crate::{Direction, Node, PipeId, router::Way};

/// A pipe's ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub(crate) from: Node,
    pub(crate) to: Node,
}

/// The end of a link at a host or a router: what has an address of its own at the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// The host or router.
    pub node: Node,
    /// Which of its links, in the links' order.
    pub interface: u32,
    /// The direction of that link that leads away from the node.
    pub out: PipeId,
}

/// The plan's graph: nodes by number (hosts, switches, routers), pipes by number.
pub(crate) struct Graph {
    hosts: u32,
    switches: u32,
    pub(crate) hops: Vec<Hop>,
    /// For each node the pipes that lead away from it, in the links' order.
    pub(crate) out: Vec<Vec<usize>>,
    pub(crate) stations: Vec<Station>,
    /// For each pipe the station at its far end.
    pub(crate) arrives_at: Vec<Option<u32>>,
}

/// Not reached.
const FAR: u32 = u32::MAX;

impl Graph {
    /// `hops` in pairs: a link's forward pipe, then its backward pipe. All of their nodes must exist.
    pub(crate) fn new(hosts: u32, switches: u32, routers: u32, hops: Vec<Hop>) -> Self {
        let nodes = (hosts + switches + routers) as usize;
        let mut graph = Graph {
            hosts,
            switches,
            out: vec![Vec::new(); nodes],
            stations: Vec::new(),
            arrives_at: vec![None; hops.len()],
            hops,
        };
        for (pipe, hop) in graph.hops.iter().enumerate() {
            graph.out[number(hosts, switches, hop.from)].push(pipe);
        }
        for node in (0..hosts).map(Node::Host).chain((0..routers).map(Node::Router)) {
            for (interface, &pipe) in graph.out[graph.number(node)].iter().enumerate() {
                graph.arrives_at[twin(pipe)] = Some(graph.stations.len() as u32);
                graph.stations.push(Station {
                    node,
                    interface: interface as u32,
                    out: PipeId::from_index(pipe),
                });
            }
        }
        graph
    }

    pub(crate) fn number(&self, node: Node) -> usize {
        number(self.hosts, self.switches, node)
    }

    fn to(&self, pipe: usize) -> usize {
        self.number(self.hops[pipe].to)
    }

    fn is_switch(&self, node: usize) -> bool {
        (self.hosts as usize..(self.hosts + self.switches) as usize).contains(&node)
    }

    fn is_host(&self, node: usize) -> bool {
        node < self.hosts as usize
    }

    /// For each station a number that those share which reach each other through switches alone.
    pub(crate) fn domains(&self) -> Vec<u32> {
        let mut of_pipe = vec![FAR; self.hops.len()];
        for first in 0..self.hops.len() {
            if of_pipe[first] != FAR {
                continue;
            }
            let mut todo = VecDeque::from([first, twin(first)]);
            while let Some(pipe) = todo.pop_front() {
                if of_pipe[pipe] == FAR {
                    of_pipe[pipe] = first as u32;
                    let to = self.to(pipe);
                    if self.is_switch(to) {
                        todo.extend(self.out[to].iter().flat_map(|&next| [next, twin(next)]));
                    }
                }
            }
        }
        self.stations.iter().map(|s| of_pipe[s.out.index()]).collect()
    }

    /// For each switch the pipe to take to `station`, over switches alone.
    pub(crate) fn switch_ways(&self, station: usize) -> Vec<Option<u32>> {
        let distance = self.switch_distances(station);
        let way = |switch: u32| {
            let node = self.number(Node::Switch(switch));
            match distance[node] {
                FAR => None,
                1 => Some(twin(self.stations[station].out.index()) as u32),
                far => {
                    self.out[node].iter().find(|&&pipe| distance[self.to(pipe)] == far - 1).map(|&p| p as u32)
                }
            }
        };
        (0..self.switches).map(way).collect()
    }

    /// Links from each switch to `station`, over switches alone.
    fn switch_distances(&self, station: usize) -> Vec<u32> {
        let mut distance = vec![FAR; self.out.len()];
        let mut todo = VecDeque::new();
        let begin = self.to(self.stations[station].out.index());
        if self.is_switch(begin) {
            distance[begin] = 1;
            todo.push_back(begin);
        }
        while let Some(node) = todo.pop_front() {
            for next in self.out[node].iter().map(|&pipe| self.to(pipe)) {
                if self.is_switch(next) && distance[next] == FAR {
                    distance[next] = distance[node] + 1;
                    todo.push_back(next);
                }
            }
        }
        distance
    }

    /// For each switch the pipes by which a broadcast leaves it: all links to stations, and of those between
    /// switches a spanning tree (the shortest ways from the first switch of each domain).
    pub(crate) fn flood_tree(&self) -> Vec<Vec<u32>> {
        let mut in_tree = vec![false; self.hops.len()];
        let mut seen = vec![false; self.out.len()];
        for switch in 0..self.switches {
            let root = self.number(Node::Switch(switch));
            let mut todo = VecDeque::new();
            if !seen[root] {
                seen[root] = true;
                todo.push_back(root);
            }
            while let Some(node) = todo.pop_front() {
                for &pipe in &self.out[node] {
                    let to = self.to(pipe);
                    let is_new = !self.is_switch(to) || !std::mem::replace(&mut seen[to], true);
                    if is_new {
                        in_tree[pipe] = true;
                        in_tree[twin(pipe)] = true;
                        if self.is_switch(to) {
                            todo.push_back(to);
                        }
                    }
                }
            }
        }
        let leaving = |switch: u32| {
            let out = &self.out[self.number(Node::Switch(switch))];
            out.iter().filter(|&&pipe| in_tree[pipe]).map(|&pipe| pipe as u32).collect()
        };
        (0..self.switches).map(leaving).collect()
    }

    /// For each node the first step of the way to `station`: directly, where switches alone lead there, else the
    /// shortest way, hosts forwarding nothing. A way to a host ends with the station's own link; a router is
    /// reached through any of its links.
    pub(crate) fn ways(&self, station: usize) -> Vec<Option<Way>> {
        let target = self.number(self.stations[station].node);
        let last = self.is_host(target).then(|| twin(self.stations[station].out.index()));
        let distance = self.distances(target, last);
        // The first pipe that leads nearer.
        let nearer = |node: usize| {
            self.out[node].iter().copied().find(|&pipe| {
                let to = self.to(pipe);
                let is_on_the_way =
                    if to == target { last.is_none_or(|l| l == pipe) } else { !self.is_host(to) };
                is_on_the_way && distance[to] != FAR && distance[to] + 1 == distance[node]
            })
        };
        let switches = self.switch_distances(station);
        let own_link = self.stations[station].out.link;
        let direct = |node: usize| {
            let far = |pipe: usize| match pipe / 2 == own_link as usize {
                true => 0,
                false => switches[self.to(pipe)],
            };
            let nearest = (0..self.out[node].len()).min_by_key(|i| far(self.out[node][*i]))?;
            let is_reached = far(self.out[node][nearest]) != FAR;
            is_reached.then_some(Way { interface: nearest as u32, station: station as u32 })
        };
        let way = |node: usize| {
            if node == target || self.is_switch(node) {
                return None;
            }
            if let Some(way) = direct(node) {
                return Some(way);
            }
            let first = nearer(node)?;
            let mut pipe = first;
            while self.is_switch(self.to(pipe)) {
                pipe = nearer(self.to(pipe))?;
            }
            let interface = self.out[node].iter().position(|&p| p == first)? as u32;
            Some(Way { interface, station: self.arrives_at[pipe]? })
        };
        (0..self.out.len()).map(way).collect()
    }

    /// Links from each node to `target`; by the pipe `last` alone, where one is given.
    fn distances(&self, target: usize, last: Option<usize>) -> Vec<u32> {
        let mut distance = vec![FAR; self.out.len()];
        distance[target] = 0;
        let mut todo = VecDeque::from([target]);
        while let Some(node) = todo.pop_front() {
            if self.is_host(node) && node != target {
                continue;
            }
            for &pipe in &self.out[node] {
                let next = self.to(pipe);
                let is_allowed = node != target || last.is_none_or(|l| twin(l) == pipe);
                if is_allowed && distance[next] == FAR {
                    distance[next] = distance[node] + 1;
                    todo.push_back(next);
                }
            }
        }
        distance
    }
}

/// The other direction of the same link.
pub(crate) fn twin(pipe: usize) -> usize {
    pipe ^ 1
}

fn number(hosts: u32, switches: u32, node: Node) -> usize {
    (match node {
        Node::Host(h) => h,
        Node::Switch(s) => hosts + s,
        Node::Router(r) => hosts + switches + r,
    }) as usize
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
