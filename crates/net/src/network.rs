//! The whole network: packets go in at a station, come out at a station, and time is an argument.
//!
//! A packet from one pipe enters the next in the same call where nothing is in between; everything else waits in
//! the pipes, and [`Network::run_until`] does it in order of time, ties by pipe.

use std::collections::BTreeMap;

use units::Time;

use crate::{
    Arrival, Counters, Destination, DropCause, Emission, Node, Packet, PipeId, PipeSpec, Router, Shape, Sink,
    Train, Way,
    graph::{Graph, Station, twin},
    pipe::Pipe,
    routed::{Routed, Target},
    router::Table,
    wakes::Wakes,
};

/// Later than anything that happens.
const NEVER: Time = Time(u64::MAX);

/// A packet goes through no more routers than this, answers on its way back included: twice what a time to live of
/// 255 allows (RFC 791 section 3.1), for packets that have none.
const MOST_ROUTERS: u16 = 512;

/// Links, switches and routers in motion.
pub struct Network<P> {
    links: Vec<OneWay<P>>,
    stations: Vec<Station>,
    /// For each station the group of those that it reaches through switches alone.
    domains: Vec<u32>,
    /// The pipe to take from a switch to a station of its domain, by switch, then by station; else [`NO_WAY`].
    ways: Vec<u32>,
    /// For each switch the pipes to take to all.
    floods: Vec<Vec<u32>>,
    routers: Vec<Router>,
    /// For each host; none where there are no routers.
    host_tables: Vec<Table>,
    wakes: Wakes,
    /// By time, then in the order they were given.
    changes: BTreeMap<(Time, u64), (usize, PipeSpec)>,
    /// When the first is due; later than any time, if there is none.
    next_change: Time,
    scheduled: u64,
}

/// One direction of a link.
struct OneWay<P> {
    pipe: Pipe<Routed<P>>,
    end: End,
    /// The largest packet in bytes of IP that may enter.
    mtu: u32,
    /// Packets that were larger.
    too_large: u64,
}

/// What is at a pipe's far end.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A host's station.
    Host(u32),
    /// A switch.
    Switch(u32),
    /// A router and its interface.
    Router(u32, u32),
}

/// No pipe.
const NO_WAY: u32 = u32::MAX;

impl<P: Packet> Network<P> {
    pub(crate) fn new(
        graph: &Graph,
        domains: Vec<u32>,
        host_tables: Vec<Table>,
        routers: Vec<Router>,
        specs: &[PipeSpec],
        seed: u64,
    ) -> Self {
        let end = |pipe: usize| match (graph.hops[pipe].to, graph.arrives_at[pipe]) {
            (Node::Switch(switch), _) => End::Switch(switch),
            (Node::Router(router), Some(s)) => End::Router(router, graph.stations[s as usize].interface),
            (_, station) => End::Host(station.unwrap_or(u32::MAX)),
        };
        let one_way = |(i, spec): (usize, &PipeSpec)| OneWay {
            pipe: Pipe::new(spec, seed, i as u64),
            end: end(i),
            mtu: spec.mtu.unwrap_or(u32::MAX),
            too_large: 0,
        };
        let (floods, stations) = (graph.flood_tree(), graph.stations.len());
        let mut ways = vec![NO_WAY; floods.len() * stations];
        for station in 0..stations {
            for (switch, way) in graph.switch_ways(station).into_iter().enumerate() {
                ways[switch * stations + station] = way.unwrap_or(NO_WAY);
            }
        }
        Network {
            links: specs.iter().enumerate().map(one_way).collect(),
            stations: graph.stations.clone(),
            domains,
            ways,
            floods,
            routers,
            host_tables,
            wakes: Wakes::new(specs.len()),
            changes: BTreeMap::new(),
            next_change: NEVER,
            scheduled: 0,
        }
    }

