//! Flows between real kernels: one bulk TCP stream, ICMP echo, and tests between two hosts as iperf3 does them ([`iperf3`]).
//!
//! Sockets are made by the caller's thread, so they belong to the network namespace that thread is in;
//! after that any thread may use them. Blocking code on plain threads; every wait ends when the
//! flow's [`Stop`] is set or its deadline passes.

mod error;
pub mod iperf3;
pub mod iperf3_json;
mod options;
mod pause;
mod ping;
pub mod probe;
mod rate;
pub mod report;
pub mod stamp;
mod stop;
mod sys;
mod tcp;
mod told;
pub mod udp;

pub use error::Error;
pub use options::TcpOptions;
pub use pause::ReadPause;
pub use ping::{Echo, PingOptions, PingSocket};
pub use stop::Stop;
pub use tcp::{Listener, TcpReceiver, TcpSender, connect};
