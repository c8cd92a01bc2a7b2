//! The messages that return the records of an OWAMP session: RFC 4656 section 3.9.

use super::{
    Accept, ProtocolError, SessionRequest, Sid, Slot,
    bytes::{BLOCK, Reader, field, pad, put, put_skips},
    message::{FETCH_SESSION, REQUEST_BYTES, slots_from_bytes, slots_to_bytes},
};
use crate::wire::ErrorEstimate;

/// Bytes of a Fetch-Session, and of a Fetch-Ack without its variable parts.
pub(super) const FETCH_BYTES: usize = 48;
const FETCH_ACK_BYTES: usize = 32;
/// Bytes of the record of a packet in a fetched session (RFC 4656 section 3.9).
pub const PACKET_RECORD_BYTES: usize = 25;
/// Maximum number of records of a fetched session.
const MAX_RECORDS: u32 = 2_000_000;

/// A Fetch-Session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRequest {
    /// The first and the last packet; 0 and the maximum for a whole session.
    pub range: (u32, u32),
    /// The session.
    pub sid: Sid,
}

impl FetchRequest {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; FETCH_BYTES];
        bytes[0] = FETCH_SESSION;
        put(&mut bytes, 8, &self.range.0.to_be_bytes());
        put(&mut bytes, 12, &self.range.1.to_be_bytes());
        put(&mut bytes, 16, &self.sid);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; FETCH_BYTES]) -> Self {
        let number = |at| u32::from_be_bytes(field(bytes, at));
        FetchRequest { range: (number(8), number(12)), sid: field(bytes, 16) }
    }
}

/// The record of one packet of an OWAMP session (RFC 4656 section 3.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Its number.
    pub sequence: u32,
    /// The error estimate of the sender.
    pub sent_error: ErrorEstimate,
    /// The error estimate of the receiver.
    pub received_error: ErrorEstimate,
    /// When it was sent, in NTP's format; of a lost packet when it should have been sent.
    pub sent: u64,
    /// When it arrived; 0 if it was lost.
    pub received: u64,
    /// Its time to live on arrival; 255 if unknown.
    pub ttl: u8,
}

impl PacketRecord {
    fn to_bytes(self) -> [u8; PACKET_RECORD_BYTES] {
        let mut bytes = [0; PACKET_RECORD_BYTES];
        put(&mut bytes, 0, &self.sequence.to_be_bytes());
        put(&mut bytes, 4, &self.sent_error.0.to_be_bytes());
        put(&mut bytes, 6, &self.received_error.0.to_be_bytes());
        put(&mut bytes, 8, &self.sent.to_be_bytes());
        put(&mut bytes, 16, &self.received.to_be_bytes());
        bytes[24] = self.ttl;
        bytes
    }

    fn from_bytes(bytes: &[u8; PACKET_RECORD_BYTES]) -> Self {
        PacketRecord {
            sequence: u32::from_be_bytes(field(bytes, 0)),
            sent_error: ErrorEstimate(u16::from_be_bytes(field(bytes, 4))),
            received_error: ErrorEstimate(u16::from_be_bytes(field(bytes, 6))),
            sent: u64::from_be_bytes(field(bytes, 8)),
            received: u64::from_be_bytes(field(bytes, 16)),
            ttl: bytes[24],
        }
    }
}

/// A session as its receiver returns it: a Fetch-Ack and the messages that follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSession {
    /// Whether the session ended normally.
    pub is_finished: bool,
    /// As the sender reported at the end.
    pub next_sequence: u32,
    /// As the sender reported at the end.
    pub skipped: Vec<(u32, u32)>,
    /// The request that created the session.
    pub request: SessionRequest,
    /// Its schedule.
    pub slots: Vec<Slot>,
    /// The packets, in the order of arrival, with lost and repeated ones.
    pub records: Vec<PacketRecord>,
}

impl FetchedSession {
    /// All messages of the fetched session, encoded.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = fetch_ack(Accept::OK);
        bytes[1] = u8::from(self.is_finished);
        put(&mut bytes, 4, &self.next_sequence.to_be_bytes());
        put(&mut bytes, 8, &(self.skipped.len() as u32).to_be_bytes());
        put(&mut bytes, 12, &(self.records.len() as u32).to_be_bytes());
        bytes.extend(self.request.to_bytes());
        bytes.extend(slots_to_bytes(&self.slots));
        put_skips(&mut bytes, &self.skipped);
        bytes.extend([0; BLOCK]);
        let begin = bytes.len();
        bytes.extend(self.records.iter().flat_map(|record| record.to_bytes()));
        pad(&mut bytes, begin);
        bytes.extend([0; BLOCK]);
        bytes
    }

    /// Reads all messages; `None` if they are incomplete.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<(FetchedSession, usize)>, ProtocolError> {
        let Some(ack) = bytes.first_chunk::<FETCH_ACK_BYTES>() else { return Ok(None) };
        Accept(ack[0]).check("the session's records")?;
        let number = |at| u32::from_be_bytes(field(ack, at));
        let mut reader = Reader { bytes, at: FETCH_ACK_BYTES };
        let Some(request) = reader.take::<REQUEST_BYTES>() else { return Ok(None) };
        let request = SessionRequest::from_bytes(&request)?;
        if request.two_way {
            return Err(ProtocolError::Field("request of a fetched session"));
        }
        let count = request.slots as usize;
        let Some(slots) = reader.skip((count + 1) * BLOCK) else { return Ok(None) };
        let slots = slots_from_bytes(slots, count)?;
        let Some(skipped) = reader.skips(number(8))? else { return Ok(None) };
        if reader.take::<BLOCK>().is_none() {
            return Ok(None);
        }
        let count = number(12);
        if count > MAX_RECORDS {
            return Err(ProtocolError::TooMany("records"));
        }
        let length = count as usize * PACKET_RECORD_BYTES;
        let Some(records) = reader.skip(length.next_multiple_of(BLOCK) + BLOCK) else { return Ok(None) };
        let records = records[..length].as_chunks().0.iter().map(PacketRecord::from_bytes).collect();
        let session = FetchedSession {
            is_finished: ack[1] != 0,
            next_sequence: number(4),
            skipped,
            request,
            slots,
            records,
        };
        Ok(Some((session, reader.at)))
    }
}

/// A Fetch-Ack without records.
pub(super) fn fetch_ack(accept: Accept) -> Vec<u8> {
    let mut bytes = vec![0; FETCH_ACK_BYTES];
    bytes[0] = accept.0;
    bytes
}

/// Messages that can be read must be encoded as the same bytes.
pub(super) fn fuzz(bytes: &[u8]) {
    if let Ok(Some((session, length))) = FetchedSession::from_bytes(bytes) {
        assert_eq!(FetchedSession::from_bytes(&session.to_bytes()), Ok(Some((session, length))));
    }
}
