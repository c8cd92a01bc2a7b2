//! The layers below the hosts' TCP and UDP: segmentation, transmit queues, address resolution, the network,
//! and arrivals.

use std::collections::VecDeque;

use datagrams::Draws;
use net::{Destination, DropCause, Network, Node, Packet, PacketSink, PipeId, Station};
use units::{Instant, Time};

use crate::{
    addresses::Route,
    compact_packet::{CompactPacket, ControlPacket},
    host_processing::{HostProcessing, ProcessedPacket},
    neighbours::{NeighbourTables, REQUEST_BYTES, WaitingDrops, WaitingLimit},
    packet::{Body, DroppedPacket, NeighbourMessage, SimPacket, TooBig},
    path_mtu::{PathMtus, icmp_error_bytes},
    transmit_queue::{QueueSpace, TransmitQueues},
};

/// The random stream of hosts' jitter. Flows use the streams of their indices in the scenario.
const DELAY_STREAM: u32 = u32::MAX;

/// The network, and the hosts' layers below TCP and UDP.
pub(crate) struct LinkLayer {
    pub(crate) network: Network<CompactPacket>,
    pub(crate) arrivals: Arrivals,
    neighbours: NeighbourTables,
    transmit_queues: TransmitQueues,
    /// Destination endpoints of packets that have left a transmit queue, for [`LinkLayer::next_dequeued`].
    dequeued: VecDeque<u32>,
    pub(crate) path_mtus: PathMtus,
    /// Routers' ICMP errors that have arrived at hosts and are not handled yet.
    pub(crate) icmp_errors: VecDeque<TooBig>,
    /// By station: its host segments super-packets before its device. Empty if no host does.
    segmenting: Vec<bool>,
}

/// Packets that have arrived at hosts, each with the time at which the host handles it. Those of a station
/// keep their order.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The earliest first.
    packets: VecDeque<(Instant, CompactPacket)>,
    /// Hosts whose packets take time; `None` if no host's do.
    pub(crate) processing: Option<Box<HostProcessing>>,
    delay: Draws,
    /// By station: the longest time until its host's TCP handles a segment.
    jitter: Vec<Time>,
    /// By station: when its host handles the last packet.
    last: Vec<Instant>,
    /// Directions of links that leave routers, and these routers.
    routers: Vec<(PipeId, u32)>,
}

impl Arrivals {
    fn new(
        jitter: Vec<Time>,
        seed: u64,
        routers: Vec<(PipeId, u32)>,
        processing: Option<HostProcessing>,
    ) -> Self {
        Arrivals {
            packets: VecDeque::new(),
            processing: processing.map(Box::new),
            delay: Draws::new(seed, DELAY_STREAM),
            last: vec![Instant::ZERO; jitter.len()],
            jitter,
            routers,
        }
    }

    /// Notes a packet that exceeded a link's MTU, so that the router before the link reports it.
    #[cold]
    #[inline(never)]
    fn note_too_big(&mut self, pipe: PipeId, at: Instant, packet: &CompactPacket) {
        let router = self.routers.iter().find(|(out, _)| *out == pipe).map(|(_, router)| *router);
        let Some(router) = router.filter(|_| packet.may_cause_icmp_error()) else { return };
        let dropped = DroppedPacket { pipe, router, seq: packet.seq(), bytes: packet.segment_bytes() };
        let note = SimPacket { to: packet.to(), header: 0, body: Body::Dropped(dropped) };
        self.insert(at, note.into());
    }

    /// Adds a packet that is handled at `due`, after those of the same time.
    #[inline]
    fn insert(&mut self, due: Instant, packet: CompactPacket) {
        if self.packets.back().is_some_and(|(last, _)| *last > due) {
            return self.insert_between(due, packet);
        }
        self.packets.push_back((due, packet));
    }

    #[inline(never)]
    fn insert_between(&mut self, due: Instant, packet: CompactPacket) {
        let index = self.packets.partition_point(|(other, _)| *other <= due);
        self.packets.insert(index, (due, packet));
    }

    /// When the next packet is handled.
    #[inline]
    fn next(&self) -> Instant {
        self.packets.front().map_or(Instant::NEVER, |(due, _)| *due)
    }

