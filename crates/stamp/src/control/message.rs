//! The messages of both control protocols: RFC 4656 sections 3.1 to 3.8, RFC 5357 sections 3.1 to 3.8.
//! `fetch.rs` has those that return a session's records.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    Accept, ProtocolError,
    bytes::{BLOCK, Reader, field, put, put_address, put_skips},
};

/// Bytes of each message. That of a request is without its variable part.
pub(super) const GREETING_BYTES: usize = 64;
pub(super) const SET_UP_BYTES: usize = 164;
pub(super) const SERVER_START_BYTES: usize = 48;
pub(super) const REQUEST_BYTES: usize = 112;
pub(super) const ACCEPT_BYTES: usize = 48;
pub(super) const START_BYTES: usize = 32;
pub(super) const START_ACK_BYTES: usize = 32;
/// The only supported mode: unauthenticated.
pub(super) const UNAUTHENTICATED: u32 = 1;
/// Maximum number of slots of a schedule, which limits the memory that one message can make this end use.
const MAX_SLOTS: u32 = 256;
/// Maximum number of senders in one message. A message is parsed again whenever a part of it arrives, so this
/// also limits the processor time that many small parts can cost.
const MAX_SENDERS: u32 = 16;
/// Count of rounds that derive keys: the RFC's minimum. No key is used in unauthenticated mode.
const KEY_ROUNDS: u32 = 1024;

/// The first byte of a Request-Session command; the first bytes of the other commands follow.
pub(super) const REQUEST_ONE_WAY: u8 = 1;
pub(super) const START_SESSIONS: u8 = 2;
pub(super) const STOP_SESSIONS: u8 = 3;
pub(super) const FETCH_SESSION: u8 = 4;
pub(super) const REQUEST_TWO_WAY: u8 = 5;

/// The identifier of a session.
pub type Sid = [u8; 16];

/// A server's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) modes: u32,
    /// Challenge and salt.
    pub(super) random: [u8; 32],
}

impl Greeting {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; GREETING_BYTES];
        put(&mut bytes, 12, &self.modes.to_be_bytes());
        put(&mut bytes, 16, &self.random);
        put(&mut bytes, 48, &KEY_ROUNDS.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; GREETING_BYTES]) -> Greeting {
        Greeting { modes: u32::from_be_bytes(field(bytes, 12)), random: field(bytes, 16) }
    }
}

/// The client's Set-Up-Response in unauthenticated mode: key, token and IV are unused.
pub(super) fn set_up_response() -> Vec<u8> {
    let mut bytes = vec![0; SET_UP_BYTES];
    put(&mut bytes, 0, &UNAUTHENTICATED.to_be_bytes());
    bytes
}

/// A Server-Start; `started` is the time at which the server started, in NTP's format.
pub(super) fn server_start(accept: Accept, started: u64) -> Vec<u8> {
    let mut bytes = vec![0; SERVER_START_BYTES];
    bytes[15] = accept.0;
    put(&mut bytes, 32, &started.to_be_bytes());
    bytes
}

/// A Request-Session or Request-TW-Session, without its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRequest {
    /// Whether the request is a Request-TW-Session.
    pub two_way: bool,
    /// Whether the server sends (OWAMP).
    pub server_sends: bool,
    /// Whether the server receives (OWAMP).
    pub server_receives: bool,
    /// Number of slots of the schedule (OWAMP).
    pub slots: u32,
    /// Number of packets (OWAMP).
    pub packets: u32,
    /// Source of the packets. TWAMP: an unspecified address means that of the control connection.
    pub sender: SocketAddr,
    /// Destination of the packets. TWAMP: an unspecified address means that of the control connection. The
    /// port is only a request; the server chooses the port.
    pub receiver: SocketAddr,
    /// Identifier of a session whose receiver is the client; otherwise zero.
    pub sid: Sid,
    /// Padding of each packet beyond the smallest packet, bytes.
    pub padding_bytes: u32,
    /// When sending starts, in NTP's format.
    pub start: u64,
    /// Time after which packets count as lost, in NTP's format for intervals.
    pub timeout: u64,
    /// The packets' type: 0, or a DSCP in bits 24 to 29.
    pub type_p: u32,
}

