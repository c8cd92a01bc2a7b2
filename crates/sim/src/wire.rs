//! How packets get into the network and out of it: segmentation by hosts, address resolution, and what has arrived.

use std::collections::VecDeque;

use datagrams::Draws;
use net::{Destination, DropCause, Network, Node, Packet, PipeId, Sink, Station};
use units::Time;

use crate::{
    Machine, Segmentation,
    addresses::Route,
    device::{Devices, Room},
    neighbours::{Neighbours, QUESTION_BYTES},
    packet::{Body, Neighbour, SimPacket},
    parcel::{Control, Parcel},
    path_mtu::{Dropped, PathMtus, TooBig, error_bytes},
};

/// Later than anything that happens.
const NEVER: Time = Time(u64::MAX);

/// The stream of random numbers that hosts' delays come from; flows have those of their places in the scenario.
const DELAY_STREAM: u32 = u32::MAX;

/// The network, and what stands between it and the hosts' TCP.
pub(crate) struct Wire {
    pub(crate) network: Network<Parcel>,
    pub(crate) arrived: Arrived,
    neighbours: Neighbours,
    devices: Devices,
    /// Numbers that packets had which have left a device's queue and were not looked at yet.
    left: VecDeque<u32>,
    pub(crate) path_mtus: PathMtus,
    /// Routers' reports that have come to hosts and were not looked at yet.
    pub(crate) reports: VecDeque<TooBig>,
    segmentation: Segmentation,
}

/// Packets that have come to a host and were not looked at yet, with the time when they are. Hosts keep their order.
#[derive(Debug)]
pub(crate) struct Arrived {
    packets: VecDeque<(Time, Parcel)>,
    delay: Draws,
    /// What a host's TCP takes at most to look at a segment, ns.
    most: u64,
    last: Time,
    /// Directions of links that lead away from routers, and these.
    routers: Vec<(PipeId, u32)>,
}

impl Arrived {
    fn new(most: Time, seed: u64, routers: Vec<(PipeId, u32)>) -> Self {
        Arrived {
            packets: VecDeque::new(),
            delay: Draws::new(seed, DELAY_STREAM),
            most: most.0,
            last: Time(0),
            routers,
        }
    }

    /// A packet was too large for a link. A router will report it.
    #[cold]
    #[inline(never)]
    fn note_too_big(&mut self, pipe: PipeId, at: Time, packet: &Parcel) {
        let router = self.routers.iter().find(|(out, _)| *out == pipe).map(|(_, router)| *router);
        let Some(router) = router.filter(|_| packet.may_be_reported()) else { return };
        let dropped = Dropped { pipe, router, seq: packet.seq(), bytes: packet.segment_bytes() };
        self.last = self.last.max(at);
        let note = SimPacket { to: packet.to(), header: 0, body: Body::Dropped(dropped) };
        self.packets.push_back((self.last, note.into()));
    }

    /// When the next packet is looked at.
    #[inline]
    fn next(&self) -> Time {
        self.packets.front().map_or(NEVER, |(due, _)| *due)
    }
}

impl Sink<Parcel> for Arrived {
    #[inline]
    fn deliver(&mut self, _station: u32, at: Time, packet: Parcel) {
        let delay = if packet.is_tcp() { self.delay.below(self.most + 1) } else { 0 };
        self.last = self.last.max(Time(at.0 + delay));
        self.packets.push_back((self.last, packet));
    }
    #[inline]
    fn drop(&mut self, pipe: PipeId, at: Time, cause: DropCause, packet: Parcel) {
        if cause == DropCause::Mtu {
            self.note_too_big(pipe, at, &packet);
        }
    }
    #[inline]
    fn until(&self) -> Time {
        self.next()
    }
}

/// What a wire is made of.
pub(crate) struct Plan<'a> {
    pub(crate) network: Network<Parcel>,
    pub(crate) devices: Devices,
    pub(crate) stations: &'a [Station],
    pub(crate) path_mtus: PathMtus,
}

impl Wire {
    pub(crate) fn new(plan: Plan<'_>, machine: &Machine, seed: u64) -> Self {
        let Plan { network, devices, stations, path_mtus } = plan;
        let neighbours = Neighbours::new(network.stations() as usize);
        let router = |station: &Station| match station.node {
            Node::Router(router) => Some((station.out, router)),
            _ => None,
        };
        let routers = stations.iter().filter_map(router).collect();
        Wire {
            network,
            arrived: Arrived::new(machine.handling, seed, routers),
            neighbours,
            devices,
            left: VecDeque::new(),
            path_mtus,
            reports: VecDeque::new(),
            segmentation: machine.segmentation,
        }
    }

    /// Lets the network go on until hosts have something to do, but not beyond `until`; gives when they have.
    #[inline]
    pub(crate) fn run_network(&mut self, until: Time) -> Time {
        let next = self.devices.next().min(self.neighbours.next());
        self.network.run_until(until.min(next), &mut self.arrived);
        next.min(self.arrived.next())
    }

    /// Does what is due outside the network.
    #[inline]
    pub(crate) fn run_until(&mut self, now: Time) {
        if self.neighbours.next() <= now {
            while let Some((asker, asked)) = self.neighbours.due(now) {
                self.ask(asker, asked, now);
            }
        }
        while let Some(station) = self.devices.due(now) {
            self.drain(station, now);
        }
    }