    /// When the next packet is handled, or a host's processing has its next step.
    #[inline]
    fn next_event(&self) -> Instant {
        match &self.processing {
            None => self.next(),
            Some(processing) => self.next().min(processing.next()),
        }
    }

    /// The host of a station handles a packet at `at`, or its TCP handles it up to the host's jitter later at
    /// random.
    #[inline]
    fn hand_over(&mut self, station: u32, at: Instant, packet: CompactPacket) {
        let station = station as usize;
        let delay = if packet.is_tcp() { self.delay.below(self.jitter[station].as_nanos() + 1) } else { 0 };
        let due = self.last[station].max(at.later_by(Time::from_nanos(delay)));
        self.last[station] = due;
        self.insert(due, packet);
    }

    #[cold]
    #[inline(never)]
    fn process(&mut self, station: u32, at: Instant, packet: CompactPacket) -> Option<CompactPacket> {
        self.processing.as_mut()?.receive(station, at, packet)
    }
}

impl PacketSink<CompactPacket> for Arrivals {
    #[inline]
    fn deliver(&mut self, station: u32, at: Instant, mut packet: CompactPacket) {
        if self.processing.is_some() {
            let Some(unprocessed) = self.process(station, at, packet) else { return };
            packet = unprocessed;
        }
        self.hand_over(station, at, packet);
    }
    #[inline]
    fn drop(&mut self, pipe: PipeId, at: Instant, cause: DropCause, packet: CompactPacket) {
        if cause == DropCause::Mtu {
            self.note_too_big(pipe, at, &packet);
        }
    }
    #[inline]
    fn stop_at(&self) -> Instant {
        self.next_event()
    }
}

/// The space in a queue, reduced by the packets that wait for the processor before it.
#[cold]
fn add_unsent(in_queue: Option<QueueSpace>, unsent: Option<(u32, u64)>) -> Option<QueueSpace> {
    let Some((packets, bytes)) = unsent else { return in_queue };
    let queue = in_queue.unwrap_or(QueueSpace { packets: u32::MAX, own_packets: 0, own_bytes: 0 });
    Some(QueueSpace {
        packets: queue.packets,
        own_packets: queue.own_packets + packets,
        own_bytes: queue.own_bytes + bytes,
    })
}

/// The parts of a [`LinkLayer`] that the engine builds.
pub(crate) struct LinkLayerParts<'a> {
    pub(crate) network: Network<CompactPacket>,
    pub(crate) transmit_queues: TransmitQueues,
    pub(crate) stations: &'a [Station],
    pub(crate) processing: Option<HostProcessing>,
    pub(crate) path_mtus: PathMtus,
    pub(crate) fixed_neighbours: bool,
    /// By station.
    pub(crate) waiting_limits: Vec<WaitingLimit>,
    /// By station: the longest time until its host's TCP handles a segment.
    pub(crate) jitter: Vec<Time>,
    /// By station: its host segments super-packets before its device. Empty if no host does.
    pub(crate) segmenting: Vec<bool>,
}

impl LinkLayer {
    pub(crate) fn new(parts: LinkLayerParts<'_>, seed: u64) -> Self {
        let LinkLayerParts { network, transmit_queues, stations, processing, path_mtus, .. } = parts;
        let neighbours = NeighbourTables::new(parts.waiting_limits, parts.fixed_neighbours);
        let router = |station: &Station| match station.node {
            Node::Router(router) => Some((station.out, router)),
            _ => None,
        };
        let routers = stations.iter().filter_map(router).collect();
        LinkLayer {
            network,
            arrivals: Arrivals::new(parts.jitter, seed, routers, processing),
            neighbours,
            transmit_queues,
            dequeued: VecDeque::new(),
            path_mtus,
            icmp_errors: VecDeque::new(),
            segmenting: parts.segmenting,
        }
    }

    /// Runs the network until hosts have something to do, at most until `until`. Returns when they have.
    #[inline]
    pub(crate) fn run_network(&mut self, until: Instant) -> Instant {
        let next = self.transmit_queues.next().min(self.neighbours.next());
        self.network.run_until(until.min(next), &mut self.arrivals);
        next.min(self.arrivals.next_event())
    }

