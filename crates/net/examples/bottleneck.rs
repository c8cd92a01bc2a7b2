//! A bottleneck link with a queue: packets in, departures and drops out.
//!
//! ```text
//! h0 --- 100 Mb/s, 5 ms, queue of 4 packets ---> h1
//! ```
//!
//! h0 sends six packets of 1500 B (on the wire) at once, and one more after 1 ms. A packet takes 120 us at
//! 100 Mb/s. The queue, which includes the packet in transmission, holds four: the fifth and the sixth are
//! dropped.
//!
//! `cargo run -p longfat-net --example bottleneck`

use net::{
    Destination, Direction, DropCause, Node, PacketSink, PipeId, PipeSpec, QueueLimit, Rate, Topology,
    TopologyError, TrainTimes, test_packet::TestPacket,
};
use units::{BitRate, Instant, Time};

/// Prints the delivery or the drop of each packet.
#[derive(Default)]
struct Printer {
    delivered: u32,
    dropped: u32,
}

impl PacketSink<TestPacket> for Printer {
    fn deliver(&mut self, station: u32, at: Instant, packet: TestPacket) {
        self.delivered += 1;
        println!("packet {}: delivered to host {station} at {at}", packet.first);
    }

    fn drop(&mut self, pipe: PipeId, at: Instant, cause: DropCause, packet: TestPacket) {
        self.dropped += 1;
        println!("packet {}: dropped at link {} at {at} ({cause:?})", packet.first, pipe.link);
    }

    fn pass(&mut self, pipe: PipeId, train: TrainTimes, packet: &TestPacket) {
        println!("packet {}: leaves link {} at {}", packet.first, pipe.link, train.last);
    }
}

fn main() -> Result<(), TopologyError> {
    let bottleneck = PipeSpec {
        rate: Rate::Constant(BitRate(100_000_000)),
        queue: QueueLimit::Packets(4),
        delay: Time::from_millis(5),
        ..PipeSpec::default()
    };
    let mut topology = Topology::new(2, 0);
    topology.add_link(Node::Host(0), Node::Host(1), bottleneck, PipeSpec::default());
    let mut network = topology.build(1)?;

    let mut printer = Printer::default();
    // 14 bytes of Ethernet header are added to the 1486 bytes of IP.
    for number in 0..6 {
        network.send(
            0,
            Instant::ZERO,
            Destination::Station(1),
            TestPacket::single(number, 1486),
            &mut printer,
        );
    }
    let later = Instant::from_millis(1);
    network.run_until(later, &mut printer);
    network.send(0, later, Destination::Station(1), TestPacket::single(6, 1486), &mut printer);

    // A real-time driver would sleep until each event; here virtual time jumps to it.
    let mut now = later;
    while let Some(next) = network.next_event() {
        now = next;
        network.run_until(now, &mut printer);
    }

    let counters = network.sample(PipeId { link: 0, direction: Direction::Forward }, now);
    println!("{} packets sent, {} dropped by the queue", counters.sent_packets, counters.dropped_queue);
    assert_eq!((printer.delivered, printer.dropped), (5, 2));
    assert_eq!(now, Instant::from_micros(6_120), "the last packet: 1 ms + 120 us + 5 ms");
    Ok(())
}
