//! Test traffic between real kernels: one bulk TCP stream, numbered UDP datagrams ([`udp`]), the ends of bulk
//! transports ([`bulk_end`]) and ICMP echo, with the socket calls they need ([`sys`], [`ancillary`],
//! [`path_mtu`]).
//!
//! The caller's thread creates the sockets, so they belong to that thread's network namespace; afterwards any
//! thread may use them. The code blocks and runs on plain threads. Every wait ends when the flow's [`Stop`]
//! is set or its deadline passes.

pub mod ancillary;
pub mod bulk_end;
mod connection;
mod error;
mod options;
pub mod path_mtu;
mod pause;
mod ping;
mod rate;
mod stop;
pub mod sys;
mod tcp;
pub mod udp;

pub use connection::{begin_to_connect, finish_sending};
pub use error::{Attempted, Error};
pub use options::TcpOptions;
pub use pause::ReadPause;
pub use ping::{Echo, MAX_ECHO_PAYLOAD, PingOptions, PingSocket};
pub use stop::Stop;
pub use tcp::{Listener, TcpReceiver, TcpSender, connect};
