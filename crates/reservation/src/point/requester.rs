//! The third party: a point that requests a test of two others.

use units::Instant;

use super::{Point, turn::Turn};
use crate::{Body, Event, Outcome, Phase, PointName, Reason, Request, ReservationId, Role, Slot};

impl Point {
    pub(super) fn send_request(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let request = Box::new(self.state[id].request.clone());
        self.send(turn, id, Body::Request { request });
        let is_repeat = self.pending.get(id).is_some_and(|pending| pending.resend_at.is_some());
        self.set_resend(turn.now, id, is_repeat);
        turn.touched.insert(id.clone());
    }

    /// Lead: another point requests a test.
    pub(super) fn on_request(
        &mut self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: &ReservationId,
        request: Request,
    ) {
        if let Some(known) = self.state.reservation(id) {
            if known.role == Role::Lead && id.origin == *from && known.request == request {
                self.send_report(turn, id);
            }
            return;
        }
        let is_for_us = request.id == *id && id.origin == *from && request.lead == *self.name();
        if !is_for_us || *from == *self.name() {
            return;
        }
        // A refused request is not stored: otherwise other points could fill the storage with such requests.
        let possible = match self.invalid(&request) {
            Some(text) => Err(Reason::Invalid { point: self.name().clone(), text }),
            None => self.find_slot(turn, &request, Instant::ZERO),
        };
        if let Err(reason) = possible {
            let phase = Phase::Ended(Outcome::NotRun(reason));
            return turn.send(from.clone(), id, 0, Body::Report { phase, slot: None });
        }
        self.record(turn, Event::Created { request, role: Role::Lead, task: None, at: turn.now.utc });
        self.seek(turn, id);
    }

    /// Lead: reports to the requester.
    pub(super) fn send_report(&self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.state[id];
        let body = Body::Report { phase: known.phase.clone(), slot: known.slot.filter(|_| known.has_slot()) };
        self.send_to(turn, id.origin.clone(), id, body);
    }

    /// Lead: the requester cancels.
    pub(super) fn on_withdraw(
        &mut self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: &ReservationId,
        text: String,
    ) {
        if id.origin != *from {
            return;
        }
        if !self.state[id].has_ended() {
            let reason = Reason::Cancelled { point: from.clone(), text };
            self.end(turn, id, reason, true);
        }
        // The reservation of a requester has no proposals.
        turn.send(from.clone(), id, 0, Body::Cancelled);
    }

    /// Requester: the lead reports.
    pub(super) fn on_report(
        &mut self,
        turn: &mut Turn<'_>,
        id: &ReservationId,
        phase: Phase,
        slot: Option<Slot>,
    ) {
        let known = &self.state[id];
        match (&known.phase, phase) {
            (Phase::Ended(_), Phase::Ended(_)) => {
                if known.must_notify {
                    self.record(turn, Event::Notified { id: id.clone() });
                }
            }
            // The lead has not been notified of the end.
            (Phase::Ended(Outcome::NotRun(_)), _) => self.send_notice(turn, id),
            (Phase::Ended(_), _) => {}
            (_, Phase::Ended(outcome)) => {
                self.record(turn, Event::Ended { id: id.clone(), outcome, notify: false, at: turn.now.utc });
            }
            (_, phase) => {
                let next = turn.now.steady + self.settings.retry;
                let pending = self.pending.entry(id.clone()).or_default();
                pending.reported = Some((phase, slot));
                // Reports can be lost: request another one, at a low rate.
                pending.resend_at = Some(next);
                turn.touched.insert(id.clone());
            }
        }
    }
}
