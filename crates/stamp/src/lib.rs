//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762), with session identifiers (RFC 8972
//! section 3): a reflector and a sender.
//!
//! Departures: the reflector is stateless (RFC 8762 section 4), so its sequence numbers are the sender's. The
//! TLVs of RFC 8972 are not supported: the reply to a packet longer than a base packet is padded with zeros,
//! as the RFC allows for a reflector without TLVs.

mod reflector;
mod sender;
pub mod wire;

pub use reflector::Reflector;
pub use sender::{MeasuredPackets, SenderOptions, measure, measure_packets};
pub use wire::Key;

/// The UDP port (RFC 8762 section 4.1).
pub const PORT: u16 = 862;
