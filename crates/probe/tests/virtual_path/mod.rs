//! A path in virtual time whose rate, queue and cross traffic are known, to score methods.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod random;

use datagrams::Draws;
use net::{
    Destination, DropCause, Network, Node, PacketSink, PipeId, PipeSpec, Rate, Topology,
    test_packet::TestPacket,
};
use probe::{Budget, Fleet, Method, MtuOutcome, MtuResult, MtuSearch, Step, Train, TrainObservation};
use units::{BitRate, Instant, Time};

/// Packet number of cross traffic.
const CROSS: u64 = u64::MAX;
/// Cross traffic begins this number of packet times before a train, so that the queue reaches a steady
/// state.
const WARM_UP_PACKETS: u64 = 300;
/// Number of packets over which carried cross traffic is measured.
const CARRIED_PACKETS: usize = 100_000;
/// Ethernet header that the network adds to each packet, bytes.
const ETHERNET_HEADER_BYTES: u64 = 14;
/// Offset of the receiver's clock, ns.
const CLOCK_OFFSET_NS: i64 = 7_777_777_777;

/// Cross traffic through the measured link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossTraffic {
    /// Load, as a share of the link's rate.
    pub load: f64,
    /// Packet sizes.
    pub sizes: PacketSizes,
    /// Mean number of packets of a burst: 1 is Poisson traffic.
    pub burst: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PacketSizes {
    One,
    /// Three sizes, as in the Internet.
    Three,
}

/// The sender, a fast link, the measured link, and the receiver.
pub struct VirtualPath {
    network: Network<TestPacket>,
    rate: f64,
    cross: CrossTraffic,
    draws: Draws,
    now: Instant,
    next_cross: u64,
    in_burst: u64,
    /// Maximum packet size of cross traffic, bytes of IP.
    cross_bytes: u32,
    pub budget: Budget,
    /// Number of probes above a link's MTU.
    pub above_mtu: u64,
}

#[derive(Default)]
struct Arrivals {
    arrived: Vec<Option<i64>>,
    outstanding: usize,
    /// Bytes of cross traffic, Ethernet headers included.
    cross_bytes: u64,
    above_mtu: u64,
}

impl PacketSink<TestPacket> for Arrivals {
    fn deliver(&mut self, _station: u32, at: Instant, packet: TestPacket) {
        if packet.first != CROSS {
            self.arrived[packet.first as usize] = Some(at.as_nanos() as i64 + CLOCK_OFFSET_NS);
            self.outstanding -= 1;
        } else {
            self.cross_bytes += u64::from(packet.bytes) + ETHERNET_HEADER_BYTES;
        }
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, cause: DropCause, packet: TestPacket) {
        if packet.first != CROSS {
            self.above_mtu += u64::from(cause == DropCause::Mtu);
            self.outstanding -= 1;
        }
    }
}

