//! A TCP endpoint that does as Linux does (6, or 2.4: see `behaviour.rs`), the interface of congestion controls, and a driver of controllers for tests.
//!
//! [`Endpoint`] is one end of a connection: `receive/` its receiving half, `transmit/` its sending half. A controller
//! (crate `cc` makes them of C files) is called through [`CongestionControl`] with a [`TcpSock`], whose layout is that of
//! `struct tcp_sock` in `crates/cc/shim/vmlinux.h`. [`rounds`] drives a controller alone with synthetic ACKs, losses
//! and marks over a small path, round by round. No I/O, no clock: time is an argument.

mod behaviour;
mod config;
mod congestion;
mod endpoint;
mod handshake;
mod info;
mod receive;
pub mod rounds;
mod search;
mod segment;
mod sock;
mod sock_steps;
mod transmit;

pub use config::{Config, Profile};
pub use congestion::{CaEvent, CaState, CongestionControl, NEEDS_ECN, Operation};
pub use endpoint::{Endpoint, State};
pub use info::{Event, Info};
pub use receive::{
    Accepted, AckAction, AckFields, Agreed, InitialWindow, PacketMemory, Receiver, timestamp_ms,
};
pub use segment::{Flags, SackBlocks, Segment, SynOptions, after, before, ecn, segments};
pub use sock::{
    AckSample, INFINITE_SSTHRESH, INITIAL_CWND, MinMax, MinMaxSample, Rack, RateSample, ReceiverRtt,
    RxOptions, TcpSock,
};
