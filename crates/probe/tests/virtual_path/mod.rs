//! A path in virtual time whose rate, queue and cross traffic are known: what methods are scored against.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod random;

use datagrams::Draws;
use net::{
    Destination, DropCause, Network, Node, PipeId, PipeSpec, Rate, Sink, Topology, test_packet::TestPacket,
};
use probe::{Budget, Fleet, Method, MtuAnswer, MtuOutcome, MtuSearch, Seen, Step, Train};
use units::{BitRate, Time};

/// Numbers of cross traffic.
const CROSS: u64 = u64::MAX;
/// Cross traffic begins so many packet times before a train, so that the queue is what it usually is.
const WARM_UP_PACKETS: u64 = 300;
/// What of it a link carries is counted over so many packets.
const CARRIED_PACKETS: usize = 100_000;
/// What the network adds to each packet, bytes.
const ETHERNET: u64 = 14;
/// The difference of the two ends' clocks, ns.
const OFFSET: i64 = 7_777_777_777;

/// Traffic beside the probes, through the same link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cross {
    /// Share of the link's rate.
    pub load: f64,
    /// Packets of one size, or of three as in the Internet.
    pub sizes: Sizes,
    /// How many packets come together, on average: 1 is Poisson.
    pub burst: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    One,
    Three,
}

/// The sender, a fast link, the link that is measured, the receiver.
pub struct VirtualPath {
    network: Network<TestPacket>,
    rate: f64,
    cross: Cross,
    draws: Draws,
    now: Time,
    next_cross: u64,
    in_burst: u64,
    /// Bytes of IP of a packet of the cross traffic at most.
    cross_bytes: u32,
    pub budget: Budget,
    /// Probes that a link refused for its MTU.
    pub above_mtu: u64,
}

#[derive(Default)]
struct Arrivals {
    arrived: Vec<Option<i64>>,
    open: usize,
    /// Of cross traffic, with the headers of Ethernet.
    cross_bytes: u64,
    above_mtu: u64,
}

impl Sink<TestPacket> for Arrivals {
    fn deliver(&mut self, _station: u32, at: Time, packet: TestPacket) {
        if packet.first != CROSS {
            self.arrived[packet.first as usize] = Some(at.0 as i64 + OFFSET);
            self.open -= 1;
        } else {
            self.cross_bytes += u64::from(packet.bytes) + ETHERNET;
        }
    }
    fn drop(&mut self, _pipe: PipeId, _at: Time, cause: DropCause, packet: TestPacket) {
        if packet.first != CROSS {
            self.above_mtu += u64::from(cause == DropCause::Mtu);
            self.open -= 1;
        }
    }
}

