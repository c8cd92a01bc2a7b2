//! The congestion header that XCP senders and queues exchange (Katabi, Handley and Rohrs 2002, section 3.1).

use units::Time;

use crate::Packet;

/// Bytes of an XCP packet's headers after IP's: 20 of XCP (draft-falk-xcp-spec-03) and 20 as TCP's.
pub const XCP_HEADER_BYTES: u32 = 40;

/// A packet that may carry an XCP congestion header.
pub trait XcpPacket: Packet {
    /// The congestion header; `None` if the packet has none.
    fn xcp_header(&mut self) -> Option<&mut XcpHeader> {
        None
    }
}

/// XCP's congestion header (Katabi, Handley and Rohrs 2002, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct XcpHeader {
    /// The sender's congestion window in bytes (H_cwnd).
    pub cwnd_bytes: f64,
    /// The sender's round-trip time (H_rtt); 0 if unknown.
    pub rtt: Time,
    /// Bytes by which the window may grow (H_feedback). The sender requests a value, queues lower it.
    pub feedback_bytes: f64,
}
