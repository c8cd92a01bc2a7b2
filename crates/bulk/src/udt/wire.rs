//! UDT 4's packets, pure: as in draft-gg-udt-03 section 2, and as libudt 4.11 sends them where it differs.
//!
//! ```text
//! data      0|sequence (31)      first(1) last(1) in order(1) message (29)   timestamp    destination
//! control   1|type (15) unused   additional information                      timestamp    destination
//! ```
//!
//! Each field has 32 bits and is big-endian. Timestamps are in µs since the connection's start. Control
//! packets have a body of whole 32-bit words; those without content have one word of padding, as libudt's.
//! [`Packet::decode`] accepts any bytes and never panics.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of IPv4 and UDP headers, which the segment size counts (libudt subtracts 28 with IPv6 too).
pub const IP_UDP_BYTES: usize = 28;
/// The protocol version of a handshake.
pub const VERSION: u32 = 4;
/// Sequence numbers and loss ranges use the lower 31 bits.
pub const SEQUENCE_MASK: u32 = 0x7fff_ffff;
/// Message numbers use the lower 29 bits.
pub const MESSAGE_MASK: u32 = 0x1fff_ffff;
/// Bytes of the shortest full acknowledgement.
const FULL_ACK_BYTES: usize = 16;
/// Bytes of a handshake's body.
const HANDSHAKE_BYTES: usize = 48;

/// Why a datagram is not a UDT packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header, or a control packet's body is shorter than its type needs.
    #[error("the packet is too short")]
    TooShort,
    /// A control type that UDT 4 does not define.
    #[error("unknown control type {0}")]
    UnknownType(u16),
    /// A range of lost packets without its end.
    #[error("a loss report ends inside a range")]
    OpenRange,
}

/// A packet; payloads borrow from the datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Application data.
    Data(DataHeader, &'a [u8]),
    /// Everything else.
    Control(ControlHeader, Control),
}

/// The header of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// Sequence number, 31 bits.
    pub sequence: u32,
    /// The first packet of its message.
    pub is_first: bool,
    /// The last packet of its message.
    pub is_last: bool,
    /// The message is delivered in order (messages only).
    pub in_order: bool,
    /// Message number, 29 bits.
    pub message: u32,
    /// Timestamp, µs.
    pub stamp_us: u32,
    /// The receiver's socket ID.
    pub destination: u32,
}

/// The fields that all control packets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlHeader {
    /// Timestamp, µs.
    pub stamp_us: u32,
    /// The receiver's socket ID; 0 for a connection request.
    pub destination: u32,
}

/// A control packet's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Type 0: connection set-up.
    Handshake(Handshake),
    /// Type 1: the sender is alive.
    KeepAlive,
    /// Type 2: every packet before a sequence number has arrived.
    Ack(Ack),
    /// Type 3: lost packets, as inclusive ranges of sequence numbers.
    Nak(Vec<(u32, u32)>),
    /// Type 4: the one-way delay grows (sent by older versions only).
    DelayWarning,
    /// Type 5: the connection ends.
    Shutdown,
    /// Type 6: acknowledgement of the acknowledgement with this number.
    AckOfAck(u32),
    /// Type 7: the sender dropped a message; its first and last sequence number.
    MessageDrop {
        /// Message number.
        message: u32,
        /// Its first packet.
        first: u32,
        /// Its last packet.
        last: u32,
    },
    /// Type 8: the receiving application failed.
    PeerError(u32),
}

/// The contents of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// A light acknowledgement: the sequence number alone.
    Light {
        /// The first packet that has not arrived.
        next: u32,
    },
    /// A full acknowledgement.
    Full {
        /// Number of this acknowledgement, which the reply repeats.
        number: u32,
        /// The first packet that has not arrived.
        next: u32,
        /// Round-trip time, µs.
        rtt_us: u32,
        /// Its mean deviation, µs.
        rtt_var_us: u32,
        /// Space in the receive buffer, packets.
        space: u32,
        /// Receive rate and path capacity, packets/s; at most once per 10 ms.
        rates: Option<(u32, u32)>,
    },
}

