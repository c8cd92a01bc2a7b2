//! Runs the methods of the crate `probe` over sockets: `probe` decides which packets to send and evaluates
//! the observations.
//!
//! - [`Session`]: sends trains to a `longfat serve`, which reports when each packet arrived, and requests, to
//!   which it replies;
//! - [`ProbeService`]: the receiving end, a service at the port of an iperf3 server, for cookies that begin
//!   with [`wire::COOKIE_PREFIX`];
//! - [`hops`], [`mtu`] and [`trace()`]: need no peer.

mod client;
mod error;
mod icmp_probes;
mod path_mtu;
mod requests;
mod secret;
mod server;
mod trace;
mod train_sender;
pub mod wire;

pub use client::{Session, SessionOptions};
pub use error::Error;
pub use icmp_probes::{hops, mtu, resolve};
pub use secret::ProbeSecret;
pub use server::ProbeService;
pub use trace::{PathTrace, trace};
pub use wire::ArrivalStamps;