    /// Handles the timers of transmit queues and address resolution that are due at `now`.
    #[inline]
    pub(crate) fn run_timers(&mut self, now: Instant) {
        if self.neighbours.next() <= now {
            while let Some((requester, target)) = self.neighbours.due(now) {
                self.request_neighbour(requester, target, now);
            }
        }
        while let Some(station) = self.transmit_queues.due(now) {
            self.drain(station, now);
        }
        if self.arrivals.processing.is_some() {
            self.run_processing(now);
        }
    }

    /// Executes the steps of hosts' processing that are due at `now`.
    #[cold]
    #[inline(never)]
    fn run_processing(&mut self, now: Instant) {
        while let Some(done) = self.arrivals.processing.as_mut().and_then(|hosts| hosts.step(now)) {
            match done {
                ProcessedPacket::Received { station, packet } => {
                    self.arrivals.hand_over(station, now, packet);
                }
                ProcessedPacket::Sent(route, packet) => {
                    self.dequeued.push_back(packet.to());
                    // TCP had space when it sent the packet.
                    let is_reserved = packet.is_tcp();
                    self.send_through_queue(&route, now, packet, is_reserved);
                }
            }
        }
    }

    /// Sends the packets of a transmit queue that its link accepts: one packet, or all if the link has no
    /// rate.
    #[inline(never)]
    fn drain(&mut self, station: u32, now: Instant) {
        while let Some(queue) = self.transmit_queues.at(station).filter(|queue| !queue.is_empty()) {
            let busy = self.network.drain_time(station, now);
            if busy > Time::ZERO {
                return self.transmit_queues.arm(station, Some(now.later_by(busy)));
            }
            let Some((route, packet)) = queue.pop() else { break };
            self.dequeued.push_back(packet.to());
            self.send_resolved(&route, now, packet);
        }
        self.transmit_queues.arm(station, None);
    }

    /// The space in the transmit queue of a sender with this route to endpoint `to`; `None` if its host has
    /// no queue. What waits for the host's processor counts as queued: small queues hold it back too.
    #[inline]
    pub(crate) fn queue_space(&mut self, route: &Route, to: u32, now: Instant) -> Option<QueueSpace> {
        let in_queue = self.transmit_queues.at(route.from).map(|queue| {
            let link_is_free = queue.is_empty() && self.network.drain_time(route.from, now) == Time::ZERO;
            queue.space(to, link_is_free)
        });
        match &self.arrivals.processing {
            None => in_queue,
            Some(processing) => add_unsent(in_queue, processing.unsent(route.from, to)),
        }
    }

    /// Packets that the transmit queue of a station has dropped so far; 0 without a queue.
    pub(crate) fn dropped_by_queue(&self, station: u32) -> u64 {
        self.transmit_queues.dropped(station)
    }

    /// Packets that a station has dropped so far while they waited for an address.
    pub(crate) fn dropped_waiting(&self, station: u32) -> WaitingDrops {
        self.neighbours.dropped(station)
    }

    /// True if an arrival is to be handled at `now`.
    #[inline]
    pub(crate) fn has_arrivals(&self, now: Instant) -> bool {
        self.arrivals.next() <= now
    }

    /// The destination endpoint of a packet that has left its transmit queue, each packet once.
    #[inline]
    pub(crate) fn next_dequeued(&mut self) -> Option<u32> {
        self.dequeued.pop_front()
    }

    /// A host sends a packet.
    #[inline]
    pub(crate) fn send(&mut self, route: &Route, now: Instant, packet: impl Into<CompactPacket>) {
        let mut packet = packet.into();
        if !self.segmenting.is_empty() && self.segmenting[route.from as usize] {
            packet = self.send_all_but_last_segment(route, now, packet);
        }
        self.send_processed(route, now, packet);
    }

    /// A host sends a packet in the form that its card receives, after segmentation by the host.
    #[inline(always)]
    fn send_processed(&mut self, route: &Route, now: Instant, packet: CompactPacket) {
        match &mut self.arrivals.processing {
            None => self.send_through_queue(route, now, packet, false),
            Some(processing) => {
                if let Some(packet) = processing.send(route, now, packet) {
                    self.send_through_queue(route, now, packet, false);
                }
            }
        }
    }

