//! The messages between points. All messages may be lost, repeated, delayed and reordered.

use serde::{Deserialize, Serialize};
use units::{Instant, Time};

use crate::{Phase, Reason, Request, ReservationId, Slot};

/// A message between two points about one reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The reservation.
    pub id: ReservationId,
    /// Number of the proposal that it belongs to. Receivers ignore messages of earlier proposals.
    pub revision: u32,
    /// The sender's UTC when it was sent.
    pub sent: Instant,
    /// `sent` of the message that this one replies to, for the measurement of the round-trip time.
    pub echo: Option<Instant>,
    /// Largest estimated error of the sender's UTC.
    pub error: Time,
    /// The content.
    pub body: Body,
}

/// The content of a [`Message`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Body {
    /// Requester to lead: reserve and run this test.
    #[serde(rename = "ask")]
    Request {
        /// The test.
        request: Box<Request>,
    },
    /// Requester to lead: cancel it.
    Withdraw {
        /// The user's text.
        text: String,
    },
    /// Lead to requester: the state of the reservation.
    Report {
        /// The lead's phase.
        phase: Phase,
        /// The lead's slot.
        slot: Option<Slot>,
    },
    /// Lead to peer: hold this slot.
    Propose {
        /// The test.
        request: Box<Request>,
        /// The slot, with the padding that the lead needs.
        slot: Slot,
        /// The lead's estimate of the round-trip time.
        rtt: Time,
    },
    /// Peer to lead: the slot is held.
    Hold {
        /// The slot, with the padding of both ends.
        slot: Slot,
    },
    /// Peer to lead: the slot is not free.
    Busy {
        /// The conflict.
        reason: Reason,
        /// The next free start, UTC; `None` if there is none in the requested time.
        next: Option<Instant>,
    },
    /// Peer to lead: refused, and the reason.
    Refuse {
        /// The reason.
        reason: Reason,
    },
    /// Lead to peer: book the held slot.
    Confirm,
    /// Peer to lead: booked.
    Confirmed,
    /// Lead to peer: the slot begins; start the test.
    Start,
    /// Peer to lead: started.
    Started,
    /// Either end: this reservation has ended here.
    Cancel {
        /// The reason.
        reason: Reason,
    },
    /// Reply to `Cancel`.
    Cancelled,
}