impl VirtualPath {
    /// `link` is what is measured; the sender's own link has `access`.
    pub fn new(link: PipeSpec, access: BitRate, cross: Cross, max_rate: BitRate, seed: u64) -> Self {
        let rate = link.rate.mean().map_or(1e12, |rate| rate.0 as f64);
        let cross_bytes = link.mtu.unwrap_or(1500).min(1500);
        let mut topology = Topology::new(4, 2);
        let fast = PipeSpec { rate: Rate::Constant(access), ..PipeSpec::default() };
        topology.link(Node::Host(0), Node::Switch(0), fast, PipeSpec::default());
        topology.link(Node::Switch(0), Node::Switch(1), link, PipeSpec::default());
        topology.link(Node::Switch(1), Node::Host(1), PipeSpec::default(), PipeSpec::default());
        topology.link(Node::Host(2), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
        topology.link(Node::Switch(1), Node::Host(3), PipeSpec::default(), PipeSpec::default());
        VirtualPath {
            network: topology.build(seed).unwrap(),
            rate,
            cross,
            draws: Draws::new(seed, 1),
            now: Time(0),
            next_cross: 0,
            in_burst: 0,
            cross_bytes,
            budget: Budget::new(max_rate),
            above_mtu: 0,
        }
    }

    /// The share of the link that cross traffic takes where nobody probes: bursts that a short queue or a policer drops take none of it.
    pub fn carried(&mut self) -> f64 {
        let mut sink = Arrivals::default();
        let begin = self.now;
        self.next_cross = begin.0;
        if self.cross.load > 0.0 {
            for _ in 0..CARRIED_PACKETS {
                let at = Time(self.next_cross);
                self.network.run_until(at, &mut sink);
                self.send_cross(at, &mut sink);
                self.now = at;
            }
        }
        while let Some(wake) = self.network.next_wake() {
            self.network.run_until(wake, &mut sink);
        }
        let seconds = (self.now.0 - begin.0).max(1) as f64 / 1e9;
        sink.cross_bytes as f64 * 8.0 / seconds / self.rate
    }

    /// Finds the path MTU as a session does, up to `most`; routers say what fits where there is no black hole.
    pub fn discover_mtu(&mut self, most: u32, says: Option<u32>) -> MtuAnswer {
        let mut search = MtuSearch::between(576, most);
        while let Some(bytes) = search.next() {
            let seen = self.send_train(&Train { bytes, at_ns: vec![0, 1_000_000] }, Time::ZERO);
            search.take(match (seen.received().next(), says) {
                (Some(_), _) => MtuOutcome::Answered,
                (None, Some(fits)) if bytes > fits => MtuOutcome::TooBig(fits),
                (None, _) => MtuOutcome::Silent,
            });
        }
        self.above_mtu = 0;
        search.answer()
    }

    /// Runs a method to its end.
    pub fn run<M: Method>(&mut self, method: &mut M) -> M::Answer {
        for _ in 0..1000 {
            match method.next() {
                Step::Send(fleet) => {
                    let seen = self.send(&fleet);
                    method.take(&seen);
                }
                Step::Done => return method.answer(),
            }
        }
        panic!("{} goes on for ever", method.doing());
    }

    fn send(&mut self, fleet: &Fleet) -> Vec<Seen> {
        fleet.trains.iter().map(|train| self.send_train(train, fleet.gap)).collect()
    }

    fn send_train(&mut self, train: &Train, gap: Time) -> Seen {
        let warm_up = Time((WARM_UP_PACKETS as f64 * 12_000.0 * 1e9 / self.rate) as u64);
        let begin = self.now + gap + warm_up;
        let begin = match self.budget.earliest(begin, train) {
            Ok(begin) => begin,
            Err(too_large) => panic!("a train that needs {}", too_large.needs),
        };
        let mut sink = Arrivals {
            arrived: vec![None; train.at_ns.len()],
            open: train.at_ns.len(),
            ..Arrivals::default()
        };
        self.next_cross = self.next_cross.max(begin.0 - warm_up.0);
        let mut next = 0;
        let mut last = begin;
        while next < train.at_ns.len() || sink.open > 0 {
            let own = train.at_ns.get(next).map(|at| begin.0 + at);
            let cross = (self.cross.load > 0.0).then_some(self.next_cross);
            match (own, cross) {
                (Some(own), cross) if cross.is_none_or(|cross| own <= cross) => {
                    last = Time(own);
                    self.network.run_until(last, &mut sink);
                    let packet = TestPacket::single(next as u64, train.bytes);
                    self.network.send(0, last, Destination::Station(1), packet, &mut sink);
                    next += 1;
                }
                (_, Some(cross)) => {
                    last = Time(cross);
                    self.network.run_until(last, &mut sink);
                    self.send_cross(last, &mut sink);
                }
                _ => {
                    let Some(wake) = self.network.next_wake() else { break };
                    last = wake;
                    self.network.run_until(wake, &mut sink);
                }
            }
        }
        self.now = last;
        self.above_mtu += sink.above_mtu;
        let end = Time(begin.0 + train.duration_ns());
        self.budget.spend(begin, end, train);
        Seen {
            bytes: train.bytes,
            sent_ns: train.at_ns.iter().map(|at| (begin.0 + at) as i64).collect(),
            arrived_ns: sink.arrived,
            host_drops: 0,
        }
    }

    fn send_cross(&mut self, now: Time, sink: &mut Arrivals) {
        let bytes = match self.cross.sizes {
            Sizes::One => self.cross_bytes,
            // 40 B of acknowledgements, 576 B, 1500 B: in halves and quarters.
            Sizes::Three => [40, 40, 576, self.cross_bytes][self.draws.below(4) as usize],
        };
        let packet = TestPacket::single(CROSS, bytes);
        self.network.send(2, now, Destination::Station(3), packet, sink);
        if self.in_burst > 0 {
            self.in_burst -= 1;
            return;
        }
        // A burst of geometric length comes at one instant; bursts are Poisson.
        let mean_bytes = match self.cross.sizes {
            Sizes::One => f64::from(self.cross_bytes) + 14.0,
            Sizes::Three => (2.0 * 40.0 + 576.0 + f64::from(self.cross_bytes)) / 4.0 + 14.0,
        };
        while self.draws.below(1 << 20) as f64 / (1u64 << 20) as f64 > 1.0 / self.cross.burst {
            self.in_burst += 1;
        }
        let mean = self.cross.burst * mean_bytes * 8e9 / (self.rate * self.cross.load);
        self.next_cross = now.0 + self.draws.exponential(Time(mean as u64)).0.max(1);
    }
}