/// Connection set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// [`VERSION`].
    pub version: u32,
    /// 1 stream, 2 messages.
    pub socket_type: u32,
    /// Initial sequence number.
    pub initial: u32,
    /// Largest packet with IP and UDP headers, bytes.
    pub mss: u32,
    /// Maximum number of packets in flight.
    pub flight_window: u32,
    /// Its type.
    pub request: Request,
    /// The sender's socket ID.
    pub socket_id: u32,
    /// The listener's cookie.
    pub cookie: u32,
    /// The receiver's address as the sender sees it; IPv4 uses the first word.
    pub peer_ip: [u32; 4],
}

/// The type of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// 1: a connection request, or the listener's cookie in reply.
    Connect,
    /// 0: rendezvous, where both sides connect.
    Rendezvous,
    /// -1: the request with the cookie, or its acceptance.
    Response,
    /// 1002 and other values from 1000 on: rejected.
    Reject(u32),
    /// Any other value.
    Other(u32),
}

impl Request {
    fn code(self) -> u32 {
        match self {
            Request::Connect => 1,
            Request::Rendezvous => 0,
            Request::Response => u32::MAX,
            Request::Reject(code) | Request::Other(code) => code,
        }
    }

    fn of(code: u32) -> Self {
        match code {
            1 => Request::Connect,
            0 => Request::Rendezvous,
            u32::MAX => Request::Response,
            1000..=0x7fff_ffff => Request::Reject(code),
            other => Request::Other(other),
        }
    }
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// Why it is not a packet of UDT.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(Malformed::TooShort)?;
        let [first, second, stamp_us, destination] = [0, 1, 2, 3].map(|i| word(header, i).unwrap_or(0));
        if first & !SEQUENCE_MASK == 0 {
            let header = DataHeader {
                sequence: first,
                is_first: second & 1 << 31 != 0,
                is_last: second & 1 << 30 != 0,
                in_order: second & 1 << 29 != 0,
                message: second & MESSAGE_MASK,
                stamp_us,
                destination,
            };
            return Ok(Packet::Data(header, body));
        }
        let control = Control::decode((first >> 16 & 0x7fff) as u16, second, body)?;
        Ok(Packet::Control(ControlHeader { stamp_us, destination }, control))
    }

    /// Appends the packet to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Packet::Data(header, payload) => {
                header.encode(out);
                out.extend_from_slice(payload);
            }
            Packet::Control(header, control) => {
                put(out, 1 << 31 | u32::from(control.kind()) << 16);
                put(out, control.additional());
                put(out, header.stamp_us);
                put(out, header.destination);
                control.encode_body(out);
            }
        }
    }
}

impl DataHeader {
    /// Appends the header; the payload follows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.sequence & SEQUENCE_MASK);
        let flags =
            u32::from(self.is_first) << 31 | u32::from(self.is_last) << 30 | u32::from(self.in_order) << 29;
        put(out, flags | self.message & MESSAGE_MASK);
        put(out, self.stamp_us);
        put(out, self.destination);
    }
}

impl Control {
    fn kind(&self) -> u16 {
        match self {
            Control::Handshake(_) => 0,
            Control::KeepAlive => 1,
            Control::Ack(_) => 2,
            Control::Nak(_) => 3,
            Control::DelayWarning => 4,
            Control::Shutdown => 5,
            Control::AckOfAck(_) => 6,
            Control::MessageDrop { .. } => 7,
            Control::PeerError(_) => 8,
        }
    }

