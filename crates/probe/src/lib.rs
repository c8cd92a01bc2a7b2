//! Measuring a path by trains of packets: what to send, and what its arrivals say.
//!
//! Pure: a [`Method`] says which [`Fleet`] of trains to send next and takes what was [`Seen`] of it; sockets, clocks and the
//! limit on the load ([`Budget`]) are its caller's. So each method is run against the network in virtual time, whose
//! rates, queues and cross traffic are known, by the same code as against a real path.
//!
//! ```
//! use probe::{Capacity, Limits, Method, Seen, Step};
//!
//! let limits = Limits { most_bytes: 12_500_000, mtu: 1500, resolution_ns: 100.0 };
//! let mut capacity = Capacity::new(limits);
//! // A path of 120 Mb/s: each packet of 1500 bytes takes 100 us.
//! while let Step::Send(fleet) = capacity.next() {
//!     let arrive = |train: &probe::Train| {
//!         let mut free = 0;
//!         let arrived = train.at_ns.iter().map(|at| {
//!             free = free.max(*at as i64) + 100_000;
//!             Some(free)
//!         });
//!         let arrived_ns = arrived.collect();
//!         Seen { bytes: train.bytes, sent_ns: train.at_ns.iter().map(|at| *at as i64).collect(), arrived_ns, host_drops: 0 }
//!     };
//!     let seen: Vec<Seen> = fleet.trains.iter().map(arrive).collect();
//!     capacity.take(&seen);
//! }
//! let answer = capacity.answer();
//! assert!((answer.capacity_bps.unwrap().value / 120e6 - 1.0).abs() < 0.001);
//! assert!(answer.validity.valid);
//! ```

mod answer;
mod available;
mod budget;
mod buffer;
mod capacity;
mod chirp;
mod cross;
mod curve;
mod delay;
mod hops;
mod mtu;
mod search;
mod slopes;
mod statistics;
mod train;
mod trend;

pub use answer::{Interval, Limits, Validity};
pub use available::{Available, AvailableAnswer};
pub use budget::{Budget, Load, TooLarge};
pub use buffer::{Buffer, BufferAnswer, BufferKind};
pub use capacity::{Capacity, CapacityAnswer};
pub use chirp::Chirps;
pub use delay::{DelayAnswer, OneWay, RoundTrip, delay, line_below};
pub use hops::{Hop, HopPacket, HopReply, Hops, HopsAnswer, IpVersion};
pub use mtu::{MtuAnswer, MtuOutcome, MtuSearch};
pub use train::{Fleet, Method, Received, Seen, Step, Train};
