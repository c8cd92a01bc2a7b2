//! Connections between points: TLS with a certificate of the mesh at both ends, then frames in both
//! directions.
//!
//! Messages may be lost, when a connection ends or cannot be opened; their senders repeat them. Every wait
//! has a deadline. Clients without a certificate of the mesh fail in the handshake.

mod connection;
mod dial;
mod join;
mod listener;
mod peers;

pub use join::{JoinRequest, join};
pub(crate) use listener::listen;
pub(crate) use peers::Network;
