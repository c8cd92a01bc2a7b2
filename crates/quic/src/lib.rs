//! One QUIC connection with one bidirectional stream over a UDP socket, with longfat's congestion controls.
//!
//! The protocol is quinn's state machine (`quinn-proto`); this crate adds the socket, pacing, certificates
//! that both ends pin, and the congestion controls of crate `cc` behind quinn's trait (`congestion.rs`).
//! Calls block; a check ends them early.
//!
//! A [`QuicListener`] accepts one connection. It begins a handshake only after an address validation (a Retry
//! packet), so a request with a forged address receives no data. Each end has an [`Identity`], a certificate
//! for this connection only, and accepts only the expected certificate: the caller exchanges the certificates
//! before.

mod config;
mod congestion;
mod error;
mod identity;
mod listener;
mod stream;

pub use config::QuicOptions;
pub use error::Error;
pub use identity::Identity;
pub use listener::QuicListener;
pub use stream::{QuicStatistics, QuicStream};

/// A function that a blocking call calls at intervals; its error ends the blocking call.
pub type Check<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

/// Bytes of the IP and UDP headers of a packet to this address.
fn header_bytes(ip: std::net::IpAddr) -> u32 {
    if ip.to_canonical().is_ipv4() { 28 } else { 48 }
}
