//! Tests of pipes with all disciplines and wires, called directly, without a network.

mod aqm;
mod changes;
mod determinism;
mod exact;
mod impairments;
mod invariants;

use units::{BitRate, Bytes, Instant, Time};

use crate::{
    DropCause, Ecn, Packet, PipeCounters, PipeSpec, QueueLimit, Rate, TrainTimes, XcpHeader, XcpPacket,
    fixed::Fixed, pipe::Pipe,
};

const END: Instant = Instant::from_nanos(u64::MAX / 4);

/// Numbered segments with everything that a pipe reads from a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TestSegments {
    first: u64,
    segments: u32,
    bytes: u32,
    last_bytes: u32,
    flow: u32,
    ecn: Ecn,
    xcp: Option<XcpHeader>,
    flipped: u32,
}

impl TestSegments {
    fn single(number: u64, bytes: u32) -> Self {
        TestSegments::train(number, 1, bytes)
    }

    fn train(first: u64, segments: u32, bytes: u32) -> Self {
        let (flow, ecn, xcp, flipped) = (0, Ecn::NotCapable, None, 0);
        TestSegments { first, segments, bytes, last_bytes: bytes, flow, ecn, xcp, flipped }
    }

    /// Sets the flow. Flow numbers are spread over the range of hashes.
    fn of(self, flow: u32) -> Self {
        TestSegments { flow: flow.wrapping_mul(0x9e37_79b9), ..self }
    }

    fn with(self, ecn: Ecn) -> Self {
        TestSegments { ecn, ..self }
    }

    fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + u64::from(self.segments)
    }
}

impl Packet for TestSegments {
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
        let tail = TestSegments { first: self.first + u64::from(at), segments: self.segments - at, ..*self };
        *self = TestSegments { segments: at, last_bytes: self.bytes, ..*self };
        tail
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        assert_ne!(self.ecn, Ecn::NotCapable, "only ECN-capable packets are marked");
        self.ecn = Ecn::CongestionExperienced;
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn corrupt(&mut self, _random: u64) {
        assert_eq!(self.segments, 1, "only single segments are corrupted");
        self.flipped += 1;
    }
}

impl XcpPacket for TestSegments {
    fn xcp_header(&mut self) -> Option<&mut XcpHeader> {
        self.xcp.as_mut()
    }
}

/// A pipe and its output.
struct TestPipe {
    inner: Pipe<TestSegments>,
    delivered: Vec<(TrainTimes, TestSegments)>,
    dropped: Vec<(Instant, DropCause, TestSegments)>,
}

impl TestPipe {
    fn new(spec: &PipeSpec, seed: u64) -> Self {
        TestPipe { inner: Pipe::new(spec, seed, 1), delivered: Vec::new(), dropped: Vec::new() }
    }

    /// An event-driven pipe, even if a simpler kind would be enough.
    fn event_driven(spec: &PipeSpec, seed: u64) -> Self {
        let mut pipe = TestPipe::new(&PipeSpec { down: true, ..spec.clone() }, seed);
        pipe.inner.change(Instant::ZERO, spec);
        pipe
    }

    fn run(&mut self, until: Instant) {
        while let Some(at) = self.inner.next_event().filter(|at| *at <= until) {
            let dropped = &mut self.dropped;
            let popped = self.inner.pop(at, |at, cause, packet| dropped.push((at, cause, packet)));
            if let Some((train, packet)) = popped {
                assert_eq!(train.last, at, "a packet is due with its last segment");
                assert!(train.first <= train.last);
                self.delivered.push((train, packet));
            }
        }
    }

    fn offer(&mut self, at: Instant, packet: TestSegments) {
        self.offer_train(TrainTimes::at(at), packet);
    }

    fn offer_train(&mut self, train: TrainTimes, packet: TestSegments) {
        self.run(train.last);
        let dropped = &mut self.dropped;
        let out = self.inner.offer(train, packet, false, |at, cause, p| dropped.push((at, cause, p)));
        self.delivered.extend(out.map(|packet| (train, packet)));
    }

    fn change(&mut self, at: Instant, spec: &PipeSpec) {
        self.run(at);
        self.inner.change(at, spec);
    }

    fn counters(&mut self) -> PipeCounters {
        self.inner.sample(END)
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

/// The transmission time of `bytes` at `rate`.
fn transmission_time(rate: u64, bytes: u64) -> Time {
    (Fixed::per_byte(BitRate(rate)) * bytes).ceil_span()
}

fn kilobytes(n: u64) -> QueueLimit {
    QueueLimit::Bytes(Bytes(n * 1000))
}
