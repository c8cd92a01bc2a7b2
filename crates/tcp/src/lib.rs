//! A TCP endpoint that behaves like Linux 6 or 2.4 (`behaviour.rs` lists the differences), and the interface
//! of congestion controls.
//!
//! [`Endpoint`] is one end of a connection: `receive/` is its receiver, `transmit/` its sender,
//! `connection.rs` the state that both share. It calls a controller through [`CongestionControl`] with a
//! [`TcpSock`], whose layout is that of `struct tcp_sock` in `crates/cc/shim/vmlinux.h`. Crate `cc` makes
//! controllers from C files. The crate does no I/O and reads no clock: the time is an argument. [`test_kit`]
//! is for tests: it drives a controller alone over a small path, round by round, with synthetic ACKs, losses
//! and marks. [`CongestionDriver`] drives a controller for a transport that is not TCP.
//! `examples/retransmission.rs` connects two endpoints and loses a segment.

mod behaviour;
mod ca_state;
mod config;
mod congestion;
mod connection;
mod driver;
mod endpoint;
mod event;
mod flag;
mod handshake;
mod info;
pub mod parameters;
mod receive;
mod samples;
mod search;
mod segment;
mod sock;
mod sock_steps;
pub mod test_kit;
mod transmit;

pub use ca_state::CaState;
pub use config::{Config, DEFAULT_WRITE_BYTES, PacketMemory, Profile};
pub use congestion::{CaEvent, CongestionControl, LINUX_CONGESTION_CONTROLS, NEEDS_ECN, Operation};
pub use connection::TcpState;
pub use driver::{CongestionDriver, DRIVER_HZ};
pub use endpoint::Endpoint;
pub use event::EndpointEvent;
pub use info::EndpointInfo;
pub use receive::{Accepted, AckAction, AckFields, InitialWindow, NegotiatedOptions, Receiver, timestamp_ms};
pub use samples::{AckSample, RateSample};
pub use segment::{Flags, SackBlocks, Segment, SynOptions, after, before, ecn, segments};
pub use sock::{
    INFINITE_SSTHRESH, INITIAL_CWND, MinMax, MinMaxSample, Rack, ReceiverRtt, RxOptions, TcpSock,
};
