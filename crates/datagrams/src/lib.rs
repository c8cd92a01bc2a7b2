//! Numbered datagrams: the schedule of their source, and the counters of their receiver.
//!
//! Pure: the simulator calls it with virtual time, the lab and the tests between real hosts with the kernel's
//! clocks and sockets.
//!
//! ```
//! use datagrams::{DatagramSource, Draws, ReceiverCounters, SourcePlan};
//! use units::{BitRate, Instant};
//!
//! let plan = SourcePlan { rate: BitRate(8_000_000), payload: 1000, ..SourcePlan::default() };
//! let mut source = DatagramSource::new(&plan, Draws::new(1, 0), Instant::ZERO);
//! let mut counters = ReceiverCounters::default();
//! while let Some(sent) = source.next().filter(|at| *at <= Instant::from_millis(9)) {
//!     let (number, payload) = source.take();
//!     // The fourth datagram is lost, all others take 20 ms.
//!     if number != 3 {
//!         let sent_ns = sent.as_nanos() as i64;
//!         counters.record(number, payload, sent_ns, sent_ns + 20_000_000);
//!     }
//! }
//! assert_eq!((counters.received, counters.lost()), (9, 1));
//! assert_eq!(counters.owd_ns, Some((20_000_000, 20_000_000)));
//! ```

mod draws;
mod receiver_counters;
mod sequence_window;
mod source;

pub use draws::Draws;
pub use receiver_counters::ReceiverCounters;
pub use sequence_window::{SequenceOrder, SequenceWindow};
pub use source::{BurstLengths, Bursts, DatagramSource, SourcePlan};
