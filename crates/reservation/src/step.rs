//! The result of a call into a point.

use crate::{Event, Message, PointName, ReservationId};

/// The result of a call. The caller must write `events` durably in one transaction, then send `messages` and
/// execute `actions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Changes of durable state.
    pub events: Vec<Event>,
    /// Messages, and the point to which each goes.
    pub messages: Vec<(PointName, Message)>,
    /// Tests to start or stop.
    pub actions: Vec<Action>,
}

/// A task of the program that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start this test, and call [`crate::Point::finish`] at its end.
    Run(ReservationId),
    /// Stop this test; its slot is over or it was cancelled.
    Stop(ReservationId),
}
