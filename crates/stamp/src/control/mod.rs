//! The control protocols of OWAMP (RFC 4656 section 3) and TWAMP (RFC 5357 section 3), pure: bytes in, bytes
//! out.
//!
//! Differences from the RFCs:
//! 1. Only the unauthenticated mode is implemented, so the fields of HMACs are zero and are ignored.
//! 2. A session's sender and receiver are the two ends of the control connection; tests between other hosts
//!    are refused (Accept 3).

mod bytes;
mod client;
mod error;
mod fetch;
mod message;
mod schedule;
mod server;

pub use client::{ClientControl, Reply};
pub use error::{Accept, ProtocolError};
pub use fetch::{FetchRequest, FetchedSession, PACKET_RECORD_BYTES, PacketRecord};
pub use message::{SessionAccepted, SessionRequest, Sid, Slot, StoppedSender};
pub use schedule::Schedule;
pub use server::{Command, ServerControl};

/// A protocol with a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlProtocol {
    /// Round trips, RFC 5357.
    Twamp,
    /// One-way delays, RFC 4656.
    Owamp,
}

impl ControlProtocol {
    /// The TCP port of its control connections (RFC 5357 section 8, RFC 4656 section 3.1).
    pub fn port(self) -> u16 {
        match self {
            ControlProtocol::Twamp => 862,
            ControlProtocol::Owamp => 861,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ControlProtocol::Twamp => "TWAMP",
            ControlProtocol::Owamp => "OWAMP",
        }
    }
}

/// Fuzz target: a client and a server receive arbitrary bytes in each state. The bytes arrive in two parts.
pub fn fuzz(bytes: &[u8]) {
    for protocol in [ControlProtocol::Twamp, ControlProtocol::Owamp] {
        server::fuzz(protocol, bytes);
        client::fuzz(protocol, bytes);
    }
    message::fuzz(bytes);
    fetch::fuzz(bytes);
}
