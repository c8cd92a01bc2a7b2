//! The processing costs of packets at a host, between the network and TCP: turnaround, processor, interrupts,
//! bus.
//!
//! A received packet crosses the bus, waits for an interrupt, then for the processor, and is handled one
//! turnaround later. A sent packet waits for the processor, then crosses the bus to the card's queue. Bus and
//! processor each serve one packet after another, of both directions, in the order of arrival. Hosts without
//! `turnaround` and `cost` are not here: their packets take no time.
//!
//! Differences from real hosts: 1. One processor does everything, with the applications' share in the costs
//! of packets. 2. Interrupts cost the same on a busy host: there is no polling (NAPI). 3. Address resolution
//! and ICMP errors cost nothing when sent. 4. The frames of a super-packet arrive together, in one interrupt.

use std::collections::VecDeque;

use net::{Node, Packet, PacketShape, Station, TimerQueue};
use scenario::{HostCost, Moderation, Scenario};
use units::{Instant, Picoseconds, Time};

use crate::{
    HostDefaults, HostSample, addresses::Route, compact_packet::CompactPacket, transmit_queue::QueuedTcp,
};

/// Packets other than TCP that may wait for the processor: `net.core.netdev_max_backlog`. TCP limits itself
/// by its window.
const MAX_WAITING_DATAGRAMS: usize = 1000;
const PS_PER_NS: u64 = 1000;

/// The processing of all hosts whose packets take time.
#[derive(Debug)]
pub(crate) struct HostProcessing {
    hosts: Vec<ProcessedHost>,
    /// By station: an index into `hosts`.
    by_station: Vec<Option<u32>>,
    /// When each host's next step is due.
    timers: TimerQueue,
}

/// The result of a host's step.
#[derive(Debug)]
pub(crate) enum ProcessedPacket {
    /// The host of this station handles a received packet now, or up to its jitter later.
    Received { station: u32, packet: CompactPacket },
    /// The host passes a packet to its card now.
    Sent(Route, CompactPacket),
}

/// A packet on its way through a host.
#[derive(Debug)]
enum Work {
    Receive(CompactPacket),
    Send(Route, CompactPacket),
}

/// The processing of one host.
#[derive(Debug)]
struct ProcessedHost {
    name: String,
    /// Its first station.
    station: u32,
    turnaround: Time,
    cost: HostCost,
    /// The host's cost is not zero.
    has_cost: bool,
    /// Maximum number of segments in a packet that the card passes up.
    max_gro_segs: u32,
    bus: Server,
    /// Received packets that the card has not announced yet.
    unannounced: VecDeque<CompactPacket>,
    unannounced_frames: u32,
    /// The time at which it announces them.
    interrupt_at: Instant,
    /// When the last interrupt about sent packets occurs, and the frames that it reports so far.
    sent_interrupt_at: Instant,
    sent_frames: u32,
    processor: Server,
    /// The TCP packets that the host has not passed to its card yet.
    unsent: QueuedTcp,
    /// Packets to handle, and the time of each.
    turning: VecDeque<(Instant, CompactPacket)>,
    /// Received packets before and at the processor.
    waiting: usize,
    interrupts: u64,
    dropped: u64,
}

/// Serves one packet after another, in the order of arrival. Interrupts come first: they delay the packet in
/// service.
#[derive(Debug, Default)]
struct Server {
    /// When the first packet is done, or without one the last interrupt, ps.
    done_ps: u64,
    /// The time of all work that was begun, done or not.
    begun: Picoseconds,
    /// The packets, each with the time that it takes.
    queue: VecDeque<(Picoseconds, Work)>,
}

impl Server {
    fn push(&mut self, now: Instant, time: Picoseconds, work: Work) {
        self.queue.push_back((time, work));
        if self.queue.len() == 1 {
            self.done_ps = self.done_ps.max(now.as_nanos() * PS_PER_NS);
            self.begin();
        }
    }

    /// Begins the first packet at the end of the earlier work.
    fn begin(&mut self) {
        let Some((time, _)) = self.queue.front() else { return };
        self.done_ps += time.0;
        self.begun.0 += time.0;
    }

    /// Adds `time` of work that begins at once.
    fn interrupt(&mut self, now: Instant, time: Picoseconds) {
        self.done_ps = self.done_ps.max(now.as_nanos() * PS_PER_NS) + time.0;
        self.begun.0 += time.0;
    }

    /// The first packet, if it is done by `now`.
    fn pop(&mut self, now: Instant) -> Option<Work> {
        if self.next() > now {
            return None;
        }
        let (_, work) = self.queue.pop_front()?;
        self.begin();
        Some(work)
    }

    /// When the first packet is done.
    fn next(&self) -> Instant {
        if self.queue.is_empty() {
            Instant::NEVER
        } else {
            Instant::from_nanos(self.done_ps.div_ceil(PS_PER_NS))
        }
    }

