//! Measures a path by trains of packets: decides what to send, and evaluates the arrivals.
//!
//! Pure: a [`Method`] decides which [`Fleet`] of trains to send next, and evaluates a [`TrainObservation`] of
//! each. Sockets and clocks belong to the caller, which also limits the load ([`Budget`]). So the same code
//! measures real paths and the network in virtual time, whose rates, queues and cross traffic are known.
//!
//! - [`Capacity`]: rate of the narrowest link, and of a token bucket;
//! - [`AvailableBandwidth`] (streams) and [`Chirps`]: the rate that cross traffic leaves;
//! - [`BottleneckBuffer`]: kind and size of the queue at the narrowest link;
//! - [`Hops`]: rate of each link, without cooperation of the other host;
//! - [`Trace`]: addresses and round-trip times of the hops;
//! - [`MtuSearch`]: the path MTU;
//! - [`UdpmonGrid`], [`RequestResponse`]: a grid of packet size and spacing, and latency by size;
//! - [`estimate_delay`], [`estimate_one_way_delays`]: one-way delay variation and clock skew.
//!
//! ```
//! use probe::{Capacity, Method, ProbeLimits, Step, Train, TrainObservation};
//!
//! // A path of 120 Mb/s: each packet of 1500 bytes takes 100 us.
//! fn send(train: &Train) -> TrainObservation {
//!     let sent_ns: Vec<i64> = train.offsets_ns.iter().map(|offset| *offset as i64).collect();
//!     let mut link_free_ns = 0;
//!     let arrived_ns = sent_ns.iter().map(|sent| {
//!         link_free_ns = link_free_ns.max(*sent) + 100_000;
//!         Some(link_free_ns)
//!     });
//!     let arrived_ns = arrived_ns.collect();
//!     TrainObservation { bytes: train.bytes, sent_ns, arrived_ns, host_drops: 0 }
//! }
//!
//! let limits = ProbeLimits { max_bytes_per_second: 12_500_000, mtu: 1500, resolution_ns: 100.0 };
//! let mut capacity = Capacity::new(limits);
//! while let Step::Send(fleet) = capacity.next_step() {
//!     let observations: Vec<TrainObservation> = fleet.trains.iter().map(send).collect();
//!     capacity.add_observations(&observations);
//! }
//! let result = capacity.result();
//! assert!((result.capacity_bps.unwrap().value / 120e6 - 1.0).abs() < 0.001);
//! assert!(result.validity.valid);
//! ```

mod arrival_curve;
mod available_bandwidth;
mod bottleneck_buffer;
mod budget;
mod capacity;
mod chirps;
mod cross_traffic;
mod delay;
mod hops;
mod line_fit;
mod mtu;
mod rate_search;
mod result;
mod slopes;
mod statistics;
mod trace;
mod train;
mod trend;
mod udpmon;

pub use available_bandwidth::{AvailableBandwidth, AvailableBandwidthResult};
pub use bottleneck_buffer::{BottleneckBuffer, BufferKind, BufferResult};
pub use budget::{Budget, ProbeLoad, TrainTooLarge};
pub use capacity::{Capacity, CapacityResult};
pub use chirps::Chirps;
pub use delay::{
    DelayResult, DirectionCounts, OneWayDelay, OneWayTimes, RoundTripTimes, estimate_delay,
    estimate_one_way_delays, fit_line_below,
};
pub use hops::{Hop, HopProbe, HopReply, Hops, HopsResult, IpVersion};
pub use line_fit::{LineFit, LinePoint};
pub use mtu::{MtuOutcome, MtuResult, MtuSearch};
pub use result::{Interval, ProbeLimits, Validity};
pub use trace::{Trace, TraceResult, TracedHop};
pub use train::{Fleet, Method, ReceivedPacket, Step, Train, TrainObservation};
pub use udpmon::{
    GridCell, GridResult, GridTrain, Histogram, LatencyFit, LatencyPoint, PlanRefused, ReplySize,
    RequestResponse, RequestResponseResult, RequestTrain, SpacingPoint, UdpmonGrid, UdpmonPlan, UdpmonResult,
    WidestJitter,
};
