//! Fuzz targets, also run by a test over `fuzz/corpus`: arbitrary frames from a host, through a network.

use net::{Cidr, DropCause, Network, Node, Packet, PacketSink, PipeId, PipeSpec, QueueLimit, Rate, Topology};
use units::{BitRate, Instant, Time};

use crate::frame::{Frame, VNET_HEADER, mac};

/// Counts segments that were delivered and dropped.
#[derive(Default)]
struct Count {
    delivered: u64,
    dropped: u64,
}

impl PacketSink<Frame> for Count {
    fn deliver(&mut self, _host: u32, _at: Instant, frame: Frame) {
        self.delivered += u64::from(frame.segments());
        // The bytes written to a host's device parse as a frame of the same size.
        let bytes = frame.bytes().to_vec();
        let len = bytes.len();
        let again = Frame::new(bytes, len).map_err(|_| "too short").expect("it was a frame before");
        assert_eq!(again.segments(), frame.segments());
        assert_eq!(again.last_segment_bytes(), frame.last_segment_bytes());
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, _cause: DropCause, frame: Frame) {
        self.dropped += u64::from(frame.segments());
    }
}

/// Reads `data` as frames, each after a byte with its host and gap and two with its length, and sends them
/// through two slow links with small queues. Nothing may panic, and each segment must be delivered or
/// reported as dropped.
pub fn frames(mut data: &[u8]) {
    let mut network = network();
    let (mut count, mut sent, mut now) = (Count::default(), 0, Instant::ZERO);
    while let [head, low, high, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, after) = rest.split_at(len);
        data = after;
        now += Time::from_nanos(u64::from(head >> 1) * 10_000);
        let Ok(frame) = Frame::new(bytes.to_vec(), len) else { continue };
        let host = u32::from(head & 1);
        let to = net::Destination::Station(1 - host);
        // Broadcasts are copied, and hosts do not receive their own frames: both would make the count
        // ambiguous.
        let _ = frame.destination(2);
        sent += u64::from(frame.segments());
        network.run_until(now, &mut count);
        network.send(host, now, to, frame, &mut count);
    }
    network.run_until(Instant::NEVER, &mut count);
    assert_eq!(count.delivered + count.dropped, sent, "each segment is delivered or dropped exactly once");
}

/// Sends the same frames through two routers joined by a link with a small MTU, each to the host's router
/// whatever its Ethernet address. Nothing may panic; the output, including ICMP replies and fragments, must
/// be valid frames.
pub fn frames_at_routers(mut data: &[u8]) {
    let mut network = routers();
    let (mut count, mut now) = (Count::default(), Instant::ZERO);
    while let [head, low, high, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, after) = rest.split_at(len);
        data = after;
        now += Time::from_nanos(u64::from(head >> 1) * 10_000);
        let mut bytes = bytes.to_vec();
        // Stations 0 and 1 are the hosts; 2 and 5 are the routers' interfaces towards them.
        let host = usize::from(head & 1);
        let router = [2, 5][host];
        if let Some(to) = bytes.get_mut(VNET_HEADER..VNET_HEADER + 6) {
            to.copy_from_slice(&mac(router));
        }
        let Ok(frame) = Frame::new(bytes, len) else { continue };
        network.run_until(now, &mut count);
        let to = frame.destination(network.stations());
        network.send(host as u32, now, to, frame, &mut count);
    }
    network.run_until(Instant::NEVER, &mut count);
}

/// h0 - s0 - h1.
fn network() -> Network<Frame> {
    let mut topology = Topology::new(2, 1);
    topology.add_link(Node::Host(0), Node::Switch(0), slow(20_000), slow(20_000));
    topology.add_link(Node::Switch(0), Node::Host(1), slow(9_000), slow(9_000));
    topology.build(1).expect("a valid plan")
}

/// h0 - r0 - r1 - h1, of both families, with an MTU of 600 in the middle.
fn routers() -> Network<Frame> {
    let mut topology = Topology::new(2, 0);
    let (r0, r1) = (topology.add_router(), topology.add_router());
    let narrow = || PipeSpec { mtu: Some(600), ..slow(9_000) };
    topology.add_link(Node::Host(0), r0, slow(20_000), slow(20_000));
    topology.add_link(r0, r1, narrow(), narrow());
    topology.add_link(r1, Node::Host(1), slow(20_000), slow(20_000));
    for (node, interface, v4, v6) in [
        (Node::Host(0), 0, "10.0.0.1", "fd00::1"),
        (r0, 0, "10.0.0.254", "fd00::fe"),
        (r0, 1, "10.0.9.1", "fd09::1"),
        (r1, 0, "10.0.9.2", "fd09::2"),
        (r1, 1, "10.0.1.254", "fd01::fe"),
        (Node::Host(1), 0, "10.0.1.1", "fd01::1"),
    ] {
        let address = |text: &str| text.parse().expect("a valid address");
        topology.add_address(node, interface, Cidr { address: address(v4), prefix: 24 });
        topology.add_address(node, interface, Cidr { address: address(v6), prefix: 64 });
    }
    topology.build(1).expect("a valid plan")
}

fn slow(queue: u64) -> PipeSpec {
    PipeSpec {
        rate: Rate::Constant(BitRate(10_000_000)),
        delay: Time::from_millis(1),
        queue: QueueLimit::Bytes(units::Bytes(queue)),
        ..PipeSpec::default()
    }
}
