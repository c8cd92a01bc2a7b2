//! The UDP engine: numbered datagrams from a [`Sender`] to a [`Receiver`], in iperf3's format.
//!
//! The sender hands the kernel up to 64 datagrams in one piece and several pieces in one call, or, where there is a rate, each
//! datagram at its exact time. The receiver takes the kernel's times of arrival and keeps [`Statistics`] that others read from
//! a [`Tally`] while it runs. Sockets are made and connected by the caller; threads are the caller's as well: both run until
//! a [`Stop`](crate::Stop) is set.
//!
//! ```
//! use std::{net::UdpSocket, sync::{Arc, atomic::AtomicU64}};
//! use perf::{Stop, udp::{Arrivals, Buffer, Numbers, Receiver, Sender, SenderOptions, Sent, Tally}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! here.connect(there.local_addr()?)?;
//! there.connect(here.local_addr()?)?;
//! let options = SenderOptions { block: 1448, left: Some(Arc::new(AtomicU64::new(100))), ..SenderOptions::default() };
//! let sender = Sender::new(here, &options);
//! let receiver = Receiver::new(there, Arrivals::Coalesced, Buffer::Wide)?;
//! let (stop, sent, tally) = (Stop::default(), Sent::default(), Tally::new(Numbers::Bits64));
//! std::thread::scope(|scope| {
//!     let receiving = scope.spawn(|| receiver.run(&stop, &tally));
//!     sender.run(&stop, &sent)?;
//!     while tally.lock().counts.received < 100 {
//!         std::thread::yield_now();
//!     }
//!     stop.set();
//!     receiving.join().expect("no panic")
//! })?;
//! assert_eq!(tally.lock().datagrams().lost, 0);
//! # Ok(())
//! # }
//! ```

pub(crate) mod alarm;
pub(crate) mod batch;
mod header;
mod order;
mod receiver;
mod schedule;
mod sender;
mod statistics;
pub(crate) mod sys;

pub use alarm::Watch;
pub use header::{Header, Numbers};
pub use receiver::{Arrivals, Buffer, Receiver};
pub use sender::{SendEnd, Sender, SenderOptions, Sent};
pub use statistics::{Statistics, Tally, fuzz};