    /// The busy time until `now`, without the unfinished part of work in progress.
    fn busy_until(&self, now: Instant) -> Picoseconds {
        Picoseconds(self.begun.0 - self.done_ps.saturating_sub(now.as_nanos() * PS_PER_NS).min(self.begun.0))
    }
}

impl HostProcessing {
    /// The processing of a scenario's hosts; `None` if none takes time.
    pub(crate) fn new(scenario: &Scenario, defaults: &HostDefaults, stations: &[Station]) -> Option<Self> {
        let mut hosts = Vec::new();
        let mut of_host = vec![None; scenario.hosts.len()];
        let station_of = |host: usize| {
            stations.iter().position(|station| station.node == Node::Host(host as u32)).unwrap_or_default()
                as u32
        };
        for (index, host) in scenario.hosts.iter().enumerate() {
            let has_cost = host.cost != HostCost::default();
            if !has_cost && host.turnaround == Time::ZERO {
                continue;
            }
            of_host[index] = Some(hosts.len() as u32);
            hosts.push(ProcessedHost {
                name: host.name.clone(),
                station: station_of(index),
                turnaround: host.turnaround,
                cost: host.cost.clone(),
                has_cost,
                max_gro_segs: defaults.max_gro_segs(host),
                bus: Server::default(),
                unannounced: VecDeque::new(),
                unannounced_frames: 0,
                interrupt_at: Instant::NEVER,
                sent_interrupt_at: Instant::ZERO,
                sent_frames: 0,
                processor: Server::default(),
                unsent: QueuedTcp::default(),
                turning: VecDeque::new(),
                waiting: 0,
                interrupts: 0,
                dropped: 0,
            });
        }
        let by_station = stations.iter().map(|station| match station.node {
            Node::Host(host) => of_host[host as usize],
            _ => None,
        });
        let by_station = by_station.collect();
        let timers = TimerQueue::new(hosts.len());
        (!hosts.is_empty()).then_some(HostProcessing { hosts, by_station, timers })
    }

    /// When the next step of any host is due.
    pub(crate) fn next(&self) -> Instant {
        self.timers.next()
    }

    /// A packet arrives at a station. Returns it if its host takes no time.
    pub(crate) fn receive(
        &mut self,
        station: u32,
        at: Instant,
        packet: CompactPacket,
    ) -> Option<CompactPacket> {
        let Some(host) = self.by_station[station as usize] else { return Some(packet) };
        self.hosts[host as usize].receive(at, packet);
        self.arm(host);
        None
    }

    /// A host sends a packet. Returns it if it can leave at once.
    pub(crate) fn send(
        &mut self,
        route: &Route,
        now: Instant,
        packet: CompactPacket,
    ) -> Option<CompactPacket> {
        let host = self.by_station[route.from as usize];
        let Some(host) = host.filter(|host| self.hosts[*host as usize].has_cost) else { return Some(packet) };
        self.hosts[host as usize].send(route, now, packet);
        self.arm(host);
        None
    }

    /// Packets and payload bytes of the sender to endpoint `to` that the host of a station has not passed to
    /// its card yet; `None` if they leave at once.
    pub(crate) fn unsent(&self, station: u32, to: u32) -> Option<(u32, u64)> {
        let host = &self.hosts[self.by_station[station as usize]? as usize];
        host.has_cost.then(|| host.unsent.of(to))
    }

    /// Executes the next step of a host that is due at `now`, if any, until a packet leaves its processing.
    pub(crate) fn step(&mut self, now: Instant) -> Option<ProcessedPacket> {
        while let Some((_, host)) = self.timers.due(now) {
            let done = self.hosts[host].step(now);
            self.arm(host as u32);
            if done.is_some() {
                return done;
            }
        }
        None
    }

    /// The name and the work until `now` of each host with costs.
    pub(crate) fn work(&self, now: Instant) -> impl Iterator<Item = (&str, HostSample)> {
        self.hosts.iter().filter(|host| host.has_cost).map(move |host| {
            let sample = HostSample {
                time: now,
                processor: host.processor.busy_until(now),
                bus: host.bus.busy_until(now),
                interrupts: host.interrupts,
                dropped: host.dropped,
            };
            (host.name.as_str(), sample)
        })
    }

    fn arm(&mut self, host: u32) {
        let at = self.hosts[host as usize].next();
        self.timers.arm(host as usize, (at < Instant::NEVER).then_some(at));
    }
}

impl ProcessedHost {
    fn next(&self) -> Instant {
        let turning = self.turning.front().map_or(Instant::NEVER, |(at, _)| *at);
        self.bus.next().min(self.interrupt_at).min(self.processor.next()).min(turning)
    }

