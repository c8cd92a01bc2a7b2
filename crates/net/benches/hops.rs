//! Packet-hops per second of CPU time: single segments of 1500 B through drop-tail pipes with a rate and a
//! delay, over one hop and three hops, and through CoDel. The results vary with the load of the machine. The
//! first line is the memory per packet in flight: bytes allocated on a link without a standing queue,
//! including unused capacity of the ring buffer.
//!
//! `cargo bench -p longfat-net --bench hops`. With a name and a number of packets as arguments it runs only
//! that case, for `valgrind --tool=callgrind` (instructions divided by packets times hops).

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the CPU time")]

use net::{
    Codel, Destination, Discipline, DropCause, Network, Node, PacketSink, PipeId, PipeSpec, QueueLimit, Rate,
    Topology, test_packet::TestPacket,
};
use units::{BitRate, Instant, Time};

/// Name, hops, delay of a hop in ns, whether with CoDel. At 10 Gb/s a packet takes 1.2 us: 1600 and 200,000
/// packets are in flight in all.
const CASES: [(&str, u32, u64, bool); 5] = [
    ("fifo-1-1600", 1, 1_920_000, false),
    ("fifo-1-200000", 1, 240_000_000, false),
    ("fifo-3-1600", 3, 640_000, false),
    ("fifo-3-200000", 3, 80_000_000, false),
    ("codel-1-1600", 1, 1_920_000, true),
];
const PACKETS: u64 = 20_000_000;
/// Interval between packets.
const GAP: Time = Time::from_nanos(1200);

/// Counts delivered segments.
#[derive(Default)]
struct DeliveryCount(u64);

impl PacketSink<TestPacket> for DeliveryCount {
    fn deliver(&mut self, _: u32, _: Instant, packet: TestPacket) {
        self.0 += u64::from(packet.segments);
    }
    fn drop(&mut self, _: PipeId, _: Instant, _: DropCause, _: TestPacket) {}
}

fn network(hops: u32, delay: Time, codel: bool) -> Network<TestPacket> {
    let mut topology = Topology::new(2, hops + 1);
    topology.add_link(Node::Host(0), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
    for hop in 0..hops {
        let discipline = if codel { Discipline::Codel(Codel::default()) } else { Discipline::default() };
        let spec = PipeSpec {
            rate: Rate::Constant(BitRate(10_000_000_000)),
            queue: QueueLimit::Packets(100_000),
            delay,
            discipline,
            ..PipeSpec::default()
        };
        topology.add_link(Node::Switch(hop), Node::Switch(hop + 1), spec, PipeSpec::default());
    }
    topology.add_link(Node::Switch(hops), Node::Host(1), PipeSpec::default(), PipeSpec::default());
    topology.build(1).unwrap_or_else(|e| panic!("{e}"))
}

/// Sends the packets back to back at the link's rate; returns the number of deliveries.
fn send_all(network: &mut Network<TestPacket>, packets: u64) -> u64 {
    let mut count = DeliveryCount::default();
    for number in 0..packets {
        let now = Instant::ZERO + GAP * number;
        network.run_until(now, &mut count);
        network.send(0, now, Destination::Station(1), TestPacket::single(number, 1486), &mut count);
    }
    network.run_until(Instant::from_nanos(u64::MAX / 4), &mut count);
    count.0
}

/// CPU time of this process in seconds: the first field of the scheduler's statistics, in ns (Linux's
/// sched-stats.rst).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_else(|e| panic!("schedstat: {e}"));
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{stat}"));
    nanos * 1e-9
}

/// Bytes of memory allocated to this process: data pages of 4 KiB, used or not (Linux's proc.rst, statm).
fn allocated_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_else(|e| panic!("statm: {e}"));
    let pages: f64 =
        statm.split(' ').nth(5).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{statm}"));
    pages * 4096.0
}

/// Bytes per packet with this number of packets in flight on one hop.
fn memory_per_packet(packets: u64) -> f64 {
    let mut network = network(1, GAP * packets, false);
    let before = allocated_bytes();
    let mut count = DeliveryCount::default();
    for number in 0..packets {
        let now = Instant::ZERO + GAP * number;
        network.run_until(now, &mut count);
        network.send(0, now, Destination::Station(1), TestPacket::single(number, 1486), &mut count);
    }
    assert_eq!(count.0, 0, "all are in flight");
    let bytes = (allocated_bytes() - before) / packets as f64;
    assert!(bytes > size_of::<TestPacket>() as f64, "{bytes} bytes: the allocator reused freed memory");
    bytes
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    // Runs first, because later the allocator could reuse freed memory, which `statm` does not show.
    if args.is_empty() {
        println!("{:<16} {:7.1} bytes per packet in flight", "memory-200000", memory_per_packet(200_000));
    }
    let packets = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(PACKETS);
    for (name, hops, delay, codel) in CASES.iter().filter(|case| args.first().is_none_or(|arg| arg == case.0))
    {
        let mut network = network(*hops, Time::from_nanos(*delay), *codel);
        let start = cpu_seconds();
        let arrived = send_all(&mut network, packets);
        let seconds = cpu_seconds() - start;
        assert_eq!(arrived, packets);
        let rate = (packets * u64::from(*hops)) as f64 / seconds / 1e6;
        println!("{name:<16} {rate:7.1} million packet-hops/s");
    }
}
