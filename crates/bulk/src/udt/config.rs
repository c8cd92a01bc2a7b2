//! Options of one end of a UDT connection.

use crate::udt::wire;

/// Smallest segment size: a payload of 32 B.
pub(super) const MIN_MSS: u32 = (wire::IP_UDP_BYTES + wire::HEADER_BYTES + 32) as u32;
/// Largest window that a peer can request.
pub(super) const MAX_WINDOW: u32 = 1 << 22;

/// The options of one end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// A byte stream or messages.
    pub socket_type: SocketType,
    /// Largest packet with IP and UDP headers, bytes: 76 to 65,535.
    pub mss: u32,
    /// Packets that the receive buffer holds; also the largest window of the peer.
    pub receive_packets: u32,
    /// Packets that the send buffer holds.
    pub send_packets: u32,
    /// This end's socket ID, unlike that of every other connection on its port, and not 0.
    pub socket_id: u32,
    /// Initial sequence number of a client; the server takes the client's.
    pub initial: u32,
}

impl Default for Config {
    /// libudt's segment size and flight window; a receive buffer as large as the window.
    fn default() -> Self {
        Config {
            socket_type: SocketType::Stream,
            mss: 1500,
            receive_packets: 25_600,
            send_packets: 25_600,
            socket_id: 1,
            initial: 0,
        }
    }
}

/// The kind of data of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketType {
    /// A byte stream.
    Stream,
    /// Messages.
    Messages,
}

impl SocketType {
    pub(super) fn code(self) -> u32 {
        match self {
            SocketType::Stream => 1,
            SocketType::Messages => 2,
        }
    }
}

impl Config {
    /// The values that the protocol can carry.
    pub(super) fn checked(self) -> Self {
        Config {
            mss: self.mss.clamp(MIN_MSS, 65_535),
            receive_packets: self.receive_packets.clamp(16, MAX_WINDOW),
            send_packets: self.send_packets.clamp(1, MAX_WINDOW),
            socket_id: self.socket_id.max(1),
            initial: self.initial & wire::SEQUENCE_MASK,
            ..self
        }
    }

    /// Bytes of a full packet's payload.
    pub(super) fn payload_bytes(&self) -> usize {
        (self.mss as usize).saturating_sub(wire::IP_UDP_BYTES + wire::HEADER_BYTES)
    }
}