impl VirtualPath {
    /// `link` is the measured link; `access` is the rate of the sender's link.
    pub fn new(link: PipeSpec, access: BitRate, cross: CrossTraffic, max_rate: BitRate, seed: u64) -> Self {
        let rate = link.rate.mean().map_or(1e12, |rate| rate.0 as f64);
        let cross_bytes = link.mtu.unwrap_or(1500).min(1500);
        let mut topology = Topology::new(4, 2);
        let fast = PipeSpec { rate: Rate::Constant(access), ..PipeSpec::default() };
        topology.add_link(Node::Host(0), Node::Switch(0), fast, PipeSpec::default());
        topology.add_link(Node::Switch(0), Node::Switch(1), link, PipeSpec::default());
        topology.add_link(Node::Switch(1), Node::Host(1), PipeSpec::default(), PipeSpec::default());
        topology.add_link(Node::Host(2), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
        topology.add_link(Node::Switch(1), Node::Host(3), PipeSpec::default(), PipeSpec::default());
        VirtualPath {
            network: topology.build(seed).unwrap(),
            rate,
            cross,
            draws: Draws::new(seed, 1),
            now: Instant::ZERO,
            next_cross: 0,
            in_burst: 0,
            cross_bytes,
            budget: Budget::new(max_rate),
            above_mtu: 0,
        }
    }

    /// The share of the link's rate that carried cross traffic takes without probes; dropped packets do not
    /// count.
    pub fn carried_share(&mut self) -> f64 {
        let mut sink = Arrivals::default();
        let begin = self.now;
        self.next_cross = begin.as_nanos();
        if self.cross.load > 0.0 {
            for _ in 0..CARRIED_PACKETS {
                let at = Instant::from_nanos(self.next_cross);
                self.network.run_until(at, &mut sink);
                self.send_cross(at, &mut sink);
                self.now = at;
            }
        }
        while let Some(wake) = self.network.next_event() {
            self.network.run_until(wake, &mut sink);
        }
        let seconds = (self.now.as_nanos() - begin.as_nanos()).max(1) as f64 / 1e9;
        sink.cross_bytes as f64 * 8.0 / seconds / self.rate
    }

    /// Finds the path MTU, up to `max`, as a session does. `reported` is the MTU in routers' ICMP errors;
    /// `None` for a black hole.
    pub fn discover_mtu(&mut self, max: u32, reported: Option<u32>) -> MtuResult {
        let mut search = MtuSearch::between(576, max);
        while let Some(bytes) = search.next_size() {
            let observation = self.send_train(&Train { bytes, offsets_ns: vec![0, 1_000_000] }, Time::ZERO);
            search.add_outcome(match (observation.received().next(), reported) {
                (Some(_), _) => MtuOutcome::Replied,
                (None, Some(fits)) if bytes > fits => MtuOutcome::TooBig(fits),
                (None, _) => MtuOutcome::NoReply,
            });
        }
        self.above_mtu = 0;
        search.result()
    }

    /// Runs a method until it is done.
    pub fn run<M: Method>(&mut self, method: &mut M) -> M::Output {
        for _ in 0..1000 {
            match method.next_step() {
                Step::Send(fleet) => {
                    let observations = self.send(&fleet);
                    method.add_observations(&observations);
                }
                Step::Done => return method.result(),
            }
        }
        panic!("{} never ends", method.progress());
    }

    fn send(&mut self, fleet: &Fleet) -> Vec<TrainObservation> {
        fleet.trains.iter().map(|train| self.send_train(train, fleet.gap)).collect()
    }

    fn send_train(&mut self, train: &Train, gap: Time) -> TrainObservation {
        let warm_up = Time::from_nanos((WARM_UP_PACKETS as f64 * 12_000.0 * 1e9 / self.rate) as u64);
        let begin = self.now + gap + warm_up;
        let begin = match self.budget.earliest(begin, train) {
            Ok(begin) => begin,
            Err(too_large) => panic!("a train that requires {}", too_large.required_rate),
        };
        let mut sink = Arrivals {
            arrived: vec![None; train.offsets_ns.len()],
            outstanding: train.offsets_ns.len(),
            ..Arrivals::default()
        };
        self.next_cross = self.next_cross.max(begin.as_nanos() - warm_up.as_nanos());
        let mut next = 0;
        let mut last = begin;
        while next < train.offsets_ns.len() || sink.outstanding > 0 {
            let own = train.offsets_ns.get(next).map(|at| begin.as_nanos() + at);
            let cross = (self.cross.load > 0.0).then_some(self.next_cross);
            match (own, cross) {
                (Some(own), cross) if cross.is_none_or(|cross| own <= cross) => {
                    last = Instant::from_nanos(own);
                    self.network.run_until(last, &mut sink);
                    let packet = TestPacket::single(next as u64, train.bytes);
                    self.network.send(0, last, Destination::Station(1), packet, &mut sink);
                    next += 1;
                }
                (_, Some(cross)) => {
                    last = Instant::from_nanos(cross);
                    self.network.run_until(last, &mut sink);
                    self.send_cross(last, &mut sink);
                }
                _ => {
                    let Some(wake) = self.network.next_event() else { break };
                    last = wake;
                    self.network.run_until(wake, &mut sink);
                }
            }
        }
        self.now = last;
        self.above_mtu += sink.above_mtu;
        let end = begin.later_by(Time::from_nanos(train.duration_ns()));
        self.budget.record(begin, end, train);
        TrainObservation {
            bytes: train.bytes,
            sent_ns: train.offsets_ns.iter().map(|at| (begin.as_nanos() + at) as i64).collect(),
            arrived_ns: sink.arrived,
            host_drops: 0,
        }
    }

    fn send_cross(&mut self, now: Instant, sink: &mut Arrivals) {
        let bytes = match self.cross.sizes {
            PacketSizes::One => self.cross_bytes,
            // Half are ACKs of 40 bytes, a quarter 576 bytes, a quarter the maximum.
            PacketSizes::Three => [40, 40, 576, self.cross_bytes][self.draws.below(4) as usize],
        };
        let packet = TestPacket::single(CROSS, bytes);
        self.network.send(2, now, Destination::Station(3), packet, sink);
        if self.in_burst > 0 {
            self.in_burst -= 1;
            return;
        }
        // Bursts of geometric length are sent at once; the times between them are exponential.
        let mean_bytes = match self.cross.sizes {
            PacketSizes::One => f64::from(self.cross_bytes) + 14.0,
            PacketSizes::Three => (2.0 * 40.0 + 576.0 + f64::from(self.cross_bytes)) / 4.0 + 14.0,
        };
        while self.draws.below(1 << 20) as f64 / (1u64 << 20) as f64 > 1.0 / self.cross.burst {
            self.in_burst += 1;
        }
        let mean = self.cross.burst * mean_bytes * 8e9 / (self.rate * self.cross.load);
        self.next_cross =
            now.as_nanos() + self.draws.exponential(Time::from_nanos(mean as u64)).as_nanos().max(1);
    }
}
