//! What every pipe must keep, whatever its discipline and its wire; driven directly, without a network.

mod aqm;
mod changes;
mod exact;
mod keeps;
mod repeat;
mod wires;

use units::{BitRate, Bytes, Time};

use crate::{
    Counters, DropCause, Ecn, Packet, PipeSpec, QueueLimit, Rate, Train, XcpHeader, fixed::Fixed, pipe::Pipe,
};

const END: Time = Time(u64::MAX / 4);

/// A packet with everything that a pipe looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Probe {
    first: u64,
    segments: u32,
    bytes: u32,
    last_bytes: u32,
    flow: u32,
    ecn: Ecn,
    xcp: Option<XcpHeader>,
    flipped: u32,
}

impl Probe {
    fn single(number: u64, bytes: u32) -> Self {
        Probe::train(number, 1, bytes)
    }

    fn train(first: u64, segments: u32, bytes: u32) -> Self {
        let (flow, ecn, xcp, flipped) = (0, Ecn::NotCapable, None, 0);
        Probe { first, segments, bytes, last_bytes: bytes, flow, ecn, xcp, flipped }
    }

    /// Of flow number `flow`; the numbers are spread over the hashes.
    fn of(self, flow: u32) -> Self {
        Probe { flow: flow.wrapping_mul(0x9e37_79b9), ..self }
    }

    fn with(self, ecn: Ecn) -> Self {
        Probe { ecn, ..self }
    }

    fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + u64::from(self.segments)
    }
}

impl Packet for Probe {
    fn segments(&self) -> u32 {
        self.segments
    }
    fn segment_bytes(&self) -> u32 {
        self.bytes
    }
    fn last_segment_bytes(&self) -> u32 {
        self.last_bytes
    }
    fn split_off(&mut self, at: u32) -> Self {
        assert!(0 < at && at < self.segments);
        let rest = Probe { first: self.first + u64::from(at), segments: self.segments - at, ..*self };
        *self = Probe { segments: at, last_bytes: self.bytes, ..*self };
        rest
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        assert_ne!(self.ecn, Ecn::NotCapable, "only capable packets are marked");
        self.ecn = Ecn::CongestionExperienced;
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn corrupt(&mut self, _random: u64) {
        assert_eq!(self.segments, 1, "only single segments are flipped");
        self.flipped += 1;
    }
    fn xcp(&mut self) -> Option<&mut XcpHeader> {
        self.xcp.as_mut()
    }
}

/// A pipe and all that came out of it.
struct Bench {
    pipe: Pipe<Probe>,
    delivered: Vec<(Train, Probe)>,
    dropped: Vec<(Time, DropCause, Probe)>,
}

impl Bench {
    fn new(spec: &PipeSpec, seed: u64) -> Self {
        Bench { pipe: Pipe::new(spec, seed, 1), delivered: Vec::new(), dropped: Vec::new() }
    }

    /// The same made a managed pipe, also where a simpler kind would do.
    fn managed(spec: &PipeSpec, seed: u64) -> Self {
        let mut bench = Bench::new(&PipeSpec { down: true, ..spec.clone() }, seed);
        bench.pipe.change(Time(0), spec);
        bench
    }

    fn run(&mut self, until: Time) {
        while let Some(at) = self.pipe.next_wake().filter(|at| *at <= until) {
            let dropped = &mut self.dropped;
            let popped = self.pipe.pop(at, |at, cause, packet| dropped.push((at, cause, packet)));
            if let Some((train, packet)) = popped {
                assert_eq!(train.last, at, "a packet is due when its last segment is");
                assert!(train.first <= train.last);
                self.delivered.push((train, packet));
            }
        }
    }

    fn offer(&mut self, at: Time, packet: Probe) {
        self.offer_train(Train::at(at), packet);
    }

    fn offer_train(&mut self, train: Train, packet: Probe) {
        self.run(train.last);
        let dropped = &mut self.dropped;
        let out = self.pipe.offer(train, packet, false, |at, cause, p| dropped.push((at, cause, p)));
        self.delivered.extend(out.map(|packet| (train, packet)));
    }

    fn change(&mut self, at: Time, spec: &PipeSpec) {
        self.run(at);
        self.pipe.change(at, spec);
    }

    fn counters(&mut self) -> Counters {
        self.pipe.sample(END)
    }

    fn numbers(&self) -> Vec<u64> {
        self.delivered.iter().flat_map(|d| d.1.numbers()).collect()
    }

    fn dropped(&self, cause: DropCause) -> Vec<u64> {
        self.dropped.iter().filter(|d| d.1 == cause).flat_map(|d| d.2.numbers()).collect()
    }
}

fn at_rate(rate: u64, queue: QueueLimit) -> PipeSpec {
    PipeSpec { rate: Rate::Constant(BitRate(rate)), queue, ..PipeSpec::default() }
}

/// How long `bytes` take at `rate`.
fn takes(rate: u64, bytes: u64) -> Time {
    (Fixed::per_byte(BitRate(rate)) * bytes).ceil()
}

fn kilobytes(n: u64) -> QueueLimit {
    QueueLimit::Bytes(Bytes(n * 1000))
}
