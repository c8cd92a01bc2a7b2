//! Two endpoints over a path, in virtual time: a delay, a rate with a drop-tail queue, and a return path
//! without delay.
//!
//! The path is that of the reference runs: the kernel's netem, tbf with a burst of one packet, and pfifo.
//! Super-packets are split before the queue. The application writes and reads as much as possible.
#![allow(dead_code, reason = "each test file uses its part")]

mod reno;

use std::collections::VecDeque;

use tcp::{Config, CongestionControl, Endpoint, Flags, PacketMemory, Profile, Segment, TcpState, ecn};

pub use reno::Reno;

/// Ethernet header, counted by the link but not within the MTU, bytes.
const ETHERNET: u32 = 14;

/// A deterministic random bool (SplitMix64).
pub fn chance(seed: u64, number: u64, per_million: u64) -> bool {
    let mut x = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % 1_000_000 < per_million
}

/// A path, and functions that decide about single packets.
pub struct Path {
    /// Round-trip delay, ns.
    pub rtt: u64,
    /// Rate of the link, bit/s.
    pub rate: u64,
    /// Size of the queue, packets, including the one being sent.
    pub queue: usize,
    /// Whether the data packet of this number, from 0 and including retransmissions, is lost.
    pub loses: Box<dyn FnMut(u64) -> bool>,
    /// Additional delay of the data packet of this number, ns.
    pub delays: Box<dyn FnMut(u64) -> u64>,
    /// Whether the data packet of this number is marked, if it is ECN-capable; otherwise it is lost.
    pub marks: Box<dyn FnMut(u64) -> bool>,
    /// Whether the ACK of this number is lost.
    pub loses_ack: Box<dyn FnMut(u64) -> bool>,
}

impl Path {
    pub fn new(rate: u64, rtt: u64, queue: usize) -> Path {
        let never = || Box::new(|_| false);
        Path { rtt, rate, queue, loses: never(), marks: never(), delays: Box::new(|_| 0), loses_ack: never() }
    }
}

/// The configuration of the reference runs.
pub fn reference(mtu: u32, max_buffer: u32) -> Config {
    Config {
        profile: Profile::Linux6 { kernel: (6, 1) },
        mtu,
        rmem: [4096, 131_072, max_buffer],
        wmem: [4096, 16_384, max_buffer],
        packet_memory: PacketMemory::Veth,
        ..Config::default()
    }
}

/// A sender, a receiver and the path between them.
pub struct Pair {
    pub sender: Endpoint,
    pub receiver: Endpoint,
    pub now: u64,
    pub path: Path,
    header: u32,
    /// Departure times of the packets in the queue, ns.
    leaving: VecDeque<u64>,
    last_left: Option<u64>,
    flying: VecDeque<(u64, Segment)>,
    /// Bytes that the application still writes; none: unlimited.
    pub to_write: Option<u64>,
    /// Whether the application reads.
    pub reads: bool,
    /// The application leaves data in the receive buffer, whose last segment therefore never empties it: PSH
    /// has no effect.
    pub reads_late: bool,
    pub read: u64,
    pub sent: u64,
    /// The largest payload of a packet, bytes.
    pub largest: u32,
    pub dropped: u64,
    pub acks: u64,
    pub arrived: u64,
}

impl Pair {
    pub fn new(config: Config, path: Path, to_write: Option<u64>) -> Pair {
        Pair::with(Box::new(Reno), config, path, to_write)
    }

    /// With a congestion control other than Reno.
    pub fn with(
        controller: Box<dyn CongestionControl>,
        config: Config,
        path: Path,
        to_write: Option<u64>,
    ) -> Pair {
        let header = config.ip_header + ETHERNET + 20;
        Pair {
            sender: Endpoint::connect(config.clone(), controller, 0),
            receiver: Endpoint::listen(config, Box::new(Reno)),
            now: 0,
            path,
            header,
            leaving: VecDeque::new(),
            last_left: None,
            flying: VecDeque::new(),
            to_write,
            reads: true,
            reads_late: false,
            read: 0,
            sent: 0,
            largest: 0,
            dropped: 0,
            acks: 0,
            arrived: 0,
        }
    }

