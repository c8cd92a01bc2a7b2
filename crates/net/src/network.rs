//! The network: packets enter and leave at stations, and time is an argument.
//!
//! A packet that leaves one pipe enters the next in the same call. Everything later waits in the pipes;
//! [`Network::run_until`] processes it in order of time, and of pipe index at one instant.

use std::collections::BTreeMap;

use units::{Instant, Time};

use crate::{
    Destination, DropCause, NextHop, Node, PacketShape, PacketSink, PipeCounters, PipeId, PipeSpec,
    RoutablePacket, Router, RouterAction, RouterArrival, Station, TimerQueue, TrainTimes, XcpPacket,
    graph::Graph,
    ids::opposite,
    pipe::Pipe,
    routed::{Routed, Target},
    router::RoutingTable,
};

/// Limit of routers that a packet passes, replies on the way back included. Ends routing loops for packets
/// without a time to live; twice what a time to live of 255 allows (RFC 791 section 3.1).
const MAX_ROUTERS_PASSED: u16 = 512;

/// The traits that a network requires of its packets. Implemented for every type that has both.
pub trait NetworkPacket: RoutablePacket + XcpPacket {}

impl<P: RoutablePacket + XcpPacket> NetworkPacket for P {}

/// A running network of links, switches and routers.
pub struct Network<P> {
    links: Vec<LinkDirection<P>>,
    stations: Vec<Station>,
    /// The broadcast domain of each station: those that it reaches through switches only.
    domains: Vec<u32>,
    /// The pipe from a switch towards a station of its domain, by switch, then by station; otherwise
    /// [`NO_PIPE`].
    switch_pipes: Vec<u32>,
    /// For each switch the pipes on which it sends broadcasts.
    flood_pipes: Vec<Vec<u32>>,
    routers: Vec<Router>,
    /// The routing table of each host; empty if there are no routers.
    host_tables: Vec<RoutingTable>,
    /// When each pipe has its next event.
    timers: TimerQueue,
    /// Scheduled changes by time, then in the order of the calls.
    changes: BTreeMap<(Instant, u64), (usize, PipeSpec)>,
    /// When the first change is due; [`Instant::NEVER`] if there is none.
    next_change: Instant,
    /// Number of changes scheduled so far.
    scheduled: u64,
}

/// One direction of a link.
struct LinkDirection<P> {
    pipe: Pipe<Routed<P>>,
    far_end: FarEnd,
    /// The largest packet in bytes of IP that may enter.
    mtu: u32,
    /// Packets dropped because they were larger than `mtu`.
    dropped_mtu: u64,
}

/// The far end of a pipe.
#[derive(Debug, Clone, Copy)]
enum FarEnd {
    /// A host's station.
    Host(u32),
    /// A switch.
    Switch(u32),
    /// A router and its interface.
    Router(u32, u32),
}

/// A switch cannot reach the station.
const NO_PIPE: u32 = u32::MAX;

impl<P: NetworkPacket> Network<P> {
    pub(crate) fn new(
        graph: &Graph,
        domains: Vec<u32>,
        host_tables: Vec<RoutingTable>,
        routers: Vec<Router>,
        specs: &[PipeSpec],
        seed: u64,
    ) -> Self {
        let far_end = |pipe: usize| match (graph.pipes[pipe].to, graph.arrives_at[pipe]) {
            (Node::Switch(switch), _) => FarEnd::Switch(switch),
            (Node::Router(router), Some(s)) => FarEnd::Router(router, graph.stations[s as usize].interface),
            (_, station) => FarEnd::Host(station.unwrap_or(u32::MAX)),
        };
        let link_direction = |(i, spec): (usize, &PipeSpec)| LinkDirection {
            pipe: Pipe::new(spec, seed, i as u64),
            far_end: far_end(i),
            mtu: spec.mtu.unwrap_or(u32::MAX),
            dropped_mtu: 0,
        };
        let (flood_pipes, stations) = (graph.flood_tree(), graph.stations.len());
        let mut switch_pipes = vec![NO_PIPE; flood_pipes.len() * stations];
        for station in 0..stations {
            for (switch, pipe) in graph.switch_pipes(station).into_iter().enumerate() {
                switch_pipes[switch * stations + station] = pipe.unwrap_or(NO_PIPE);
            }
        }
        Network {
            links: specs.iter().enumerate().map(link_direction).collect(),
            stations: graph.stations.clone(),
            domains,
            switch_pipes,
            flood_pipes,
            routers,
            host_tables,
            timers: TimerQueue::new(specs.len()),
            changes: BTreeMap::new(),
            next_change: Instant::NEVER,
            scheduled: 0,
        }
    }

