//! The events that a point writes to durable storage.

use serde::{Deserialize, Serialize};
use units::Instant;

use crate::{Occurrence, Outcome, Reason, Request, Reservation, ReservationId, Role, Slot, Task, TaskName};

/// A change of a point's durable state. The events of one [`crate::Step`] are written in one transaction,
/// before its messages are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A reservation was created by a request at this point or at another.
    Created {
        /// The request.
        request: Request,
        /// This point's role.
        role: Role,
        /// The recurring test that it belongs to.
        task: Option<Occurrence>,
        /// Time of the event, UTC.
        at: Instant,
    },
    /// The reservation holds a slot for a limited time.
    Held {
        /// The reservation.
        id: ReservationId,
        /// Number of the proposal.
        revision: u32,
        /// The slot.
        slot: Slot,
        /// When the hold ends, UTC.
        expires: Instant,
    },
    /// The lead has decided for the slot that the peer holds.
    Confirming {
        /// The reservation.
        id: ReservationId,
        /// The slot, with the padding of both ends.
        slot: Slot,
        /// When the lead gives up, UTC.
        expires: Instant,
    },
    /// Both ends have the slot.
    Booked {
        /// The reservation.
        id: ReservationId,
    },
    /// The lead lost or gave up the slot and seeks another.
    Released {
        /// The reservation.
        id: ReservationId,
        /// The reason.
        reason: Reason,
    },
    /// The test was started.
    Running {
        /// The reservation.
        id: ReservationId,
    },
    /// The reservation has ended.
    Ended {
        /// The reservation.
        id: ReservationId,
        /// The outcome.
        outcome: Outcome,
        /// Whether the other end has to be notified.
        notify: bool,
        /// Time of the event, UTC.
        at: Instant,
    },
    /// The other end has been notified of the end, or need no longer be notified.
    Notified {
        /// The reservation.
        id: ReservationId,
    },
    /// The reservation is removed from memory.
    Forgotten {
        /// The reservation.
        id: ReservationId,
    },
    /// Part of a snapshot: the number of this point's next reservation.
    Numbered {
        /// The number.
        next: u64,
    },
    /// Part of a snapshot: a reservation.
    Restored {
        /// The reservation.
        reservation: Box<Reservation>,
    },
    /// A recurring test was added or replaced.
    TaskSet {
        /// The test.
        task: Box<Task>,
        /// Number of its next occurrence.
        next: u64,
    },
    /// An occurrence was not run, because it was already past.
    OccurrencesPassed {
        /// The recurring test.
        name: TaskName,
        /// Number of the next occurrence.
        next: u64,
    },
    /// A recurring test was removed.
    TaskRemoved {
        /// Its name.
        name: TaskName,
    },
}

impl Event {
    /// The event with shorter texts of other points and programs.
    pub(crate) fn shortened(self) -> Event {
        match self {
            Event::Released { id, reason } => Event::Released { id, reason: reason.shortened() },
            Event::Ended { id, outcome, notify, at } => {
                let outcome = match outcome {
                    Outcome::Finished => Outcome::Finished,
                    Outcome::NotRun(reason) => Outcome::NotRun(reason.shortened()),
                    Outcome::Failed(reason) => Outcome::Failed(reason.shortened()),
                };
                Event::Ended { id, outcome, notify, at }
            }
            other => other,
        }
    }

    /// The reservation that it changes.
    pub fn reservation(&self) -> Option<&ReservationId> {
        match self {
            Event::Created { request, .. } => Some(&request.id),
            Event::Restored { reservation } => Some(&reservation.request.id),
            Event::Held { id, .. }
            | Event::Confirming { id, .. }
            | Event::Booked { id }
            | Event::Released { id, .. }
            | Event::Running { id }
            | Event::Ended { id, .. }
            | Event::Notified { id }
            | Event::Forgotten { id } => Some(id),
            Event::Numbered { .. }
            | Event::TaskSet { .. }
            | Event::OccurrencesPassed { .. }
            | Event::TaskRemoved { .. } => None,
        }
    }
}
