//! One call into a point: its time, and the step that it makes.

use std::collections::BTreeSet;

use units::Instant;

use crate::{Admission, Body, Message, Now, PointName, ReservationId, Step};

/// One call into the point.
pub(super) struct Turn<'a> {
    pub now: Now,
    pub admission: &'a dyn Admission,
    pub step: Step,
    /// `sent` of the message that is handled, and its sender.
    pub echo: Option<(PointName, Instant)>,
    /// Reservations whose timers must be set again.
    pub touched: BTreeSet<ReservationId>,
}

impl<'a> Turn<'a> {
    /// A call at this time.
    pub fn new(now: Now, admission: &'a dyn Admission) -> Self {
        Turn { now, admission, step: Step::default(), echo: None, touched: BTreeSet::new() }
    }

    /// Adds a message to the step.
    pub fn send(&mut self, to: PointName, id: &ReservationId, revision: u32, body: Body) {
        let Now { utc: sent, error, .. } = self.now;
        let echo = self.echo.as_ref().filter(|(from, _)| *from == to).map(|(_, sent)| *sent);
        self.step.messages.push((to, Message { id: id.clone(), revision, sent, echo, error, body }));
    }
}
