//! What is fuzzed, and replayed from `fuzz/corpus` by a test: any frames from a host, through a network.

use net::{DropCause, Network, Node, Packet, PipeId, PipeSpec, QueueLimit, Rate, Sink, Topology};
use units::{BitRate, Time};

use crate::frame::Frame;

/// Counts segments that came through and that were dropped.
#[derive(Default)]
struct Count {
    delivered: u64,
    dropped: u64,
}

impl Sink<Frame> for Count {
    fn deliver(&mut self, _host: u32, _at: Time, frame: Frame) {
        self.delivered += u64::from(frame.segments());
        // What is written to a host's device can be read as a frame of the same size again.
        let bytes = frame.bytes().to_vec();
        let len = bytes.len();
        let again = Frame::new(bytes, len).map_err(|_| "too short").expect("it was a frame before");
        assert_eq!(again.segments(), frame.segments());
        assert_eq!(again.last_segment_bytes(), frame.last_segment_bytes());
    }
    fn drop(&mut self, _pipe: PipeId, _at: Time, _cause: DropCause, frame: Frame) {
        self.dropped += u64::from(frame.segments());
    }
}

/// Reads `data` as frames, each after a byte that tells its host and gap and two that tell its length, and sends them
/// through two slow links with small queues. Nothing may panic, and no segment may be lost without a word.
pub fn frames(mut data: &[u8]) {
    let mut network = network();
    let (mut count, mut sent, mut now) = (Count::default(), 0, Time(0));
    while let [head, low, high, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, after) = rest.split_at(len);
        data = after;
        now = Time(now.0 + u64::from(head >> 1) * 10_000);
        let Ok(frame) = Frame::new(bytes.to_vec(), len) else { continue };
        let host = u32::from(head & 1);
        let to = net::Destination::Host(1 - host);
        // Broadcasts are copied and hosts do not hear themselves; both would only blur the count.
        let _ = frame.destination(2);
        sent += u64::from(frame.segments());
        network.run_until(now, &mut count);
        network.send(host, now, to, frame, &mut count);
    }
    network.run_until(Time(u64::MAX), &mut count);
    assert_eq!(count.delivered + count.dropped, sent, "segments are delivered or dropped, and none twice");
}

/// h0 - s0 - h1. Routers, which read more of a frame than hosts do, belong between them as well.
fn network() -> Network<Frame> {
    let slow = |queue| PipeSpec {
        rate: Rate::Constant(BitRate(10_000_000)),
        delay: Time(1_000_000),
        queue: QueueLimit::Bytes(units::Bytes(queue)),
        ..PipeSpec::default()
    };
    let mut topology = Topology::new(2, 1);
    topology.link(Node::Host(0), Node::Switch(0), slow(20_000), slow(20_000));
    topology.link(Node::Switch(0), Node::Host(1), slow(9_000), slow(9_000));
    topology.build(1).expect("a valid plan")
}