impl SessionRequest {
    /// The message.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; REQUEST_BYTES];
        bytes[0] = if self.two_way { REQUEST_TWO_WAY } else { REQUEST_ONE_WAY };
        bytes[1] = if self.sender.is_ipv4() { 4 } else { 6 };
        bytes[2] = u8::from(self.server_sends);
        bytes[3] = u8::from(self.server_receives);
        put(&mut bytes, 4, &self.slots.to_be_bytes());
        put(&mut bytes, 8, &self.packets.to_be_bytes());
        put(&mut bytes, 12, &self.sender.port().to_be_bytes());
        put(&mut bytes, 14, &self.receiver.port().to_be_bytes());
        put_address(&mut bytes, 16, self.sender.ip());
        put_address(&mut bytes, 32, self.receiver.ip());
        put(&mut bytes, 48, &self.sid);
        put(&mut bytes, 64, &self.padding_bytes.to_be_bytes());
        put(&mut bytes, 68, &self.start.to_be_bytes());
        put(&mut bytes, 76, &self.timeout.to_be_bytes());
        put(&mut bytes, 84, &self.type_p.to_be_bytes());
        bytes
    }

    /// Reads the message.
    ///
    /// # Errors
    /// If the IP version or the number of slots is invalid.
    pub(super) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Result<SessionRequest, ProtocolError> {
        let address = |at: usize| match bytes[1] & 0xf {
            4 => Ok(IpAddr::from(Ipv4Addr::from(field::<4>(bytes, at)))),
            6 => Ok(IpAddr::from(Ipv6Addr::from(field::<16>(bytes, at)))),
            _ => Err(ProtocolError::Field("IP version")),
        };
        let two_way = bytes[0] == REQUEST_TWO_WAY;
        let slots = u32::from_be_bytes(field(bytes, 4));
        if !two_way && slots > MAX_SLOTS {
            return Err(ProtocolError::TooMany("slots"));
        }
        Ok(SessionRequest {
            two_way,
            server_sends: bytes[2] != 0,
            server_receives: bytes[3] != 0,
            slots,
            packets: u32::from_be_bytes(field(bytes, 8)),
            sender: SocketAddr::new(address(16)?, u16::from_be_bytes(field(bytes, 12))),
            receiver: SocketAddr::new(address(32)?, u16::from_be_bytes(field(bytes, 14))),
            sid: field(bytes, 48),
            padding_bytes: u32::from_be_bytes(field(bytes, 64)),
            start: u64::from_be_bytes(field(bytes, 68)),
            timeout: u64::from_be_bytes(field(bytes, 76)),
            type_p: u32::from_be_bytes(field(bytes, 84)),
        })
    }
}

/// A slot of a schedule: the time between two packets, in NTP's format for intervals (RFC 4656 section 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Exponentially distributed with this mean.
    Exponential(u64),
    /// Always this interval.
    Fixed(u64),
}

impl Slot {
    pub(super) fn to_bytes(self) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        let (kind, time) = match self {
            Slot::Exponential(mean) => (0, mean),
            Slot::Fixed(time) => (1, time),
        };
        bytes[0] = kind;
        put(&mut bytes, 8, &time.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; BLOCK]) -> Result<Slot, ProtocolError> {
        let time = u64::from_be_bytes(field(bytes, 8));
        match bytes[0] {
            0 => Ok(Slot::Exponential(time)),
            1 => Ok(Slot::Fixed(time)),
            _ => Err(ProtocolError::Field("type of slot")),
        }
    }

    /// The mean interval.
    pub fn mean(self) -> u64 {
        match self {
            Slot::Exponential(time) | Slot::Fixed(time) => time,
        }
    }
}

/// The slots of a request and their HMAC.
pub(super) fn slots_to_bytes(slots: &[Slot]) -> Vec<u8> {
    let mut bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_bytes()).collect();
    bytes.extend([0; BLOCK]);
    bytes
}

pub(super) fn slots_from_bytes(bytes: &[u8], count: usize) -> Result<Vec<Slot>, ProtocolError> {
    bytes.as_chunks::<BLOCK>().0.iter().take(count).map(Slot::from_bytes).collect()
}

/// An Accept-Session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionAccepted {
    /// The decision.
    pub accept: Accept,
    /// The server's port of the session.
    pub port: u16,
    /// The session's identifier, if the server receives or reflects.
    pub sid: Sid,
}

