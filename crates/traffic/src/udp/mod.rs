//! The UDP engine: numbered datagrams from a [`Sender`] to a [`Receiver`], in iperf3's format.
//!
//! Without a rate the sender passes up to 64 datagrams to the kernel in one message and several messages in
//! one call; with a rate, each datagram at its exact time. The receiver uses the kernel's times of arrival
//! and keeps [`ReceiverStatistics`], which other threads read from a [`SharedStatistics`] while it runs. The
//! caller creates and connects the sockets, and provides the threads: both ends run until a
//! [`Stop`](crate::Stop) is set.
//!
//! ```
//! use std::{net::UdpSocket, sync::{Arc, atomic::AtomicU64}};
//! use traffic::{Stop, udp::{ArrivalTimes, NumberWidth, ReceiveBuffer, Receiver, Sender, SenderOptions}};
//! use traffic::udp::{SentCounts, SharedStatistics};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! here.connect(there.local_addr()?)?;
//! there.connect(here.local_addr()?)?;
//! let options = SenderOptions { block: 1448, remaining: Some(Arc::new(AtomicU64::new(100))), ..SenderOptions::default() };
//! let sender = Sender::new(here, &options);
//! let receiver = Receiver::new(there, ArrivalTimes::Coalesced, ReceiveBuffer::Wide)?;
//! let (stop, sent, statistics) = (Stop::default(), SentCounts::default(), SharedStatistics::new(NumberWidth::Bits64));
//! std::thread::scope(|scope| {
//!     let receiving = scope.spawn(|| receiver.run(&stop, &statistics));
//!     sender.run(&stop, &sent)?;
//!     while statistics.lock().counts.received < 100 {
//!         std::thread::yield_now();
//!     }
//!     stop.set();
//!     receiving.join().expect("no panic")
//! })?;
//! assert_eq!(statistics.lock().counts.lost(), 0);
//! # Ok(())
//! # }
//! ```

mod batch;
mod burst;
mod header;
mod mmsg;
mod number_unwrapper;
mod precise_timer;
mod receiver;
mod schedule;
mod send_summary;
mod sender;
mod statistics;

pub use batch::Batch;
pub use burst::{Incoming, Outgoing, bind_bulk, instant_since, now_since, set_up_bulk};
pub use header::{Header, NumberWidth};
pub use mmsg::{
    MAX_MESSAGES, MessageBuffers, ReceivedMessage, WaitMode, enable_arrival_metadata, enable_hardware_stamps,
    send as send_messages,
};
pub use precise_timer::{PreciseTimer, SpinPolicy};
pub use receiver::{ArrivalTimes, ReceiveBuffer, Receiver};
pub use send_summary::SendSummary;
pub use sender::{Sender, SenderOptions, SentCounts};
pub use statistics::{ReceiverStatistics, SharedStatistics, fuzz};
