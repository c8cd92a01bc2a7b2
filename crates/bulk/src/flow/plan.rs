//! What a flow sends: its protocol, its size, and the sizes of its packets.

use crate::{tsunami::wire::Parameters, udt::RateChoice};

/// Bytes of a UDP header.
pub(super) const UDP_HEADER: u32 = 8;
/// Flow-control window of a QUIC receiver without a requested one: enough for 5 Gb/s over 100 ms.
pub const QUIC_WINDOW_BYTES: u32 = 64 << 20;
/// Bytes of the connection identifiers of QUIC, in every packet.
#[cfg(not(target_arch = "wasm32"))]
pub(super) const QUIC_CONNECTION_ID_BYTES: u32 = 8;
/// Bytes of QUIC's header in a packet with data only (RFC 9000, sections 17.3 and 19.8): flags, the
/// connection's identifier, a packet number of two bytes, the type and number of the stream, an offset of 1
/// GiB or more, and the tag of the encryption.
#[cfg(not(target_arch = "wasm32"))]
const QUIC_HEADER_BYTES: u32 = 1 + QUIC_CONNECTION_ID_BYTES + 2 + 2 + 8 + 16;

/// A flow.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The protocol and its parameters.
    pub protocol: Protocol,
    /// Bytes to send; `None`: as many as the flow has time for.
    pub bytes: Option<u64>,
    /// The largest packet with IP and UDP headers, bytes.
    pub mtu: u32,
    /// Bytes of the IP header.
    pub ip_header: u32,
    /// Chooses initial sequence numbers and the random numbers of rate controls.
    pub seed: u64,
}

/// The protocol of a flow.
#[derive(Debug, Clone, Copy)]
pub enum Protocol {
    /// UDT 4.
    Udt {
        /// The sender's rate control.
        rate: RateChoice,
        /// Packets that the receiver's buffer holds; `None`: libudt's default.
        receive_packets: Option<u32>,
    },
    /// Tsunami, with the client's parameters.
    Tsunami(Parameters),
    /// A real-time stream.
    Stream(crate::stream::Parameters),
    /// QUIC, without encryption. Not available on targets without a clock of the operating system.
    #[cfg(not(target_arch = "wasm32"))]
    Quic {
        /// The receiver's flow-control window, bytes; `None`: [`QUIC_WINDOW_BYTES`].
        receive_window: Option<u32>,
    },
}

impl Plan {
    /// Whether the protocol has a control connection.
    pub fn has_control_connection(&self) -> bool {
        matches!(self.protocol, Protocol::Tsunami(_))
    }

    /// Payload bytes of a full packet.
    pub fn payload_bytes(&self) -> u32 {
        match self.protocol {
            Protocol::Udt { .. } => self.full_payload_bytes(),
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { .. } => self.full_payload_bytes(),
            Protocol::Tsunami(parameters) => parameters.block_bytes,
            Protocol::Stream(parameters) => parameters.payload_bytes,
        }
    }

    fn full_payload_bytes(&self) -> u32 {
        self.mtu.saturating_sub(self.ip_header + UDP_HEADER + self.header_bytes()).max(1)
    }

    /// Bytes of the protocol's header in a packet with data, after UDP's.
    pub fn header_bytes(&self) -> u32 {
        match self.protocol {
            Protocol::Udt { .. } => crate::udt::wire::HEADER_BYTES as u32,
            Protocol::Tsunami(_) => crate::tsunami::wire::HEADER_BYTES as u32,
            Protocol::Stream(parameters) => parameters.header_bytes() as u32,
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { .. } => QUIC_HEADER_BYTES,
        }
    }

    /// The constant or highest rate that was requested, bit/s of payload.
    pub fn requested_payload_bps(&self) -> Option<f64> {
        match self.protocol {
            Protocol::Udt { rate: RateChoice::Fixed(rate), .. } => {
                Some(rate.as_f64() * f64::from(self.payload_bytes()) / f64::from(self.mtu.max(1)))
            }
            Protocol::Udt { .. } => None,
            Protocol::Tsunami(parameters) => Some(f64::from(parameters.target_bps)),
            Protocol::Stream(parameters) => Some(parameters.rate.as_f64()),
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { .. } => None,
        }
    }

    /// Whether the sender has a congestion control with the interface of crate `tcp`
    /// ([`super::Sender::with_congestion_control`]). The other protocols control their rate.
    pub fn has_congestion_control(&self) -> bool {
        match self.protocol {
            Protocol::Udt { .. } | Protocol::Tsunami(_) | Protocol::Stream(_) => false,
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { .. } => true,
        }
    }
}
