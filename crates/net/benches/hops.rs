//! Packet-hops per second of processor time: single segments of 1500 B through drop-tail pipes of rate and delay, one
//! hop and three, and through CoDel. Single figures depend on the machine's mood. Before them, the memory of a packet
//! in flight: what the process had to allocate on a link without a standing queue, the ring's spare room included.
//!
//! `cargo bench -p longfat-net --bench hops`; with a name and a number of packets it runs one case only, for
//! `valgrind --tool=callgrind` (instructions over packets times hops).

#![allow(clippy::disallowed_methods, reason = "a bench reads the processor's clock")]

use net::{
    Codel, Destination, Discipline, DropCause, Network, Node, PipeId, PipeSpec, QueueLimit, Rate, Sink,
    Topology, test_packet::TestPacket,
};
use units::{BitRate, Time};

/// Name, hops, delay of a hop in ns, discipline. At 10 Gb/s a packet takes 1.2 us: the delays are 1600 and 200,000 packets.
const CASES: [(&str, u32, u64, bool); 5] = [
    ("fifo-1-1600", 1, 1_920_000, false),
    ("fifo-1-200000", 1, 240_000_000, false),
    ("fifo-3-1600", 3, 640_000, false),
    ("fifo-3-200000", 3, 80_000_000, false),
    ("codel-1-1600", 1, 1_920_000, true),
];
const PACKETS: u64 = 20_000_000;
const GAP: u64 = 1200;

#[derive(Default)]
struct Count(u64);

impl Sink<TestPacket> for Count {
    fn deliver(&mut self, _: u32, _: Time, packet: TestPacket) {
        self.0 += u64::from(packet.segments);
    }
    fn drop(&mut self, _: PipeId, _: Time, _: DropCause, _: TestPacket) {}
}

fn network(hops: u32, delay: u64, codel: bool) -> Network<TestPacket> {
    let mut topology = Topology::new(2, hops + 1);
    topology.link(Node::Host(0), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
    for hop in 0..hops {
        let discipline = if codel { Discipline::Codel(Codel::default()) } else { Discipline::default() };
        let spec = PipeSpec {
            rate: Rate::Constant(BitRate(10_000_000_000)),
            queue: QueueLimit::Packets(100_000),
            delay: Time(delay),
            discipline,
            ..PipeSpec::default()
        };
        topology.link(Node::Switch(hop), Node::Switch(hop + 1), spec, PipeSpec::default());
    }
    topology.link(Node::Switch(hops), Node::Host(1), PipeSpec::default(), PipeSpec::default());
    topology.build(1).unwrap_or_else(|e| panic!("{e}"))
}

/// Sends the packets back to back at the rate; returns how many arrived.
fn push(network: &mut Network<TestPacket>, packets: u64) -> u64 {
    let mut count = Count::default();
    for number in 0..packets {
        let now = Time(number * GAP);
        network.run_until(now, &mut count);
        network.send(0, now, Destination::Station(1), TestPacket::single(number, 1486), &mut count);
    }
    network.run_until(Time(u64::MAX / 4), &mut count);
    count.0
}

/// Processor time of this process: the first field of the scheduler's statistics, in ns (Linux's sched-stats.rst).
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_else(|e| panic!("schedstat: {e}"));
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{stat}"));
    nanos * 1e-9
}

/// Bytes of memory that this process has asked for: data pages of 4 KiB, used or not (Linux's proc.rst, statm).
fn allocated_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_else(|e| panic!("statm: {e}"));
    let pages: f64 =
        statm.split(' ').nth(5).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{statm}"));
    pages * 4096.0
}

/// Bytes for each of so many packets in flight on one hop.
fn memory(packets: u64) -> f64 {
    let mut network = network(1, packets * GAP, false);
    let before = allocated_bytes();
    let mut count = Count::default();
    for number in 0..packets {
        let now = Time(number * GAP);
        network.run_until(now, &mut count);
        network.send(0, now, Destination::Station(1), TestPacket::single(number, 1486), &mut count);
    }
    assert_eq!(count.0, 0, "all are in flight");
    let bytes = (allocated_bytes() - before) / packets as f64;
    assert!(bytes > size_of::<TestPacket>() as f64, "{bytes} bytes: something freed was used again");
    bytes
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    // First, while nothing that was freed can be used again unseen.
    if args.is_empty() {
        println!("{:<16} {:7.1} bytes per packet in flight", "memory-200000", memory(200_000));
    }
    let packets = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(PACKETS);
    for (name, hops, delay, codel) in CASES.iter().filter(|case| args.first().is_none_or(|arg| arg == case.0))
    {
        let mut network = network(*hops, *delay, *codel);
        let start = processor_seconds();
        let arrived = push(&mut network, packets);
        let seconds = processor_seconds() - start;
        assert_eq!(arrived, packets);
        let rate = (packets * u64::from(*hops)) as f64 / seconds / 1e6;
        println!("{name:<16} {rate:7.1} million packet-hops/s");
    }
}
