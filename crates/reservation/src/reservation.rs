//! The state of a reservation at one point.

use serde::{Deserialize, Serialize};
use units::{Instant, Time};

use crate::{Occurrence, Outcome, PointName, Reason, Request};

/// The role of a point in a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Proposes slots, confirms, and starts the test.
    Lead,
    /// The other end.
    Peer,
    /// Requested a test of two other points and does not take part.
    #[serde(rename = "asker")]
    Requester,
}

/// When a test runs, and the time around it that is kept free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Start of the test, UTC.
    pub start: Instant,
    /// Length of the test.
    pub duration: Time,
    /// Kept free before and after: both clocks' errors, two round trips, and the start of the programs.
    pub padding: Time,
}

impl Slot {
    /// Start of the padded slot, UTC.
    pub fn from(&self) -> Instant {
        self.start.saturating_sub(self.padding)
    }

    /// End of the padded slot, UTC.
    pub fn until(&self) -> Instant {
        self.start + self.duration + self.padding
    }
}

/// The phase of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Lead: has no slot and proposes the next one. Requester: waits for the lead.
    Seeking,
    /// Holds a slot; the hold expires by itself.
    Held {
        /// When it ends, UTC. While the point runs, its steady clock decides.
        expires: Instant,
    },
    /// Lead: has committed to the slot, and waits until the peer books it.
    Confirming {
        /// When the lead gives up, UTC.
        expires: Instant,
    },
    /// Both ends have the slot.
    Booked,
    /// The test runs.
    Running,
    /// Ended.
    Ended(Outcome),
}

/// The state of a reservation at one point. All of it is rebuilt from events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The request.
    pub request: Request,
    /// This point's role.
    pub role: Role,
    /// The recurring test that it belongs to.
    pub task: Option<Occurrence>,
    /// Its phase.
    pub phase: Phase,
    /// Number of the latest proposal.
    pub revision: u32,
    /// The slot; after the end the last one.
    pub slot: Option<Slot>,
    /// The reason why it lost its previous slot.
    pub setback: Option<Reason>,
    /// Whether the other end has yet to be notified of the end.
    pub must_notify: bool,
    /// When it was created, UTC.
    pub created: Instant,
    /// When it ended, UTC.
    pub ended: Option<Instant>,
}

impl Reservation {
    /// Whether it occupies the calendar.
    pub fn has_slot(&self) -> bool {
        matches!(self.phase, Phase::Held { .. } | Phase::Confirming { .. } | Phase::Booked | Phase::Running)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// The point at the other end of the agreement; `None` for tests without one.
    pub fn other_end(&self) -> Option<&PointName> {
        match self.role {
            Role::Lead => self.request.spec.peer.as_ref(),
            Role::Peer | Role::Requester => Some(&self.request.lead),
        }
    }
}
