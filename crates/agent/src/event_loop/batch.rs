//! The outcome of the events that are handled together.

use reservation::{Action, Event, Message, PointName, ReservationId, Step};
use tokio::sync::oneshot;

use crate::{control::Reply, frame::Frame};

/// The outcome of a batch.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    pub(super) messages: Vec<(PointName, Message)>,
    pub(super) actions: Vec<Action>,
    pub(super) frames: Vec<(PointName, Frame)>,
    pub(super) replies: Vec<(oneshot::Sender<Reply>, Reply)>,
    /// Replies to points that join the mesh.
    pub(super) joined: Vec<(oneshot::Sender<Frame>, Frame)>,
    /// Requests whose reply is the state of a reservation after the batch.
    pub(super) explanations: Vec<(oneshot::Sender<Reply>, ReservationId)>,
    /// Whether the result of a test was stored in the archive.
    pub(super) has_result: bool,
    /// Whether points have announced changes, which are published once for the whole batch.
    pub(super) has_announcements: bool,
}

impl Batch {
    /// Adds a step of the point.
    pub fn add(&mut self, step: Step) {
        self.events.extend(step.events);
        self.messages.extend(step.messages);
        self.actions.extend(step.actions);
    }
}