impl SessionAccepted {
    /// A refusal.
    pub fn refused(accept: Accept) -> Self {
        SessionAccepted { accept, port: 0, sid: [0; 16] }
    }

    /// The message.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; ACCEPT_BYTES];
        bytes[0] = self.accept.0;
        put(&mut bytes, 2, &self.port.to_be_bytes());
        put(&mut bytes, 4, &self.sid);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; ACCEPT_BYTES]) -> Self {
        SessionAccepted {
            accept: Accept(bytes[0]),
            port: u16::from_be_bytes(field(bytes, 2)),
            sid: field(bytes, 4),
        }
    }
}

/// A Start-Sessions.
pub(super) fn start_sessions() -> Vec<u8> {
    let mut bytes = vec![0; START_BYTES];
    bytes[0] = START_SESSIONS;
    bytes
}

/// A Start-Ack.
pub(super) fn start_ack(accept: Accept) -> Vec<u8> {
    let mut bytes = vec![0; START_ACK_BYTES];
    bytes[0] = accept.0;
    bytes
}

/// The report of a sender at the end of an OWAMP session (RFC 4656 section 3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedSender {
    /// The session.
    pub sid: Sid,
    /// Number of the first packet that was not sent: the number of packets, if none was skipped.
    pub next_sequence: u32,
    /// Packets that were not sent: the first and the last of each range.
    pub skipped: Vec<(u32, u32)>,
}

impl StoppedSender {
    /// Number of packets that were sent.
    pub fn sent(&self) -> u32 {
        let skipped = self.skipped.iter().map(|(first, last)| last.saturating_sub(*first).saturating_add(1));
        self.next_sequence.saturating_sub(skipped.fold(0, u32::saturating_add))
    }
}

/// A Stop-Sessions of OWAMP.
pub(super) fn stop_one_way(senders: &[StoppedSender]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    bytes[0] = STOP_SESSIONS;
    put(&mut bytes, 4, &(senders.len() as u32).to_be_bytes());
    for sender in senders {
        bytes.extend(sender.sid);
        bytes.extend(sender.next_sequence.to_be_bytes());
        bytes.extend((sender.skipped.len() as u32).to_be_bytes());
        put_skips(&mut bytes, &sender.skipped);
    }
    bytes.extend([0; BLOCK]);
    bytes
}

/// A Stop-Sessions of TWAMP.
pub(super) fn stop_two_way(sessions: u32) -> Vec<u8> {
    let mut bytes = vec![0; 2 * BLOCK];
    bytes[0] = STOP_SESSIONS;
    put(&mut bytes, 4, &sessions.to_be_bytes());
    bytes
}

/// Reads a Stop-Sessions and its length; `None` if it is incomplete.
pub(super) fn stop_from_bytes(
    bytes: &[u8],
    two_way: bool,
) -> Result<Option<(Vec<StoppedSender>, usize)>, ProtocolError> {
    let Some(header) = bytes.first_chunk::<BLOCK>() else { return Ok(None) };
    let sessions = u32::from_be_bytes(field(header, 4));
    let mut reader = Reader { bytes, at: BLOCK };
    let mut senders = Vec::new();
    if !two_way {
        if sessions > MAX_SENDERS {
            return Err(ProtocolError::TooMany("senders"));
        }
        for _ in 0..sessions {
            let (Some(sid), Some(next), Some(count)) =
                (reader.take::<16>(), reader.take::<4>(), reader.take::<4>())
            else {
                return Ok(None);
            };
            let Some(skipped) = reader.skips(u32::from_be_bytes(count))? else { return Ok(None) };
            senders.push(StoppedSender { sid, next_sequence: u32::from_be_bytes(next), skipped });
        }
    }
    Ok(reader.take::<BLOCK>().map(|_hmac| (senders, reader.at)))
}

/// Messages that can be read must be encoded as the same bytes.
pub(super) fn fuzz(bytes: &[u8]) {
    if let Ok(Some((senders, length))) = stop_from_bytes(bytes, false) {
        assert_eq!(stop_one_way(&senders).len(), length);
        assert_eq!(stop_from_bytes(&stop_one_way(&senders), false), Ok(Some((senders, length))));
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(request) = SessionRequest::from_bytes(bytes)
    {
        let written: [u8; REQUEST_BYTES] = field(&request.to_bytes(), 0);
        assert_eq!(SessionRequest::from_bytes(&written), Ok(request));
    }
}