    /// Sends the segments of a super-packet except the last, which it returns.
    #[cold]
    fn send_all_but_last_segment(
        &mut self,
        route: &Route,
        now: Instant,
        mut packet: CompactPacket,
    ) -> CompactPacket {
        // The fragments of other packets are one object here too.
        while packet.is_tcp() && packet.segments() > 1 {
            let others = packet.split_off(1);
            self.send_processed(route, now, std::mem::replace(&mut packet, others));
        }
        packet
    }

    #[inline(always)]
    fn send_through_queue(&mut self, route: &Route, now: Instant, packet: CompactPacket, is_reserved: bool) {
        if let Some(queue) = self.transmit_queues.at(route.from) {
            let busy = self.network.drain_time(route.from, now);
            if busy > Time::ZERO || !queue.is_empty() {
                if queue.push(route, packet, is_reserved) {
                    self.transmit_queues.arm(route.from, Some(now.later_by(busy)));
                }
                return;
            }
        }
        self.send_resolved(route, now, packet);
    }

    #[inline(always)]
    fn send_resolved(&mut self, route: &Route, now: Instant, packet: CompactPacket) {
        if self.neighbours.is_resolved(route.from, route.next) {
            let to = Destination::Station(route.to);
            self.network.send(route.from, now, to, packet, &mut self.arrivals);
        } else {
            self.hold_until_resolved(route, now, packet);
        }
    }

    /// Holds a packet whose next hop is not resolved, and requests its address.
    #[cold]
    fn hold_until_resolved(&mut self, route: &Route, now: Instant, packet: CompactPacket) {
        if self.neighbours.hold((route.from, route.next), now, route.to, packet) {
            self.request_neighbour(route.from, route.next, now);
        }
    }

    /// The next packet that has arrived for a flow. Handles control packets that come before it.
    #[inline]
    pub(crate) fn receive(&mut self, now: Instant) -> Option<CompactPacket> {
        while self.arrivals.next() <= now {
            let (_, packet) = self.arrivals.packets.pop_front()?;
            match packet.control() {
                Some(control) => self.handle_control(control, now),
                None => return Some(packet),
            }
        }
        None
    }

    #[cold]
    fn request_neighbour(&mut self, requester: u32, target: u32, now: Instant) {
        let request = NeighbourMessage { requester, target, is_reply: false };
        self.send_neighbour_message(requester, target, request, now);
    }

    #[cold]
    #[inline(never)]
    fn handle_control(&mut self, control: ControlPacket, now: Instant) {
        match control {
            ControlPacket::Neighbour(message) => self.handle_neighbour_message(&message, now),
            ControlPacket::TooBig(error) => self.icmp_errors.push_back(error),
            ControlPacket::Dropped(number, dropped) => self.send_too_big(number, &dropped, now),
        }
    }

    /// A router sends ICMP "packet too big" to the sender of a packet to endpoint `number`.
    fn send_too_big(&mut self, number: u32, dropped: &DroppedPacket, now: Instant) {
        let Some(path) = self.path_mtus.path(number) else { return };
        let Some(mtu) = self.network.mtu(dropped.pipe) else { return };
        let error = TooBig { number, seq: dropped.seq, mtu };
        let header = icmp_error_bytes(path.ip_header, dropped.bytes);
        let packet = SimPacket { to: number ^ 1, header, body: Body::TooBig(error) };
        self.network.send_from_router(dropped.router, now, path.source, packet.into(), &mut self.arrivals);
    }

    #[cold]
    fn handle_neighbour_message(&mut self, message: &NeighbourMessage, now: Instant) {
        let NeighbourMessage { requester, target, is_reply } = *message;
        let (own, other) = if is_reply { (requester, target) } else { (target, requester) };
        if !is_reply {
            self.send_neighbour_message(own, other, NeighbourMessage { is_reply: true, ..*message }, now);
        }
        for (to, packet) in self.neighbours.resolve(own, other) {
            self.network.send(own, now, Destination::Station(to), packet, &mut self.arrivals);
        }
    }

    fn send_neighbour_message(&mut self, from: u32, to: u32, message: NeighbourMessage, now: Instant) {
        let packet = SimPacket { to: u32::MAX, header: REQUEST_BYTES, body: Body::Neighbour(message) };
        self.network.send(from, now, Destination::Station(to), packet.into(), &mut self.arrivals);
    }
}