    /// A device passes on what its link takes: one packet, or all where the link has no rate.
    #[inline(never)]
    fn drain(&mut self, station: u32, now: Time) {
        while let Some(device) = self.devices.at(station).filter(|device| !device.is_empty()) {
            let busy = self.network.busy(station, now);
            if busy.0 > 0 {
                return self.devices.arm(station, Some(Time(now.0 + busy.0)));
            }
            let Some((route, packet)) = device.pop() else { break };
            self.left.push_back(packet.to());
            self.send_one(&route, now, packet);
        }
        self.devices.arm(station, None);
    }

    /// What the sender of packets to number `to` should know of its device's queue; none where there is no queue.
    #[inline]
    pub(crate) fn room(&mut self, route: &Route, to: u32, now: Time) -> Option<Room> {
        let device = self.devices.at(route.from)?;
        let is_free = device.is_empty() && self.network.busy(route.from, now).0 == 0;
        Some(device.room(to, is_free))
    }

    /// Packets that the device of a sender with this route has dropped so far; 0 where there is no queue.
    pub(crate) fn dropped(&mut self, route: &Route) -> u64 {
        self.devices.at(route.from).map_or(0, |device| device.dropped())
    }

    /// Whether a packet has come and waits to be looked at.
    #[inline]
    pub(crate) fn has_come(&self, now: Time) -> bool {
        self.arrived.next() <= now
    }

    /// The number of a packet that has left its device's queue.
    #[inline]
    pub(crate) fn next_left(&mut self) -> Option<u32> {
        self.left.pop_front()
    }

    /// A host sends.
    #[inline]
    pub(crate) fn send(&mut self, route: &Route, now: Time, packet: impl Into<Parcel>) {
        let mut packet = packet.into();
        if self.segmentation == Segmentation::Host {
            packet = self.send_parts(route, now, packet);
        }
        self.send_through_device(route, now, packet);
    }

    /// Sends the segments of a super-packet but for the last, which it gives.
    #[cold]
    fn send_parts(&mut self, route: &Route, now: Time, mut packet: Parcel) -> Parcel {
        // Fragments have been made by the host already, and travel as one object all the same.
        while packet.is_tcp() && packet.segments() > 1 {
            let rest = packet.split_off(1);
            self.send_through_device(route, now, std::mem::replace(&mut packet, rest));
        }
        packet
    }

    #[inline(always)]
    fn send_through_device(&mut self, route: &Route, now: Time, packet: Parcel) {
        if let Some(device) = self.devices.at(route.from) {
            let busy = self.network.busy(route.from, now);
            if busy.0 > 0 || !device.is_empty() {
                if device.push(route, packet) {
                    self.devices.arm(route.from, Some(Time(now.0 + busy.0)));
                }
                return;
            }
        }
        self.send_one(route, now, packet);
    }

    #[inline(always)]
    fn send_one(&mut self, route: &Route, now: Time, packet: Parcel) {
        if self.neighbours.knows(route.from, route.next) {
            let to = Destination::Station(route.to);
            self.network.send(route.from, now, to, packet, &mut self.arrived);
        } else {
            self.send_unknown(route, now, packet);
        }
    }

    /// A packet to a neighbour that is not known yet.
    #[cold]
    fn send_unknown(&mut self, route: &Route, now: Time, packet: Parcel) {
        if self.neighbours.keep((route.from, route.next), now, route.to, packet) {
            self.ask(route.from, route.next, now);
        }
    }

    /// The next packet that came for a flow. Questions for neighbours are answered on the way.
    #[inline]
    pub(crate) fn receive(&mut self, now: Time) -> Option<Parcel> {
        while self.arrived.next() <= now {
            let (_, packet) = self.arrived.packets.pop_front()?;
            match packet.control() {
                Some(control) => self.take_control(control, now),
                None => return Some(packet),
            }
        }
        None
    }

    #[cold]
    fn ask(&mut self, asker: u32, asked: u32, now: Time) {
        self.say(asker, asked, Neighbour { asker, asked, reply: false }, now);
    }

    #[cold]
    #[inline(never)]
    fn take_control(&mut self, control: Control, now: Time) {
        match control {
            Control::Neighbour(word) => self.hear(&word, now),
            Control::TooBig(report) => self.reports.push_back(report),
            Control::Dropped(number, dropped) => self.report(number, &dropped, now),
        }
    }

    /// A router reports to the sender of a packet to `number` that it was too large.
    fn report(&mut self, number: u32, dropped: &Dropped, now: Time) {
        let Some(ends) = self.path_mtus.ends(number) else { return };
        let Some(mtu) = self.network.mtu(dropped.pipe) else { return };
        let report = TooBig { number, seq: dropped.seq, mtu };
        let header = error_bytes(ends.ip_header, dropped.bytes);
        let packet = SimPacket { to: number ^ 1, header, body: Body::TooBig(report) };
        self.network.send_from_router(dropped.router, now, ends.source, packet.into(), &mut self.arrived);
    }

    #[cold]
    fn hear(&mut self, word: &Neighbour, now: Time) {
        let (own, other) = if word.reply { (word.asker, word.asked) } else { (word.asked, word.asker) };
        if !word.reply {
            self.say(own, other, Neighbour { reply: true, ..*word }, now);
        }
        for (to, packet) in self.neighbours.learn(own, other) {
            self.network.send(own, now, Destination::Station(to), packet, &mut self.arrived);
        }
    }

    fn say(&mut self, from: u32, to: u32, word: Neighbour, now: Time) {
        let packet = SimPacket { to: u32::MAX, header: QUESTION_BYTES, body: Body::Neighbour(word) };
        self.network.send(from, now, Destination::Station(to), packet.into(), &mut self.arrived);
    }
}