    /// The header's second word.
    fn additional(&self) -> u32 {
        match self {
            Control::Ack(Ack::Full { number, .. }) | Control::AckOfAck(number) => *number,
            Control::MessageDrop { message, .. } => *message,
            Control::PeerError(code) => *code,
            _ => 0,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Control::Handshake(handshake) => handshake.encode(out),
            Control::Ack(Ack::Light { next }) => put(out, *next),
            Control::Ack(Ack::Full { next, rtt_us, rtt_var_us, space, rates, .. }) => {
                for value in [*next, *rtt_us, *rtt_var_us, *space] {
                    put(out, value);
                }
                if let Some((receive_rate, capacity)) = rates {
                    put(out, *receive_rate);
                    put(out, *capacity);
                }
            }
            Control::Nak(ranges) => {
                for &(first, last) in ranges {
                    if first == last {
                        put(out, first);
                    } else {
                        put(out, first | !SEQUENCE_MASK);
                        put(out, last);
                    }
                }
            }
            Control::MessageDrop { first, last, .. } => {
                put(out, *first);
                put(out, *last);
            }
            // libudt sends one word of padding, because its sendmsg() must have a second part.
            Control::KeepAlive
            | Control::DelayWarning
            | Control::Shutdown
            | Control::AckOfAck(_)
            | Control::PeerError(_) => put(out, 0),
        }
    }

    fn decode(kind: u16, additional: u32, body: &[u8]) -> Result<Self, Malformed> {
        let at = |index| word(body, index).ok_or(Malformed::TooShort);
        Ok(match kind {
            0 => Control::Handshake(Handshake::decode(body).ok_or(Malformed::TooShort)?),
            1 => Control::KeepAlive,
            2 if body.len() < FULL_ACK_BYTES => Control::Ack(Ack::Light { next: at(0)? & SEQUENCE_MASK }),
            2 => Control::Ack(Ack::Full {
                number: additional,
                next: at(0)? & SEQUENCE_MASK,
                rtt_us: at(1)?,
                rtt_var_us: at(2)?,
                space: at(3)?,
                rates: word(body, 4).zip(word(body, 5)),
            }),
            3 => Control::Nak(decode_ranges(body)?),
            4 => Control::DelayWarning,
            5 => Control::Shutdown,
            6 => Control::AckOfAck(additional),
            7 => Control::MessageDrop {
                message: additional & MESSAGE_MASK,
                first: at(0)? & SEQUENCE_MASK,
                last: at(1)? & SEQUENCE_MASK,
            },
            8 => Control::PeerError(additional),
            other => return Err(Malformed::UnknownType(other)),
        })
    }
}

impl Handshake {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = [
            self.version,
            self.socket_type,
            self.initial,
            self.mss,
            self.flight_window,
            self.request.code(),
            self.socket_id,
            self.cookie,
        ];
        for value in head.into_iter().chain(self.peer_ip) {
            put(out, value);
        }
    }

    fn decode(body: &[u8]) -> Option<Self> {
        if body.len() < HANDSHAKE_BYTES {
            return None;
        }
        let at = |index| word(body, index);
        Some(Handshake {
            version: at(0)?,
            socket_type: at(1)?,
            initial: at(2)? & SEQUENCE_MASK,
            mss: at(3)?,
            flight_window: at(4)?,
            request: Request::of(at(5)?),
            socket_id: at(6)?,
            cookie: at(7)?,
            peer_ip: [at(8)?, at(9)?, at(10)?, at(11)?],
        })
    }
}

