//! The state of a point that is not durable: [`super::Point::restart`] sets it again.

use units::{Instant, Time};

use crate::{Phase, Slot};

/// A point's measurements of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerFacts {
    /// Round-trip time of a proposal and its reply: the larger of the latest and a decaying maximum.
    pub rtt: Time,
    /// Error of its clock.
    pub error: Time,
}

/// State of a reservation that is not durable: timers, repetitions.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    /// The key of this reservation in `Point::due`.
    pub due: Option<Instant>,
    /// The key of this reservation in `Point::due_utc`.
    pub due_utc: Option<Instant>,
    /// When to repeat the last message, or to seek again; steady clock.
    pub resend_at: Option<Instant>,
    /// The number of repetitions of the message.
    pub repeats: u32,
    /// When a hold, a confirmation or a run ends; steady clock.
    pub gives_up: Option<Instant>,
    /// When the latest proposal and its repetitions were sent: UTC and steady clock.
    pub sent: Vec<(Instant, Instant)>,
    /// Proposals since the last pause.
    pub rounds: u32,
    /// Earliest start that the peer may accept.
    pub not_before: Instant,
    /// Whether `Start` was sent to the peer.
    pub is_starting: bool,
    /// At the requester: the phase and the slot that the lead has reported.
    pub reported: Option<(Phase, Option<Slot>)>,
}