    fn receive(&mut self, at: Instant, packet: CompactPacket) {
        if !self.has_cost {
            return self.turning.push_back((at.later_by(self.turnaround), packet));
        }
        let limit = self.cost.rx_queue.map(|packets| packets as usize);
        let limit = limit.or((!packet.is_tcp()).then_some(MAX_WAITING_DATAGRAMS));
        if limit.is_some_and(|limit| self.waiting >= limit) {
            self.dropped += 1;
            return;
        }
        self.waiting += 1;
        match self.bus_time(&packet) {
            Some(time) => self.bus.push(at, time, Work::Receive(packet)),
            None => self.announce(at, packet),
        }
    }

    fn send(&mut self, route: &Route, now: Instant, packet: CompactPacket) {
        let is_full = !packet.is_tcp() && self.processor.queue.len() >= MAX_WAITING_DATAGRAMS;
        if is_full {
            self.dropped += 1;
            return;
        }
        self.unsent.add(&packet);
        let time = self.processor_time(&packet, u32::MAX);
        self.processor.push(now, time, Work::Send(*route, packet));
    }

    fn step(&mut self, now: Instant) -> Option<ProcessedPacket> {
        if let Some((_, packet)) = self.turning.pop_front_if(|(at, _)| *at <= now) {
            return Some(ProcessedPacket::Received { station: self.station, packet });
        }
        match self.bus.pop(now) {
            Some(Work::Receive(packet)) => self.announce(now, packet),
            Some(Work::Send(route, packet)) => return Some(self.leave(now, route, packet)),
            None => {}
        }
        if self.interrupt_at <= now {
            self.interrupt(now);
        }
        match self.processor.pop(now) {
            Some(Work::Receive(packet)) => {
                self.waiting -= 1;
                self.turning.push_back((now.later_by(self.turnaround), packet));
            }
            Some(Work::Send(route, packet)) => match self.bus_time(&packet) {
                Some(time) => self.bus.push(now, time, Work::Send(route, packet)),
                None => return Some(self.leave(now, route, packet)),
            },
            None => {}
        }
        None
    }

    /// A received packet is in memory: the card announces it by an interrupt.
    fn announce(&mut self, now: Instant, packet: CompactPacket) {
        let Moderation { delay, frames } = self.cost.rx;
        self.unannounced_frames += packet.segments();
        self.unannounced.push_back(packet);
        if self.interrupt_at == Instant::NEVER {
            self.interrupt_at = now.later_by(delay);
        }
        if self.interrupt_at <= now || frames.is_some_and(|frames| self.unannounced_frames >= frames) {
            self.interrupt(now);
        }
    }

    fn interrupt(&mut self, now: Instant) {
        self.charge_interrupt(now);
        (self.interrupt_at, self.unannounced_frames) = (Instant::NEVER, 0);
        while let Some(packet) = self.unannounced.pop_front() {
            let time = self.processor_time(&packet, self.max_gro_segs);
            self.processor.push(now, time, Work::Receive(packet));
        }
    }

    /// A packet leaves for the card, which reports it by an interrupt.
    fn leave(&mut self, now: Instant, route: Route, packet: CompactPacket) -> ProcessedPacket {
        let Moderation { delay, frames } = self.cost.tx;
        let is_reported =
            now < self.sent_interrupt_at && frames.is_none_or(|frames| self.sent_frames < frames);
        if !is_reported {
            // The interrupt is charged at the first packet that it reports.
            self.charge_interrupt(now);
            (self.sent_interrupt_at, self.sent_frames) = (now.later_by(delay), 0);
        }
        self.sent_frames += packet.segments();
        self.unsent.remove(&packet);
        ProcessedPacket::Sent(route, packet)
    }

    fn charge_interrupt(&mut self, now: Instant) {
        self.interrupts += 1;
        self.processor.interrupt(now, self.cost.per_interrupt);
    }

    /// Processor time of a packet, in super-packets of at most `max_segs` segments.
    fn processor_time(&self, packet: &CompactPacket, max_segs: u32) -> Picoseconds {
        let shape = packet.shape();
        let (frames, packets) = (u64::from(shape.segments), u64::from(shape.segments.div_ceil(max_segs)));
        let HostCost { per_packet, per_frame, per_byte, .. } = &self.cost;
        Picoseconds(packets * per_packet.0 + frames * per_frame.0 + bytes(shape) * per_byte.0)
    }

    /// Time of a packet on the bus, if the bus has a rate.
    fn bus_time(&self, packet: &CompactPacket) -> Option<Picoseconds> {
        let rate = self.cost.bus?;
        let ps = u128::from(bytes(packet.shape()) * 8) * 1_000_000_000_000 / u128::from(rate.0);
        Some(Picoseconds(ps as u64))
    }
}

/// IP bytes of all segments.
fn bytes(shape: PacketShape) -> u64 {
    u64::from(shape.segments - 1) * u64::from(shape.segment_bytes) + u64::from(shape.last_segment_bytes)
}