/// Reads a compressed loss list (draft-gg-udt-03 section 2.3): a number with the first bit set begins a
/// range that the next number ends.
fn decode_ranges(body: &[u8]) -> Result<Vec<(u32, u32)>, Malformed> {
    let mut ranges = Vec::new();
    let mut words =
        body.chunks_exact(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    while let Some(first) = words.next() {
        let last =
            if first & !SEQUENCE_MASK == 0 { first } else { words.next().ok_or(Malformed::OpenRange)? };
        ranges.push((first & SEQUENCE_MASK, last & SEQUENCE_MASK));
    }
    Ok(ranges)
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(index * 4..index * 4 + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn put(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Decodes arbitrary bytes as a packet, and checks that a decoded packet is the same after encoding; for
/// fuzzers.
///
/// # Panics
/// If a packet changes when it is encoded and decoded.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(packet) = Packet::decode(bytes) {
        let mut encoded = Vec::new();
        packet.encode(&mut encoded);
        assert_eq!(Packet::decode(&encoded).as_ref(), Ok(&packet));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        bytes
    }

    fn control(control: Control) -> Vec<u8> {
        encoded(&Packet::Control(ControlHeader { stamp_us: 0x0102_0304, destination: 0x0a0b_0c0d }, control))
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn data_has_the_header_of_the_draft() {
        let header = DataHeader {
            sequence: 0x1234_5678,
            is_first: true,
            is_last: false,
            in_order: true,
            message: 5,
            stamp_us: 0x0102_0304,
            destination: 0x0a0b_0c0d,
        };
        let expected = hex("12345678 a0000005 01020304 0a0b0c0d 6869");
        assert_eq!(encoded(&Packet::Data(header, b"hi")), expected);
    }

    #[test]
    fn control_packets_have_the_layout_of_libudt() {
        let ack =
            Ack::Full { number: 9, next: 7, rtt_us: 100, rtt_var_us: 50, space: 8192, rates: Some((3, 4)) };
        let vectors = [
            (Control::KeepAlive, "80010000 00000000 01020304 0a0b0c0d 00000000"),
            (Control::Ack(Ack::Light { next: 7 }), "80020000 00000000 01020304 0a0b0c0d 00000007"),
            (
                Control::Ack(ack),
                "80020000 00000009 01020304 0a0b0c0d 00000007 00000064 00000032 00002000 00000003 00000004",
            ),
            (
                Control::Nak(vec![(3, 3), (5, 9)]),
                "80030000 00000000 01020304 0a0b0c0d 00000003 80000005 00000009",
            ),
            (Control::Shutdown, "80050000 00000000 01020304 0a0b0c0d 00000000"),
            (Control::AckOfAck(9), "80060000 00000009 01020304 0a0b0c0d 00000000"),
            (
                Control::MessageDrop { message: 2, first: 3, last: 4 },
                "80070000 00000002 01020304 0a0b0c0d 00000003 00000004",
            ),
        ];
        for (value, text) in vectors {
            assert_eq!(control(value.clone()), hex(text), "{value:?}");
        }
    }

    #[test]
    fn a_handshake_has_twelve_words() {
        let handshake = Handshake {
            version: 4,
            socket_type: 1,
            initial: 100,
            mss: 1500,
            flight_window: 8192,
            request: Request::Response,
            socket_id: 77,
            cookie: 0xdead_beef,
            peer_ip: [0x7f00_0001, 0, 0, 0],
        };
        let expected =
            "80000000 00000000 01020304 0a0b0c0d 00000004 00000001 00000064 000005dc 00002000 ffffffff
                        0000004d deadbeef 7f000001 00000000 00000000 00000000";
        assert_eq!(control(Control::Handshake(handshake)), hex(expected));
    }

    #[test]
    fn truncated_packets_are_errors() {
        let whole = control(Control::MessageDrop { message: 1, first: 2, last: 3 });
        for length in 0..whole.len() {
            assert_eq!(Packet::decode(&whole[..length]), Err(Malformed::TooShort), "{length}");
        }
        assert_eq!(
            Packet::decode(&hex("80030000 00000000 00000000 00000000 80000001")),
            Err(Malformed::OpenRange)
        );
        assert_eq!(
            Packet::decode(&hex("80990000 00000000 00000000 00000000")),
            Err(Malformed::UnknownType(0x99))
        );
    }

    proptest! {
        #[test]
        fn any_decoded_packet_survives_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz(&bytes);
        }

        #[test]
        fn any_control_packet_decodes(kind in 0u8..10, mut bytes in proptest::collection::vec(any::<u8>(), 16..120)) {
            bytes[..2].copy_from_slice(&[0x80, kind]);
            fuzz(&bytes);
        }
    }
}