    /// Sends a packet from a station. `now` must not be earlier than in any previous call; call
    /// [`Network::run_until`] with it first.
    ///
    /// # Panics
    /// There is no such station.
    // Inlined where the packet is built: copying it with wider loads than the stores that have just written
    // it would be a store-forwarding stall.
    #[inline(always)]
    pub fn send(
        &mut self,
        station: u32,
        now: Instant,
        to: Destination,
        packet: P,
        sink: &mut impl PacketSink<P>,
    ) {
        if to == Destination::Station(station) {
            return;
        }
        let own = self.stations[station as usize];
        let next = self.next_station(station, to, || {
            let table = match own.node {
                Node::Router(router) => Some(&self.routers[router as usize].table),
                Node::Host(host) => self.host_tables.get(host as usize),
                Node::Switch(_) => None,
            };
            match to {
                Destination::Station(far) => {
                    table?.next_hop_to(far).filter(|hop| hop.interface == own.interface)
                }
                Destination::All => None,
            }
        });
        match next {
            Some(next) => {
                let routed = Routed::new(to.into(), next, MAX_ROUTERS_PASSED, packet);
                self.enter_pipe(own.out.index(), now, TrainTimes::at(now), routed, sink);
            }
            None => sink.drop(own.out, now, DropCause::Router, packet),
        }
    }

    /// Sends a packet from a router to a station, on the interface that its routing table gives. Does nothing
    /// if the station is unreachable. `now` must not be earlier than in any previous call.
    pub fn send_from_router(
        &mut self,
        router: u32,
        now: Instant,
        to: u32,
        packet: P,
        sink: &mut impl PacketSink<P>,
    ) {
        let Some(router) = self.routers.get(router as usize) else { return };
        let connected = router.interfaces.iter().find(|own| {
            self.domains.get(own.station as usize) == self.domains.get(to as usize) && own.station != to
        });
        let routed = || router.next_hop_to(to).and_then(|hop| router.interfaces.get(hop.interface as usize));
        if let Some(station) = connected.or_else(routed).map(|own| own.station) {
            self.send(station, now, Destination::Station(to), packet, sink);
        }
    }

    /// The MTU of one direction of a link in bytes of IP; `None` for no limit.
    pub fn mtu(&self, pipe: PipeId) -> Option<u32> {
        self.links.get(pipe.index()).map(|link| link.mtu).filter(|mtu| *mtu != u32::MAX)
    }

    /// The number of stations. [`Topology::stations`](crate::Topology::stations) lists them.
    pub fn stations(&self) -> u32 {
        self.stations.len() as u32
    }

    /// The next hop from host `host` towards a station; `None` if the station is its own or unreachable.
    pub fn next_hop(&self, host: u32, to: u32) -> Option<NextHop> {
        if let Some(table) = self.host_tables.get(host as usize) {
            return table.next_hop_to(to);
        }
        let domain = self.domains.get(to as usize)?;
        let own =
            self.stations.iter().zip(&self.domains).find(|(s, d)| s.node == Node::Host(host) && *d == domain);
        let is_own = self.stations[to as usize].node == Node::Host(host);
        own.filter(|_| !is_own).map(|(s, _)| NextHop { interface: s.interface, station: to })
    }

