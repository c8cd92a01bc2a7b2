//! Numbered datagrams: when a source sends them, and what their receiver counts.
//!
//! Pure: the simulator drives it in virtual time, the lab and the tests between real hosts with the kernel's clocks and sockets.
//!
//! ```
//! use datagrams::{Draws, Received, Source, SourcePlan};
//! use units::{BitRate, Time};
//!
//! let plan = SourcePlan { rate: BitRate(8_000_000), payload: 1000, ..SourcePlan::default() };
//! let mut source = Source::new(&plan, Draws::new(1, 0), Time(0));
//! let mut received = Received::default();
//! while let Some(sent) = source.next().filter(|at| *at <= Time::from_millis(9)) {
//!     let (number, payload) = source.take();
//!     // The fourth is lost, all others take 20 ms.
//!     if number != 3 {
//!         received.take(number, payload, sent.0 as i64, sent.0 as i64 + 20_000_000);
//!     }
//! }
//! assert_eq!((received.received, received.lost()), (9, 1));
//! assert_eq!(received.owd_ns, Some((20_000_000, 20_000_000)));
//! ```

mod draws;
mod received;
mod seen;
mod source;

pub use draws::Draws;
pub use received::Received;
pub use seen::{Place, Seen};
pub use source::{BurstLengths, Bursts, Source, SourcePlan};
