//! The network: links, queues, losses, switches and routers, as one pure library for virtual and for real
//! time.
//!
//! The simulator calls it with virtual time, the lab in real time between kernels. Time is an argument,
//! randomness comes from a generator with a given seed. Events run at their *nominal* time, so that a late
//! real-time driver does not accumulate delay. Packets are *trains*: one super-packet of many segments is one
//! object, counted, queued, delayed and dropped segment by segment.
//!
//! A [`Topology`] of hosts, switches, routers and links (each direction a [`PipeSpec`]) builds a [`Network`].
//! [`Network::send`] takes packets in, [`Network::run_until`] processes events, and a [`PacketSink`] receives
//! deliveries and drops. `examples/bottleneck.rs` has a link with a queue.
//!
//! ```
//! use net::{Destination, Node, PipeSpec, Rate, Topology, test_packet::TestPacket};
//! use units::{BitRate, Instant, Time};
//!
//! // h0 - s0 - h1, with 1 Gb/s and 10 ms from s0 to h1.
//! let mut topology = Topology::new(2, 1);
//! topology.add_link(Node::Host(0), Node::Switch(0), PipeSpec::default(), PipeSpec::default());
//! let slow = PipeSpec {
//!     rate: Rate::Constant(BitRate(1_000_000_000)),
//!     delay: Time::from_millis(10),
//!     ..PipeSpec::default()
//! };
//! topology.add_link(Node::Switch(0), Node::Host(1), slow, PipeSpec::default());
//! let mut network = topology.build(1).unwrap();
//!
//! let mut delivered = Vec::new();
//! network.send(0, Instant::ZERO, Destination::Station(1), TestPacket::single(1, 1486), &mut delivered);
//! network.run_until(Instant::from_millis(20), &mut delivered);
//! // 1486 B of IP and 14 B of Ethernet take 12 us at 1 Gb/s.
//! assert_eq!(delivered[0].1, Instant::from_micros(10_012));
//! ```

mod address;
mod counters;
mod discipline;
mod draws;
mod event_pipe;
mod fifo_pipe;
mod fixed;
mod graph;
mod handover;
mod ids;
mod in_flight;
pub mod ip;
mod loss;
mod network;
mod packet;
mod pipe;
#[cfg(test)]
mod pipe_tests;
mod queue;
mod queue_limit;
mod routed;
mod router;
mod sink;
mod spec;
pub mod test_packet;
mod timer_queue;
mod topology;
mod trace;
mod trace_text;
mod train;
mod xcp_header;

pub use address::Cidr;
pub use counters::PipeCounters;
pub use discipline::{Codel, Discipline, DualPi2, Fq, FqCodel, Red, Xcp};
pub use ids::{Destination, Direction, Node, PipeId, Station};
pub use network::{Network, NetworkPacket};
pub use packet::{Ecn, Packet, PacketShape, TrainTimes};
pub use queue_limit::QueueLimit;
pub use router::{
    NextHop, RoutablePacket, Router, RouterAction, RouterArrival, RouterInterface, Unreachable,
};
pub use sink::{DropCause, PacketSink};
pub use spec::{Distribution, GilbertElliott, Jitter, LossModel, LossUnit, PipeSpec, Rate, Reorder};
pub use timer_queue::TimerQueue;
pub use topology::{Topology, TopologyError};
pub use trace::{OPPORTUNITY_BYTES, RateTrace};
pub use trace_text::{MAX_TRACE_LINES, TraceError};
pub use xcp_header::{XCP_HEADER_BYTES, XcpHeader, XcpPacket};