    /// Processes everything that happens at the current time.
    pub fn settle(&mut self) {
        loop {
            let max_bytes = if self.sender.can_write() { u64::from(tcp::DEFAULT_WRITE_BYTES) } else { 0 };
            let bytes = self.to_write.unwrap_or(u64::MAX).min(max_bytes);
            if bytes > 0 && self.sender.state() == TcpState::Established {
                let written = self.sender.write(self.now, bytes);
                if let Some(left) = &mut self.to_write {
                    *left -= written;
                    if *left == 0 {
                        self.sender.close(self.now);
                    }
                }
            }
            let mut idle = true;
            while let Some(segment) = self.sender.transmit(self.now) {
                idle = false;
                self.forward(segment);
            }
            while let Some(segment) = self.receiver.transmit(self.now) {
                idle = false;
                self.acks += 1;
                if !(self.path.loses_ack)(self.acks - 1) {
                    self.sender.on_segment(self.now, segment);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Forwards a segment or super-packet of the sender.
    fn forward(&mut self, mut segment: Segment) {
        if self.reads_late {
            segment.flags = segment.flags.without(Flags::PSH);
        }
        while segment.segs() > 1 {
            let rest = segment.split_off(1);
            self.enqueue(std::mem::replace(&mut segment, rest));
        }
        self.enqueue(segment);
    }

    fn enqueue(&mut self, mut segment: Segment) {
        let mut at = self.now + self.path.rtt;
        if segment.len > 0 {
            self.sent += 1;
            self.largest = self.largest.max(segment.len);
            let marked = (self.path.marks)(self.sent - 1);
            if (self.path.loses)(self.sent - 1) || marked && segment.ecn == ecn::NOT_CAPABLE {
                self.dropped += 1;
                return;
            }
            if marked {
                segment.ecn = ecn::CE;
            }
        }
        while self.leaving.front().is_some_and(|&left| left <= at) {
            self.leaving.pop_front();
        }
        if self.leaving.len() >= self.path.queue {
            self.dropped += 1;
            return;
        }
        let bytes = segment.len + self.header + segment.option_bytes(true);
        let time = u64::from(bytes) * 8_000_000_000 / self.path.rate;
        if let Some(last) = self.last_left {
            at = at.max(last);
        }
        self.last_left = Some(at + time);
        self.leaving.push_back(at);
        if segment.len > 0 {
            at += (self.path.delays)(self.sent - 1);
        }
        let index = self.flying.partition_point(|flying| flying.0 <= at);
        self.flying.insert(index, (at, segment));
    }

    /// Runs to the next event. If there is none until `end`, ns, sets the time to `end` and returns false.
    pub fn step(&mut self, end: u64) -> bool {
        self.settle();
        let arrival = self.flying.front().map(|flying| flying.0);
        let timers = [self.sender.next_timer(), self.receiver.next_timer()];
        let next = timers.into_iter().chain([arrival]).flatten().min();
        let Some(next) = next.filter(|&next| next <= end) else {
            self.now = end;
            return false;
        };
        assert!(next >= self.now || timers.contains(&Some(next)), "the next event is in the past");
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, segment) = self.flying.pop_front().expect("a segment in flight");
            self.arrived += u64::from(segment.len > 0);
            self.receiver.on_segment(self.now, segment);
            self.settle();
            self.read_all();
        } else {
            if timers[0] == Some(next) {
                self.sender.on_timer(self.now);
            }
            if timers[1] == Some(next) {
                self.receiver.on_timer(self.now);
            }
        }
        self.settle();
        true
    }

    /// The application reads everything, if it reads.
    pub fn read_all(&mut self) {
        if self.reads {
            self.read += self.receiver.read(self.now, u64::MAX);
        }
    }

    /// Runs until `end`, ns.
    pub fn run(&mut self, end: u64) {
        while self.step(end) {}
    }
}
