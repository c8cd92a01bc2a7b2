//! The peer of a reservation: holds slots, books, starts when the lead does.

use units::{Instant, Time};

use super::{Point, turn::Turn};
use crate::{
    Action, Body, Event, Now, Occupancy, Occupied, Outcome, Phase, PointName, Reason, Request, Reservation,
    ReservationId, Role, Slot,
};

/// A proposal of a lead.
pub(super) struct Proposal {
    pub revision: u32,
    pub slot: Slot,
    pub rtt: Time,
    /// The lead's UTC, and its error.
    pub sent: Instant,
    pub error: Time,
}

impl Point {
    /// A lead proposes a slot: hold it, name the next free one, or refuse.
    pub(super) fn on_propose(
        &mut self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: &ReservationId,
        request: Request,
        proposal: Proposal,
    ) {
        let is_for_us = request.id == *id
            && request.lead == *from
            && request.spec.peer.as_ref() == Some(self.name())
            && proposal.slot.duration == request.spec.duration;
        let invalid = |text: String| Reason::Invalid { point: self.name().clone(), text };
        if !is_for_us {
            let reason =
                invalid("the points or the duration of the proposal differ from those of the request".into());
            return turn.send(from.clone(), id, proposal.revision, Body::Refuse { reason });
        }
        if let Some(text) = self.invalid(&request) {
            let reason = invalid(text);
            return turn.send(from.clone(), id, proposal.revision, Body::Refuse { reason });
        }
        if id.origin == *self.name() && self.state.reservation(id).is_none() {
            // Only this point gives its reservations numbers.
            let reason = Reason::Unknown { point: self.name().clone() };
            return turn.send(from.clone(), id, proposal.revision, Body::Refuse { reason });
        }
        if let Some(known) = self.state.reservation(id) {
            if known.role == Role::Lead || known.request != request {
                let reason = invalid("a reservation with this id exists, with another test".into());
                return turn.send(from.clone(), id, proposal.revision, Body::Refuse { reason });
            }
            if known.role == Role::Requester {
                // This point requested a test with itself, and has cancelled since.
                if let Phase::Ended(Outcome::NotRun(reason)) = &known.phase {
                    let reason = reason.clone();
                    return turn.send(from.clone(), id, proposal.revision, Body::Refuse { reason });
                }
            } else if proposal.revision < known.revision {
                return;
            } else if proposal.revision == known.revision {
                return self.repeat_reply(turn, id);
            }
            if known.phase == Phase::Running {
                // The lead lost its slot after it had sent `Start`.
                turn.step.actions.push(Action::Stop(id.clone()));
            }
        }
        let body = self.reply_to_proposal(turn, &request, &proposal);
        turn.send(from.clone(), id, proposal.revision, body);
    }

    /// Repeats the reply to the latest proposal.
    fn repeat_reply(&self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.state[id];
        let body = match (&known.phase, known.slot) {
            (Phase::Ended(Outcome::NotRun(reason) | Outcome::Failed(reason)), _) => {
                Body::Refuse { reason: reason.clone() }
            }
            (Phase::Ended(Outcome::Finished), _) | (_, None) => return,
            (_, Some(slot)) => Body::Hold { slot },
        };
        self.send(turn, id, body);
    }

