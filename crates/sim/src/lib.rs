//! The simulator: a resolved scenario in, the rows of the record out, in virtual time.
//!
//! Network, queues and losses are those of `net`, the ends of connections those of `tcp`, and what the applications do
//! is here. A [`Session`] is for measurements that go on while other flows run. Congestion controls come from outside, see [`Controllers`]. Pure: the same scenario, settings and seed give
//! the same rows on any machine. One run is one thread's; many may run side by side.

mod addresses;
mod application;
mod config;
mod device;
mod engine;
mod error;
mod fragments;
mod machine;
mod neighbours;
mod outcome;
mod pace;
mod packet;
mod parcel;
mod path_mtu;
mod ping;
mod recorder;
mod run;
mod sample;
mod session;
mod trace;
mod transfer;
mod udp;
mod udp_receiver;
mod wire;
mod xcp;
mod xcp_window;

pub use config::applies_sysctl;
pub use error::Error;
pub use machine::{Machine, Segmentation};
pub use outcome::{Controllers, Observer, Outcome, Side};
pub use run::run;
pub use session::{Measured, Session};
pub use xcp::HEADER as XCP_HEADER_BYTES;
