//! The network: links, queues, losses, switches and routers, as one pure library under two clocks.
//!
//! The simulator drives it in virtual time and the lab in real time between kernels. Time comes in as an
//! argument, randomness from a generator that is seeded here; events run at their *nominal* time, so
//! lateness of a real-time driver never adds up. Packets are *trains*: one super-packet of many
//! segments is one object, counted, queued, delayed and dropped segment by segment.
//!
//! ```
//! use net::{Destination, Node, PipeSpec, Rate, Topology, test_packet::TestPacket};
//! use units::{BitRate, Time};
//!
//! // h0 - s0 - h1, with 1 Gb/s and 10 ms from s0 to h1.
//! let mut topology = Topology::new(2, 1);
//! topology.link(Node::Host(0), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
//! let slow = PipeSpec { rate: Rate::Constant(BitRate(1_000_000_000)), delay: Time(10_000_000), ..PipeSpec::default() };
//! topology.link(Node::Switch(0), Node::Host(1), slow, PipeSpec::default());
//! let mut network = topology.build(1).unwrap();
//!
//! let mut delivered = Vec::new();
//! network.send(0, Time(0), Destination::Station(1), TestPacket::single(1, 1486), &mut delivered);
//! network.run_until(Time(20_000_000), &mut delivered);
//! // 1486 B of IP and 14 B of Ethernet take 12 us at 1 Gb/s.
//! assert_eq!(delivered[0].1, Time(10_012_000));
//! ```

mod address;
mod counters;
mod cut;
mod discipline;
mod draws;
mod fifo;
mod fixed;
mod graph;
mod in_flight;
pub mod ip;
mod loss;
mod managed;
mod network;
mod packet;
mod pipe;
#[cfg(test)]
mod pipe_tests;
mod queue;
mod routed;
mod router;
mod sink;
mod spec;
pub mod test_packet;
mod topology;
mod trace;
mod trace_text;
mod wakes;

pub use address::Cidr;
pub use counters::Counters;
pub use discipline::{Codel, Discipline, DualPi2, Fq, FqCodel, Red, Xcp};
pub use graph::Station;
pub use network::Network;
pub use packet::{Ecn, Packet, Shape, Train, XcpHeader};
pub use router::{Arrival, Emission, Router, RouterInterface, Unreachable, Way};
pub use sink::{Destination, DropCause, Sink};
pub use spec::{
    Distribution, GilbertElliott, Jitter, LossModel, LossUnit, PipeSpec, QueueLimit, Rate, Reorder,
};
pub use topology::{Direction, Node, PipeId, Topology, TopologyError};
pub use trace::{OPPORTUNITY_BYTES, RateTrace};
pub use trace_text::{MOST_LINES, TraceError};
pub use wakes::Wakes;
