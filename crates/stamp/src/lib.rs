//! Measurements of delay by test packets: STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762),
//! with session identifiers (RFC 8972 section 3); TWAMP (RFC 5357), also without control connection (TWAMP
//! Light, appendix I); OWAMP (RFC 4656). Both ends of each.
//!
//! Differences from the RFCs:
//! 1. The reflector of STAMP is stateless (RFC 8762 section 4), so its sequence numbers are the sender's.
//! 2. The TLVs of RFC 8972 are not supported: the reply to a packet longer than a base packet is padded with
//!    zeros, as the RFC allows for a reflector without TLVs.
//! 3. TWAMP and OWAMP have only the unauthenticated mode, and tests only between the two ends of a control
//!    connection.
//! 4. No reply is longer than the packet to which it replies. Packets of TWAMP with less than 27 bytes of
//!    padding are therefore not reflected.

pub mod control;
mod control_connection;
mod control_server;
mod measure;
mod one_way;
mod owamp;
mod reflector;
mod sender;
mod test_socket;
mod twamp;
pub mod wire;

pub use control::ControlProtocol;
pub use control_server::ControlServer;
pub use measure::{measure, measure_packets};
pub use reflector::Reflector;
pub use sender::{MeasuredPackets, Protocol, SenderOptions, Spacing};
pub use wire::Key;

/// The UDP port of STAMP (RFC 8762 section 4.1).
pub const PORT: u16 = 862;
