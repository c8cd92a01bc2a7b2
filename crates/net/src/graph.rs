//! Shortest paths through a graph of hosts, switches and routers.
//!
//! Between stations of one broadcast domain a packet takes the shortest path through switches. To any other
//! station it takes the shortest path overall, counted in links, until it reaches a router in the station's
//! broadcast domain. Among several shortest paths it takes the one whose links come first in the topology,
//! link by link from the sender; so the path is the same whether it is chosen at once or hop by hop.

use std::collections::VecDeque;

use crate::{NextHop, Node, PipeId, Station, ids::opposite};

/// The two ends of one direction of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipeEnds {
    pub(crate) from: Node,
    pub(crate) to: Node,
}

/// The topology's graph: nodes by number (hosts, switches, routers), pipes by number.
pub(crate) struct Graph {
    hosts: u32,
    switches: u32,
    pub(crate) pipes: Vec<PipeEnds>,
    /// For each node the pipes that leave it, in the order of the links.
    pub(crate) out: Vec<Vec<usize>>,
    pub(crate) stations: Vec<Station>,
    /// For each pipe the station at its far end.
    pub(crate) arrives_at: Vec<Option<u32>>,
}

/// The distance of a node that was not reached, and the domain of a pipe that was not visited.
const UNREACHED: u32 = u32::MAX;