    /// The instant of the next event: a departure, an arrival or a change of a link; `None` if the network is
    /// idle.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        Some(self.timers.next().min(self.next_change)).filter(|next| *next < Instant::NEVER)
    }

    /// Processes all events up to and including `now`, or [`PacketSink::stop_at`] if that is earlier.
    pub fn run_until(&mut self, now: Instant, sink: &mut impl PacketSink<P>) {
        loop {
            let (next_timer, until) = (self.timers.next(), now.min(sink.stop_at()));
            if self.next_change <= until.min(next_timer) && self.next_change < Instant::NEVER {
                self.apply_next_change();
            } else if let Some((at, pipe)) = self.timers.due(until) {
                self.process_event(pipe, at, sink);
            } else {
                return;
            }
        }
    }

    /// Changes one direction of a link now; packets in it stay in it. Does nothing if there is no such pipe.
    /// `now` must not be earlier than in any previous call; call [`Network::run_until`] with it first.
    pub fn change_pipe(&mut self, pipe: PipeId, now: Instant, spec: &PipeSpec) {
        if pipe.index() < self.links.len() {
            self.apply_change(pipe.index(), now, spec);
        }
    }

    /// Schedules a change of one direction of a link at the future instant `at`, before any packet of that
    /// instant. If several changes have the same instant, the last one remains in effect.
    pub fn schedule_change(&mut self, at: Instant, pipe: PipeId, spec: PipeSpec) {
        if pipe.index() < self.links.len() {
            self.changes.insert((at, self.scheduled), (pipe.index(), spec));
            self.scheduled += 1;
            self.next_change = self.next_change.min(at);
        }
    }

    /// The time until the queue of the link on which `station` sends is empty, if no more packets arrive.
    pub fn drain_time(&self, station: u32, now: Instant) -> Time {
        let out = self.stations.get(station as usize).map(|s| s.out.index());
        out.map_or(Time::ZERO, |pipe| self.links[pipe].pipe.drain_time(now))
    }

    /// The counters of one direction of a link as of `now`. Resets `max_queue_bytes_since`.
    pub fn sample(&mut self, pipe: PipeId, now: Instant) -> PipeCounters {
        let index = pipe.index();
        let Some(own) = self.links.get_mut(index) else {
            return PipeCounters::default();
        };
        PipeCounters { dropped_mtu: own.dropped_mtu, ..own.pipe.sample(now) }
    }

    #[cold]
    fn apply_next_change(&mut self) {
        if let Some(((at, _), (pipe, spec))) = self.changes.pop_first() {
            self.next_change = self.changes.first_key_value().map_or(Instant::NEVER, |(key, _)| key.0);
            self.apply_change(pipe, at, &spec);
        }
    }

    fn apply_change(&mut self, pipe: usize, now: Instant, spec: &PipeSpec) {
        self.links[pipe].pipe.change(now, spec);
        self.links[pipe].mtu = spec.mtu.unwrap_or(u32::MAX);
        if let FarEnd::Router(router, interface) = self.links[opposite(pipe)].far_end {
            self.routers[router as usize].interfaces[interface as usize].mtu = spec.mtu;
        }
        self.timers.arm(pipe, self.links[pipe].pipe.next_event());
    }

    /// Processes the event of `pipe` at `at`.
    #[inline]
    fn process_event(&mut self, pipe: usize, at: Instant, sink: &mut impl PacketSink<P>) {
        let own = &mut self.links[pipe].pipe;
        let popped = own.pop(at, |at, cause, routed| {
            sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
        });
        self.timers.arm(pipe, own.next_event());
        if let Some((delivery, routed)) = popped {
            let shape = routed.packet.shape();
            self.leave_pipe(pipe, at, delivery, shape, routed, sink);
        }
    }

    /// A packet enters a pipe at `now`. Its segments arrive at `arrival`, which may differ from `now`.
    #[inline(always)]
    fn enter_pipe(
        &mut self,
        pipe: usize,
        now: Instant,
        arrival: TrainTimes,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        let shape = routed.packet.shape();
        if self.passes_at_once(pipe, shape) {
            self.leave_pipe(pipe, now, arrival, shape, routed, sink);
        } else {
            self.accept(pipe, now, arrival, shape, routed, sink);
        }
    }

    /// Whether a packet passes a pipe at once and unchanged. If so, the pipe counts it.
    #[inline]
    fn passes_at_once(&mut self, pipe: usize, shape: PacketShape) -> bool {
        let own = &mut self.links[pipe];
        shape.segment_bytes <= own.mtu && own.pipe.passes_at_once(shape)
    }

    /// A packet enters a pipe that is not ideal, or whose MTU it exceeds. The common case: a single segment
    /// for a pipe that is a plain FIFO.
    #[inline(always)]
    fn accept(
        &mut self,
        pipe: usize,
        now: Instant,
        arrival: TrainTimes,
        shape: PacketShape,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        let own = &mut self.links[pipe];
        if shape.segments > 1 || arrival.first < arrival.last || shape.segment_bytes > own.mtu {
            return self.accept_slow_path(pipe, now, arrival, shape, routed, sink);
        }
        match own.pipe.accept_single(arrival.first, shape.segment_bytes, routed) {
            Ok(None) => {}
            Ok(next_event) => self.timers.arm(pipe, next_event),
            Err(routed) => self.accept_slow_path(pipe, now, arrival, shape, routed, sink),
        }
    }

    /// The slow path of [`Network::accept`]: any packet, any pipe.
    #[inline(never)]
    fn accept_slow_path(
        &mut self,
        pipe: usize,
        now: Instant,
        arrival: TrainTimes,
        shape: PacketShape,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        if shape.segment_bytes > self.links[pipe].mtu {
            return self.drop_too_big(pipe, now, shape, routed, sink);
        }
        let cut_through = shape.segments > 1 && self.slower_queue_follows(pipe, &routed);
        let own = &mut self.links[pipe].pipe;
        let next_event_may_change = own.accept(arrival, shape, routed, cut_through, |at, cause, routed| {
            sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
        });
        if next_event_may_change {
            self.timers.arm(pipe, own.next_event());
        }
    }

    /// Drops a packet that exceeds a pipe's MTU.
    #[cold]
    fn drop_too_big(
        &mut self,
        pipe: usize,
        now: Instant,
        shape: PacketShape,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        self.links[pipe].dropped_mtu += u64::from(shape.segments);
        sink.drop(PipeId::from_index(pipe), now, DropCause::Mtu, routed.packet);
    }

    /// A packet leaves a pipe, and continues through all ideal pipes and switches that follow.
    #[inline(always)]
    fn leave_pipe(
        &mut self,
        pipe: usize,
        now: Instant,
        delivery: TrainTimes,
        shape: PacketShape,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        let mut pipe = pipe;
        loop {
            sink.pass(PipeId::from_index(pipe), delivery, &routed.packet);
            let switch = match self.links[pipe].far_end {
                FarEnd::Host(station) => return sink.deliver(station, delivery.last, routed.packet),
                FarEnd::Router(router, interface) => {
                    return self.arrive_at_router(pipe, router, interface, (now, delivery), routed, sink);
                }
                FarEnd::Switch(switch) => switch as usize,
            };
            let Some(station) = routed.next().station() else {
                return self.flood(pipe, switch, now, delivery, routed, sink);
            };
            let Some(next) = self.switch_pipe(switch, station) else {
                return sink.drop(PipeId::from_index(pipe), now, DropCause::Router, routed.packet);
            };
            pipe = next as usize;
            if !self.passes_at_once(pipe, shape) {
                return self.accept(pipe, now, delivery, shape, routed, sink);
            }
        }
    }

    /// The pipe from a switch towards a station.
    #[inline]
    fn switch_pipe(&self, switch: usize, station: u32) -> Option<u32> {
        let pipe = self.switch_pipes[switch * self.stations.len() + station as usize];
        (pipe != NO_PIPE).then_some(pipe)
    }

    /// A switch floods a packet that arrived on `pipe` to all its other links.
    #[inline(never)]
    fn flood(
        &mut self,
        pipe: usize,
        switch: usize,
        now: Instant,
        delivery: TrainTimes,
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        for i in 0..self.flood_pipes[switch].len() {
            let next = self.flood_pipes[switch][i] as usize;
            // The opposite direction leads back to the sender.
            if next != opposite(pipe) {
                self.enter_pipe(next, now, delivery, routed.clone(), sink);
            }
        }
    }

    #[inline(never)]
    fn arrive_at_router(
        &mut self,
        pipe: usize,
        router: u32,
        interface: u32,
        (now, delivery): (Instant, TrainTimes),
        routed: Routed<P>,
        sink: &mut impl PacketSink<P>,
    ) {
        let arrival = RouterArrival { interface, to: routed.to().into() };
        let (segments, routers_left) = (routed.packet.segments(), routed.routers_left() - 1);
        let mut actions = Vec::new();
        if routers_left == 0 {
            actions.push(RouterAction::Drop(routed.packet));
        } else {
            routed.packet.process_at_router(&self.routers[router as usize], arrival, &mut actions);
        }
        for action in actions {
            let router = &self.routers[router as usize];
            match action {
                RouterAction::Send { interface, to, packet } => {
                    let station = router.interfaces[interface as usize].station;
                    let out = self.stations[station as usize].out;
                    let next = self.next_station(station, to, || match to {
                        Destination::Station(to) => {
                            router.next_hop_to(to).filter(|hop| hop.interface == interface)
                        }
                        Destination::All => None,
                    });
                    // Fragments and replies leave when the router has produced them.
                    let train = if packet.segments() == segments { delivery } else { TrainTimes::at(now) };
                    match next {
                        Some(next) => {
                            let routed = Routed::new(to.into(), next, routers_left, packet);
                            self.enter_pipe(out.index(), now, train, routed, sink);
                        }
                        None => sink.drop(out, now, DropCause::Router, packet),
                    }
                }
                RouterAction::Drop(packet) => {
                    sink.drop(PipeId::from_index(pipe), now, DropCause::Router, packet);
                }
                RouterAction::DropTooBig(interface, packet) => {
                    let station = router.interfaces[interface as usize].station;
                    let out = self.stations[station as usize].out;
                    self.links[out.index()].dropped_mtu += u64::from(packet.segments());
                    sink.drop(out, now, DropCause::Mtu, packet);
                }
            }
        }
    }

    /// The target on the link of station `from` for a packet to `to`: `to` itself if it is in the same
    /// broadcast domain, otherwise the router that `next_hop` gives.
    fn next_station(
        &self,
        from: u32,
        to: Destination,
        next_hop: impl FnOnce() -> Option<NextHop>,
    ) -> Option<Target> {
        match to {
            Destination::All => Some(to.into()),
            Destination::Station(far)
                if self.domains.get(far as usize) == Some(&self.domains[from as usize]) =>
            {
                Some(to.into())
            }
            Destination::Station(_) => next_hop().map(|hop| Destination::Station(hop.station).into()),
        }
    }

    /// Whether the next queue on the packet's path is no faster than this one. Such a queue can send a
    /// train's first segments before the last has arrived.
    #[inline(never)]
    fn slower_queue_follows(&self, pipe: usize, routed: &Routed<P>) -> bool {
        let mut at = pipe;
        let mut next = routed.next();
        for _ in 0..MAX_ROUTERS_PASSED {
            let following = match (self.links[at].far_end, next.station()) {
                (FarEnd::Switch(switch), Some(to)) => self.switch_pipe(switch as usize, to),
                (FarEnd::Router(router, _), Some(_)) => {
                    let router = &self.routers[router as usize];
                    routed.packet.next_hop_at(router, routed.to().into()).and_then(|hop| {
                        next = Destination::Station(hop.station).into();
                        let station = router.interfaces.get(hop.interface as usize)?.station;
                        Some(self.stations[station as usize].out.index() as u32)
                    })
                }
                _ => None,
            };
            let Some(following) = following else { return false };
            at = following as usize;
            if !self.links[at].pipe.is_ideal() {
                return self.links[pipe].pipe.is_no_slower_than(&self.links[at].pipe);
            }
        }
        false
    }
}