    /// A station sends a packet now (panics if there is no such station). `now` must not lie before any earlier
    /// instant given; call [`Network::run_until`] with it first.
    // In one piece with what makes the packet: a processor waits for what was just written if that is moved in larger pieces.
    #[inline(always)]
    pub fn send(&mut self, station: u32, now: Time, to: Destination, packet: P, sink: &mut impl Sink<P>) {
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
                Destination::Station(far) => table?.toward(far).filter(|way| way.interface == own.interface),
                Destination::All => None,
            }
        });
        match next {
            Some(next) => {
                let routed = Routed::new(to.into(), next, MOST_ROUTERS, packet);
                self.enter(own.out.index(), now, Train::at(now), routed, sink);
            }
            None => sink.drop(own.out, now, DropCause::Router, packet),
        }
    }

    /// A router sends a packet of its own to a station, by the interface that its table says. One that no way leads to is
    /// dropped. `now` must not lie before any earlier instant given.
    pub fn send_from_router(&mut self, router: u32, now: Time, to: u32, packet: P, sink: &mut impl Sink<P>) {
        let Some(view) = self.routers.get(router as usize) else { return };
        let connected = view.interfaces.iter().find(|own| {
            self.domains.get(own.station as usize) == self.domains.get(to as usize) && own.station != to
        });
        let routed = || view.toward(to).and_then(|way| view.interfaces.get(way.interface as usize));
        if let Some(station) = connected.or_else(routed).map(|own| own.station) {
            self.send(station, now, Destination::Station(to), packet, sink);
        }
    }

    /// The MTU of one direction of a link, if it has one.
    pub fn mtu(&self, pipe: PipeId) -> Option<u32> {
        self.links.get(pipe.index()).map(|link| link.mtu).filter(|mtu| *mtu != u32::MAX)
    }

    /// How many stations there are; [`crate::Topology::stations`] says which.
    pub fn stations(&self) -> u32 {
        self.stations.len() as u32
    }

    /// The next step of host `host` towards a station; none for its own, or where no way leads there.
    pub fn way(&self, host: u32, to: u32) -> Option<Way> {
        if let Some(table) = self.host_tables.get(host as usize) {
            return table.toward(to);
        }
        let domain = self.domains.get(to as usize)?;
        let own =
            self.stations.iter().zip(&self.domains).find(|(s, d)| s.node == Node::Host(host) && *d == domain);
        let is_own = self.stations[to as usize].node == Node::Host(host);
        own.filter(|_| !is_own).map(|(s, _)| Way { interface: s.interface, station: to })
    }

    /// When something next happens by itself.
    #[inline]
    pub fn next_wake(&self) -> Option<Time> {
        Some(self.wakes.next().min(self.next_change)).filter(|next| *next < NEVER)
    }

    /// Does all that is due up to and including `now`, or [`Sink::until`], if that comes first.
    pub fn run_until(&mut self, now: Time, sink: &mut impl Sink<P>) {
        loop {
            let (wake, until) = (self.wakes.next(), now.min(sink.until()));
            if self.next_change <= until.min(wake) && self.next_change < NEVER {
                self.apply_next();
            } else if let Some((at, pipe)) = self.wakes.due(until) {
                self.wake(pipe, at, sink);
            } else {
                return;
            }
        }
    }

    /// Changes one direction of a link now; what is in it stays in it. Does nothing where there is no such pipe.
    /// `now` must not lie before any earlier instant given; call [`Network::run_until`] with it first.
    pub fn change(&mut self, pipe: PipeId, now: Time, spec: &PipeSpec) {
        if pipe.index() < self.links.len() {
            self.apply(pipe.index(), now, spec);
        }
    }

    /// Changes one direction of a link at `at`, which is yet to come, before any packet of that instant. Of several
    /// changes at one instant the last counts.
    pub fn schedule(&mut self, at: Time, pipe: PipeId, spec: PipeSpec) {
        if pipe.index() < self.links.len() {
            self.changes.insert((at, self.scheduled), (pipe.index(), spec));
            self.scheduled += 1;
            self.next_change = self.next_change.min(at);
        }
    }

    /// How long the link that `station` sends on will be busy with what it has taken in, if nothing more comes.
    pub fn busy(&self, station: u32, now: Time) -> Time {
        let out = self.stations.get(station as usize).map(|s| s.out.index());
        out.map_or(Time(0), |pipe| self.links[pipe].pipe.busy(now))
    }

    /// The counters of one direction of a link as of `now`; its `max_queue_bytes_since` starts anew.
    pub fn sample(&mut self, pipe: PipeId, now: Time) -> Counters {
        let index = pipe.index();
        let Some(own) = self.links.get_mut(index) else {
            return Counters::default();
        };
        Counters { dropped_mtu: own.too_large, ..own.pipe.sample(now) }
    }

    #[cold]
    fn apply_next(&mut self) {
        if let Some(((at, _), (pipe, spec))) = self.changes.pop_first() {
            self.next_change = self.changes.first_key_value().map_or(NEVER, |(key, _)| key.0);
            self.apply(pipe, at, &spec);
        }
    }

    fn apply(&mut self, pipe: usize, now: Time, spec: &PipeSpec) {
        self.links[pipe].pipe.change(now, spec);
        self.links[pipe].mtu = spec.mtu.unwrap_or(u32::MAX);
        if let End::Router(router, interface) = self.links[twin(pipe)].end {
            self.routers[router as usize].interfaces[interface as usize].mtu = spec.mtu;
        }
        self.wakes.arm(pipe, self.links[pipe].pipe.next_wake());
    }

    /// Does what `pipe` has to do at `at`.
    #[inline]
    fn wake(&mut self, pipe: usize, at: Time, sink: &mut impl Sink<P>) {
        let own = &mut self.links[pipe].pipe;
        let popped = own.pop(at, |at, cause, routed| {
            sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
        });
        self.wakes.arm(pipe, own.next_wake());
        if let Some((delivery, routed)) = popped {
            let shape = routed.packet.shape();
            self.leave(pipe, at, delivery, shape, routed, sink);
        }
    }

    /// A packet enters a pipe. Its segments come as `arrival` says, which may differ from `now`.
    #[inline(always)]
    fn enter(&mut self, pipe: usize, now: Time, arrival: Train, routed: Routed<P>, sink: &mut impl Sink<P>) {
        let shape = routed.packet.shape();
        if self.passes_at_once(pipe, shape) {
            self.leave(pipe, now, arrival, shape, routed, sink);
        } else {
            self.take_in(pipe, now, arrival, shape, routed, sink);
        }
    }

    /// Whether a packet comes out of a pipe as it went in. It is counted there, if so.
    #[inline]
    fn passes_at_once(&mut self, pipe: usize, shape: Shape) -> bool {
        let own = &mut self.links[pipe];
        shape.segment_bytes <= own.mtu && own.pipe.passes_at_once(shape)
    }

    /// A packet enters a pipe that is not ideal, or that it is too large for.
    #[inline(always)]
    fn take_in(
        &mut self,
        pipe: usize,
        now: Time,
        arrival: Train,
        shape: Shape,
        routed: Routed<P>,
        sink: &mut impl Sink<P>,
    ) {
        let own = &mut self.links[pipe];
        if shape.segments > 1 || arrival.first < arrival.last || shape.segment_bytes > own.mtu {
            return self.take_in_any(pipe, now, arrival, shape, routed, sink);
        }
        match own.pipe.take_in_one(arrival.first, shape.segment_bytes, routed) {
            Ok(None) => {}
            Ok(wake) => self.wakes.arm(pipe, wake),
            Err(routed) => self.take_in_any(pipe, now, arrival, shape, routed, sink),
        }
    }

    /// The same where more than the everyday case has to be thought of.
    #[inline(never)]
    fn take_in_any(
        &mut self,
        pipe: usize,
        now: Time,
        arrival: Train,
        shape: Shape,
        routed: Routed<P>,
        sink: &mut impl Sink<P>,
    ) {
        if shape.segment_bytes > self.links[pipe].mtu {
            return self.refuse(pipe, now, shape, routed, sink);
        }
        let cut_through = shape.segments > 1 && self.slower_follows(pipe, &routed);
        let own = &mut self.links[pipe].pipe;
        let may_wake_anew = own.take_in(arrival, shape, routed, cut_through, |at, cause, routed| {
            sink.drop(PipeId::from_index(pipe), at, cause, routed.packet);
        });
        if may_wake_anew {
            self.wakes.arm(pipe, own.next_wake());
        }
    }

    /// A packet is too large for a pipe.
    #[cold]
    fn refuse(&mut self, pipe: usize, now: Time, shape: Shape, routed: Routed<P>, sink: &mut impl Sink<P>) {
        self.links[pipe].too_large += u64::from(shape.segments);
        sink.drop(PipeId::from_index(pipe), now, DropCause::Mtu, routed.packet);
    }

    /// A packet comes out of a pipe, and goes on through whatever holds nothing up.
    #[inline(always)]
    fn leave(
        &mut self,
        pipe: usize,
        now: Time,
        delivery: Train,
        shape: Shape,
        routed: Routed<P>,
        sink: &mut impl Sink<P>,
    ) {
        let mut pipe = pipe;
        loop {
            sink.pass(PipeId::from_index(pipe), delivery, &routed.packet);
            let switch = match self.links[pipe].end {
                End::Host(station) => return sink.deliver(station, delivery.last, routed.packet),
                End::Router(router, interface) => {
                    return self.arrive_at_router(pipe, router, interface, (now, delivery), routed, sink);
                }
                End::Switch(switch) => switch as usize,
            };
            let Some(station) = routed.next().station() else {
                return self.flood(pipe, switch, now, delivery, routed, sink);
            };
            let Some(next) = self.way_from(switch, station) else {
                return sink.drop(PipeId::from_index(pipe), now, DropCause::Router, routed.packet);
            };
            pipe = next as usize;
            if !self.passes_at_once(pipe, shape) {
                return self.take_in(pipe, now, delivery, shape, routed, sink);
            }
        }
    }

    /// The pipe to take from a switch to a station.
    #[inline]
    fn way_from(&self, switch: usize, station: u32) -> Option<u32> {
        let way = self.ways[switch * self.stations.len() + station as usize];
        (way != NO_WAY).then_some(way)
    }

    /// A switch sends a packet to all, but not back on `pipe` that it came from.
    #[inline(never)]
    fn flood(
        &mut self,
        pipe: usize,
        switch: usize,
        now: Time,
        delivery: Train,
        routed: Routed<P>,
        sink: &mut impl Sink<P>,
    ) {
        for i in 0..self.floods[switch].len() {
            let next = self.floods[switch][i] as usize;
            // The pipe's twin leads back to where the packet came from.
            if next != twin(pipe) {
                self.enter(next, now, delivery, routed.clone(), sink);
            }
        }
    }

    #[inline(never)]
    fn arrive_at_router(
        &mut self,
        pipe: usize,
        router: u32,
        interface: u32,
        (now, delivery): (Time, Train),
        routed: Routed<P>,
        sink: &mut impl Sink<P>,
    ) {
        let arrival = Arrival { interface, to: routed.to().into() };
        let (segments, routers_left) = (routed.packet.segments(), routed.routers_left() - 1);
        let mut emissions = Vec::new();
        if routers_left == 0 {
            emissions.push(Emission::Refuse(routed.packet));
        } else {
            routed.packet.at_router(&self.routers[router as usize], arrival, &mut emissions);
        }
        for emission in emissions {
            let view = &self.routers[router as usize];
            match emission {
                Emission::Send { interface, to, packet } => {
                    let station = view.interfaces[interface as usize].station;
                    let out = self.stations[station as usize].out;
                    let next = self.next_station(station, to, || match to {
                        Destination::Station(to) => view.toward(to).filter(|way| way.interface == interface),
                        Destination::All => None,
                    });
                    // What a router makes of several segments is sent when it has been made.
                    let train = if packet.segments() == segments { delivery } else { Train::at(now) };
                    match next {
                        Some(next) => {
                            let routed = Routed::new(to.into(), next, routers_left, packet);
                            self.enter(out.index(), now, train, routed, sink);
                        }
                        None => sink.drop(out, now, DropCause::Router, packet),
                    }
                }
                Emission::Refuse(packet) => {
                    sink.drop(PipeId::from_index(pipe), now, DropCause::Router, packet);
                }
                Emission::TooBig(interface, packet) => {
                    let station = view.interfaces[interface as usize].station;
                    let out = self.stations[station as usize].out;
                    self.links[out.index()].too_large += u64::from(packet.segments());
                    sink.drop(out, now, DropCause::Mtu, packet);
                }
            }
        }
    }

    /// Where a packet for `to` goes next on the link of station `from`: there itself, or else to the router that
    /// `way` says.
    fn next_station(&self, from: u32, to: Destination, way: impl FnOnce() -> Option<Way>) -> Option<Target> {
        match to {
            Destination::All => Some(to.into()),
            Destination::Station(far)
                if self.domains.get(far as usize) == Some(&self.domains[from as usize]) =>
            {
                Some(to.into())
            }
            Destination::Station(_) => way().map(|way| Destination::Station(way.station).into()),
        }
    }

    /// Whether a queue that is no faster follows on the way of a packet, which can send a train's first segments
    /// before its last has come.
    #[inline(never)]
    fn slower_follows(&self, pipe: usize, routed: &Routed<P>) -> bool {
        let mut at = pipe;
        let mut next = routed.next();
        for _ in 0..MOST_ROUTERS {
            let following = match (self.links[at].end, next.station()) {
                (End::Switch(switch), Some(to)) => self.way_from(switch as usize, to),
                (End::Router(router, _), Some(_)) => {
                    let view = &self.routers[router as usize];
                    routed.packet.way_at(view, routed.to().into()).and_then(|way| {
                        next = Destination::Station(way.station).into();
                        let station = view.interfaces.get(way.interface as usize)?.station;
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