    /// Decides on a new proposal.
    fn reply_to_proposal(&mut self, turn: &mut Turn<'_>, request: &Request, proposal: &Proposal) -> Body {
        let Now { utc, error: own_error, .. } = turn.now;
        let Proposal { revision, slot, rtt, sent, error } = *proposal;
        let id = &request.id;
        let role = self.state.reservation(id).map(|known| known.role);
        let is_known = self.state.reservation(id).is_some_and(Reservation::has_slot);
        // Arrival before departure: a message takes at least no time.
        let (ahead, allowed) = (sent.saturating_since(utc), error + own_error);
        if ahead > allowed {
            let reason = Reason::ClocksDisagree { point: self.name().clone(), difference: ahead, allowed };
            return self.refuse(turn, id, is_known, reason);
        }
        let needed = self.settings.base_padding + own_error + error + rtt * 2;
        let slot = Slot { padding: slot.padding.max(needed), ..slot };
        if slot.start <= utc || slot.start < request.spec.earliest || slot.start > request.spec.latest {
            let reason = if slot.start <= utc {
                Reason::SlotPassed { point: self.name().clone() }
            } else {
                let text = "the slot is not in the requested time".into();
                Reason::Invalid { point: self.name().clone(), text }
            };
            return self.refuse(turn, id, is_known, reason);
        }
        if let Err(reason) = self.admit(turn, request, slot, error) {
            return self.refuse(turn, id, is_known, reason);
        }
        let candidate = Occupied::new(request, slot, Occupancy::Hold);
        if let Some(conflict) = self.state.calendar().conflict(&candidate) {
            let reason = self.conflict_with(conflict);
            let latest = request.spec.latest.saturating_sub(slot.padding);
            let next =
                self.state.calendar().first_fit(candidate, latest).ok().map(|from| from + slot.padding);
            if is_known {
                // The lead has given the previous slot up.
                self.end(turn, id, reason.clone(), false);
            }
            return Body::Busy { reason, next };
        }
        self.displace(turn, &candidate);
        if role != Some(Role::Peer) {
            let request = request.clone();
            self.record(turn, Event::Created { request, role: Role::Peer, task: None, at: utc });
        }
        let expires = utc + self.settings.hold;
        self.record(turn, Event::Held { id: id.clone(), revision, slot, expires });
        let gives_up = turn.now.steady + self.settings.hold;
        let pending = self.pending.entry(id.clone()).or_default();
        pending.gives_up = Some(gives_up);
        pending.resend_at = None;
        Body::Hold { slot }
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, id: &ReservationId, is_known: bool, reason: Reason) -> Body {
        if is_known {
            self.end(turn, id, reason.clone(), false);
        }
        Body::Refuse { reason }
    }

    /// The lead has decided: book the held slot.
    pub(super) fn on_confirm(&mut self, turn: &mut Turn<'_>, id: &ReservationId, revision: u32) {
        let known = &self.state[id];
        if revision != known.revision {
            return;
        }
        let Some(slot) = known.slot else { return };
        match &known.phase {
            Phase::Booked | Phase::Running => return self.send(turn, id, Body::Confirmed),
            Phase::Held { .. } => {}
            // The slot may still be free.
            Phase::Ended(Outcome::NotRun(Reason::HoldExpired { .. })) if slot.start > turn.now.utc => {}
            Phase::Ended(outcome) => {
                let reason = outcome.reason().cloned();
                let reason = reason.unwrap_or(Reason::Unknown { point: self.name().clone() });
                return self.send(turn, id, Body::Refuse { reason });
            }
            Phase::Seeking | Phase::Confirming { .. } => return,
        }
        let booked = Occupied::new(&known.request, slot, Occupancy::Booked);
        if let Some(conflict) = self.state.calendar().conflict(&booked) {
            let reason = self.conflict_with(conflict);
            if self.state[id].has_slot() {
                self.end(turn, id, reason.clone(), false);
            }
            return self.send(turn, id, Body::Refuse { reason });
        }
        self.displace(turn, &booked);
        self.record(turn, Event::Booked { id: id.clone() });
        let pending = self.pending.entry(id.clone()).or_default();
        (pending.gives_up, pending.resend_at) = (None, None);
        self.send(turn, id, Body::Confirmed);
    }

    /// The lead starts the test.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_>, id: &ReservationId, revision: u32) {
        let known = &self.state[id];
        if revision != known.revision {
            return;
        }
        let Some(slot) = known.slot else { return };
        let difference = turn.now.utc.abs_diff(slot.start);
        match &known.phase {
            Phase::Running => return self.send(turn, id, Body::Started),
            Phase::Booked => {}
            Phase::Ended(outcome) => {
                let reason = outcome.reason().cloned();
                let reason = reason.unwrap_or(Reason::Unknown { point: self.name().clone() });
                return self.send(turn, id, Body::Refuse { reason });
            }
            _ => return,
        }
        let obstacle = if difference > slot.padding {
            Some(Reason::ClocksDisagree { point: self.name().clone(), difference, allowed: slot.padding })
        } else {
            let running = self.state.running_conflict(id);
            running.map(|test| Reason::StillRunning { point: self.name().clone(), test })
        };
        match obstacle {
            Some(reason) => {
                self.end(turn, id, reason.clone(), false);
                self.send(turn, id, Body::Refuse { reason });
            }
            None => {
                self.run(turn, id);
                self.send(turn, id, Body::Started);
            }
        }
    }

    /// The lead has ended the reservation.
    pub(super) fn on_lead_cancel(
        &mut self,
        turn: &mut Turn<'_>,
        id: &ReservationId,
        revision: u32,
        reason: Reason,
    ) {
        let known = &self.state[id];
        if revision < known.revision {
            return;
        }
        let lead = known.request.lead.clone();
        if known.has_slot() {
            self.end(turn, id, reason, false);
        }
        turn.send(lead, id, revision, Body::Cancelled);
    }
}