impl Graph {
    /// `pipes` holds pairs: a link's forward pipe, then its backward pipe. All nodes must exist.
    pub(crate) fn new(hosts: u32, switches: u32, routers: u32, pipes: Vec<PipeEnds>) -> Self {
        let nodes = (hosts + switches + routers) as usize;
        let mut graph = Graph {
            hosts,
            switches,
            out: vec![Vec::new(); nodes],
            stations: Vec::new(),
            arrives_at: vec![None; pipes.len()],
            pipes,
        };
        for (pipe, ends) in graph.pipes.iter().enumerate() {
            graph.out[number(hosts, switches, ends.from)].push(pipe);
        }
        for node in (0..hosts).map(Node::Host).chain((0..routers).map(Node::Router)) {
            for (interface, &pipe) in graph.out[graph.number(node)].iter().enumerate() {
                graph.arrives_at[opposite(pipe)] = Some(graph.stations.len() as u32);
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
        self.number(self.pipes[pipe].to)
    }

    fn is_switch(&self, node: usize) -> bool {
        (self.hosts as usize..(self.hosts + self.switches) as usize).contains(&node)
    }

    fn is_host(&self, node: usize) -> bool {
        node < self.hosts as usize
    }

    /// The broadcast domain of each station: stations that reach each other through switches only share a
    /// number.
    pub(crate) fn domains(&self) -> Vec<u32> {
        let mut of_pipe = vec![UNREACHED; self.pipes.len()];
        for first in 0..self.pipes.len() {
            if of_pipe[first] != UNREACHED {
                continue;
            }
            let mut todo = VecDeque::from([first, opposite(first)]);
            while let Some(pipe) = todo.pop_front() {
                if of_pipe[pipe] == UNREACHED {
                    of_pipe[pipe] = first as u32;
                    let to = self.to(pipe);
                    if self.is_switch(to) {
                        todo.extend(self.out[to].iter().flat_map(|&next| [next, opposite(next)]));
                    }
                }
            }
        }
        self.stations.iter().map(|s| of_pipe[s.out.index()]).collect()
    }

    /// For each switch the pipe towards `station`, through switches only.
    pub(crate) fn switch_pipes(&self, station: usize) -> Vec<Option<u32>> {
        let distance = self.switch_distances(station);
        let pipe_towards = |switch: u32| {
            let node = self.number(Node::Switch(switch));
            match distance[node] {
                UNREACHED => None,
                1 => Some(opposite(self.stations[station].out.index()) as u32),
                far => {
                    self.out[node].iter().find(|&&pipe| distance[self.to(pipe)] == far - 1).map(|&p| p as u32)
                }
            }
        };
        (0..self.switches).map(pipe_towards).collect()
    }

    /// The distance from each switch to `station` in links, through switches only.
    fn switch_distances(&self, station: usize) -> Vec<u32> {
        let mut distance = vec![UNREACHED; self.out.len()];
        let mut todo = VecDeque::new();
        let first = self.to(self.stations[station].out.index());
        if self.is_switch(first) {
            distance[first] = 1;
            todo.push_back(first);
        }
        while let Some(node) = todo.pop_front() {
            for next in self.out[node].iter().map(|&pipe| self.to(pipe)) {
                if self.is_switch(next) && distance[next] == UNREACHED {
                    distance[next] = distance[node] + 1;
                    todo.push_back(next);
                }
            }
        }
        distance
    }

    /// For each switch the pipes on which it sends a broadcast: all links to stations, and of the links
    /// between switches a spanning tree (the shortest paths from the first switch of each domain).
    pub(crate) fn flood_tree(&self) -> Vec<Vec<u32>> {
        let mut in_tree = vec![false; self.pipes.len()];
        let mut visited = vec![false; self.out.len()];
        for switch in 0..self.switches {
            let root = self.number(Node::Switch(switch));
            let mut todo = VecDeque::new();
            if !visited[root] {
                visited[root] = true;
                todo.push_back(root);
            }
            while let Some(node) = todo.pop_front() {
                for &pipe in &self.out[node] {
                    let to = self.to(pipe);
                    let is_new = !self.is_switch(to) || !std::mem::replace(&mut visited[to], true);
                    if is_new {
                        in_tree[pipe] = true;
                        in_tree[opposite(pipe)] = true;
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

    /// For each node the next hop towards `station`: directly if switches lead there, otherwise along the
    /// shortest path. Hosts do not forward. A path to a host ends with the link of that station; a path to a
    /// router ends with any of the router's links.
    pub(crate) fn next_hops(&self, station: usize) -> Vec<Option<NextHop>> {
        let target = self.number(self.stations[station].node);
        let last = self.is_host(target).then(|| opposite(self.stations[station].out.index()));
        let distance = self.distances(target, last);
        // The first pipe on a shortest path.
        let closer = |node: usize| {
            self.out[node].iter().copied().find(|&pipe| {
                let to = self.to(pipe);
                let is_allowed =
                    if to == target { last.is_none_or(|l| l == pipe) } else { !self.is_host(to) };
                is_allowed && distance[to] != UNREACHED && distance[to] + 1 == distance[node]
            })
        };
        let switches = self.switch_distances(station);
        let own_link = self.stations[station].out.link;
        let direct = |node: usize| {
            let distance_via = |pipe: usize| match pipe / 2 == own_link as usize {
                true => 0,
                false => switches[self.to(pipe)],
            };
            let nearest = (0..self.out[node].len()).min_by_key(|i| distance_via(self.out[node][*i]))?;
            let is_reached = distance_via(self.out[node][nearest]) != UNREACHED;
            is_reached.then_some(NextHop { interface: nearest as u32, station: station as u32 })
        };
        let next_hop = |node: usize| {
            if node == target || self.is_switch(node) {
                return None;
            }
            if let Some(hop) = direct(node) {
                return Some(hop);
            }
            let first = closer(node)?;
            let mut pipe = first;
            while self.is_switch(self.to(pipe)) {
                pipe = closer(self.to(pipe))?;
            }
            let interface = self.out[node].iter().position(|&p| p == first)? as u32;
            Some(NextHop { interface, station: self.arrives_at[pipe]? })
        };
        (0..self.out.len()).map(next_hop).collect()
    }

    /// The distance from each node to `target` in links. If `last` is given, paths must end with that pipe.
    fn distances(&self, target: usize, last: Option<usize>) -> Vec<u32> {
        let mut distance = vec![UNREACHED; self.out.len()];
        distance[target] = 0;
        let mut todo = VecDeque::from([target]);
        while let Some(node) = todo.pop_front() {
            if self.is_host(node) && node != target {
                continue;
            }
            for &pipe in &self.out[node] {
                let next = self.to(pipe);
                let is_allowed = node != target || last.is_none_or(|l| opposite(l) == pipe);
                if is_allowed && distance[next] == UNREACHED {
                    distance[next] = distance[node] + 1;
                    todo.push_back(next);
                }
            }
        }
        distance
    }
}

fn number(hosts: u32, switches: u32, node: Node) -> usize {
    (match node {
        Node::Host(h) => h,
        Node::Switch(s) => hosts + s,
        Node::Router(r) => hosts + switches + r,
    }) as usize
}
