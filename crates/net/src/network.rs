//! The whole network: packets go in at a host, come out at a host, and time is an argument.

use std::{cmp::Reverse, collections::BinaryHeap};

use units::Time;

use crate::{Counters, Ecn, Node, Packet, PipeId, PipeSpec, Train, XcpHeader, pipe::Pipe};

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// One host. Nothing happens to a packet for the host that sends it, or for one that no path leads to.
    Host(u32),
    /// Every host but the sender: broadcast, multicast, or an address that no host is known to have.
    All,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// The queue's discipline decided so.
    Aqm,
    /// The wire lost it.
    Loss,
    /// Larger than the link's MTU.
    Mtu,
    /// The link is down.
    Down,
    /// A router knows no way, or the packet's time to live has ended, or it cannot be understood.
    Router,
}

/// Takes what the network gives back.
pub trait Sink<P> {
    /// A packet arrives at `host`; its last segment at `at`.
    fn deliver(&mut self, host: u32, at: Time, packet: P);
    /// A packet, or part of one, was dropped on entering `pipe`.
    fn drop(&mut self, pipe: PipeId, at: Time, cause: DropCause, packet: P);
    /// A packet comes out of `pipe`, its first and last segment at `train`. For whoever watches; nothing is lost by not doing so.
    fn pass(&mut self, _pipe: PipeId, _train: Train, _packet: &P) {}
}

/// A pipe's ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub(crate) from: Node,
    pub(crate) to: Node,
}

/// For each node (hosts first, then switches) and each host: the pipe to take.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) hosts: usize,
    pub(crate) next: Vec<Vec<Option<usize>>>,
}

impl Route {
    fn next(&self, node: Node, host: u32) -> Option<usize> {
        let index = match node {
            Node::Host(h) => h as usize,
            Node::Switch(s) => self.hosts + s as usize,
        };
        *self.next[index].get(host as usize)?
    }
}

#[derive(Clone)]
struct Routed<P> {
    to: Destination,
    packet: P,
}

impl<P: Packet> Packet for Routed<P> {
    fn segments(&self) -> u32 {
        self.packet.segments()
    }
    fn segment_bytes(&self) -> u32 {
        self.packet.segment_bytes()
    }
    fn last_segment_bytes(&self) -> u32 {
        self.packet.last_segment_bytes()
    }
    fn split_off(&mut self, at: u32) -> Self {
        Routed { to: self.to, packet: self.packet.split_off(at) }
    }
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }
    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }
    fn flow_hash(&self) -> u32 {
        self.packet.flow_hash()
    }
    fn corrupt(&mut self, random: u64) {
        self.packet.corrupt(random);
    }
    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        self.packet.xcp()
    }
}

/// Links and switches in motion.
pub struct Network<P> {
    hops: Vec<Hop>,
    pipes: Vec<Pipe<Routed<P>>>,
    /// Each host's own pipe.
    out: Vec<usize>,
    route: Route,
    /// For each pipe and host: whether a queue that is no faster follows on the way there, which can send a
    /// train's first segments before its last has come.
    cut_through: Vec<Vec<bool>>,
    /// One entry for each pipe with something on its wire; ties go by pipe index.
    wakes: BinaryHeap<Reverse<(Time, usize)>>,
}

impl<P: Packet> Network<P> {
    pub(crate) fn new(route: Route, hops: Vec<Hop>, specs: &[PipeSpec], seed: u64) -> Self {
        let pipes: Vec<Pipe<Routed<P>>> =
            specs.iter().enumerate().map(|(i, spec)| Pipe::new(spec, seed, i as u64)).collect();
        let out = (0..route.hosts as u32)
            .filter_map(|host| hops.iter().position(|hop| hop.from == Node::Host(host)))
            .collect();
        let mut network =
            Network { hops, pipes, out, route, cut_through: Vec::new(), wakes: BinaryHeap::new() };
        network.cut_through = (0..network.pipes.len())
            .map(|pipe| {
                (0..network.route.hosts as u32).map(|host| network.slower_follows(pipe, host)).collect()
            })
            .collect();
        network
    }

    /// Host `host` sends a packet now (panics if there is no such host). `now` must not lie before any earlier instant given; call
    /// [`Network::run_until`] with it first.
    pub fn send(&mut self, host: u32, now: Time, to: Destination, packet: P, sink: &mut impl Sink<P>) {
        if to != Destination::Host(host) {
            self.enter(self.out[host as usize], Train::at(now), Routed { to, packet }, sink);
        }
    }

    /// When something next happens by itself.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }

    /// Does all that is due up to and including `now`.
    pub fn run_until(&mut self, now: Time, sink: &mut impl Sink<P>) {
        while let Some(&Reverse((at, pipe))) = self.wakes.peek() {
            if at > now {
                break;
            }
            self.wakes.pop();
            let popped = self.pipes[pipe].pop(at, |at, cause, routed| {
                sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
            });
            if let Some(next) = self.pipes[pipe].next_wake() {
                self.wakes.push(Reverse((next, pipe)));
            }
            if let Some((delivery, routed)) = popped {
                self.leave(pipe, delivery, routed, sink);
            }
        }
    }

    /// The counters of one direction of a link as of `now`; its `max_queue_bytes_since` starts anew.
    pub fn sample(&mut self, pipe: PipeId, now: Time) -> Counters {
        self.pipes.get_mut(pipe.index()).map_or(Counters::default(), |p| p.sample(now))
    }

    /// A packet enters a pipe.
    fn enter(&mut self, pipe: usize, arrival: Train, routed: Routed<P>, sink: &mut impl Sink<P>) {
        let cut_through = match routed.to {
            Destination::Host(host) => self.cut_through[pipe].get(host as usize).copied().unwrap_or(false),
            Destination::All => false,
        };
        let before = self.pipes[pipe].next_wake();
        let out = self.pipes[pipe].offer(arrival, routed, cut_through, |at, cause, routed| {
            sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
        });
        if let Some(wake) = self.pipes[pipe].next_wake()
            && before.is_none()
        {
            self.wakes.push(Reverse((wake, pipe)));
        }
        if let Some(routed) = out {
            self.leave(pipe, arrival, routed, sink);
        }
    }

    /// A packet comes out of a pipe.
    fn leave(&mut self, pipe: usize, delivery: Train, routed: Routed<P>, sink: &mut impl Sink<P>) {
        sink.pass(PipeId::from_index(pipe), delivery, &routed.packet);
        let node = self.hops[pipe].to;
        if let Node::Host(host) = node {
            sink.deliver(host, delivery.last, routed.packet);
            return;
        }
        match routed.to {
            Destination::Host(host) => {
                if let Some(next) = self.route.next(node, host) {
                    self.enter(next, delivery, routed, sink);
                }
            }
            Destination::All => {
                for next in 0..self.hops.len() {
                    // The pipe's twin leads back to where the packet came from.
                    if self.hops[next].from == node && next != (pipe ^ 1) {
                        self.enter(next, delivery, routed.clone(), sink);
                    }
                }
            }
        }
    }

    fn slower_follows(&self, pipe: usize, host: u32) -> bool {
        let mut node = self.hops[pipe].to;
        while let Some(next) = self.route.next(node, host) {
            if !self.pipes[next].is_ideal() {
                return self.pipes[pipe].is_no_slower_than(&self.pipes[next]);
            }
            node = self.hops[next].to;
        }
        false
    }
}
