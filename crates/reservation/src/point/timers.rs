//! Timeouts: one in the steady clock and one in UTC for each reservation.

use units::{Instant, Time};

use super::{Point, turn::Turn};
use crate::{Admission, Body, Event, Now, Phase, Reason, Reservation, ReservationId, Role, Step};

/// Minimum time to a retransmission, which includes the time of programs and disks.
const MIN_RESEND: Time = Time::from_millis(250);

/// The first instant after another.
fn after(instant: Instant) -> Instant {
    instant + Time::from_nanos(1)
}

impl Point {
    /// When to call [`Point::handle_timeout`], by the steady clock. It changes with each call into the point,
    /// and when UTC is stepped.
    pub fn next_timeout(&self, now: Now) -> Option<Instant> {
        let steady = self.due.first().map(|(due, _)| *due);
        let utc = self.due_utc.first().map(|(due, _)| *due);
        let utc = utc.into_iter().chain(self.next_occurrence()).min().map(|due| now.steady_at(due));
        steady.into_iter().chain(utc).min()
    }

    /// Handles all timeouts that are due.
    pub fn handle_timeout(&mut self, now: Now, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        let steady = self.due.iter().take_while(|(due, _)| *due <= now.steady);
        let utc = self.due_utc.iter().take_while(|(due, _)| *due <= now.utc);
        let ids: Vec<ReservationId> = steady.chain(utc).map(|(_, id)| id.clone()).collect();
        for id in ids {
            turn.touched.insert(id.clone());
            self.on_due(&mut turn, &id);
        }
        self.reserve_occurrences(&mut turn);
        self.finish_turn(turn)
    }

    fn on_due(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let Some(known) = self.state.reservation(id) else { return };
        let now = turn.now;
        let pending = self.pending.entry(id.clone()).or_default();
        let must_resend = pending.resend_at.is_some_and(|at| at <= now.steady);
        let gives_up = pending.gives_up.is_some_and(|at| at <= now.steady);
        let (is_starting, repeats) = (pending.is_starting, pending.repeats);
        let start = known.slot.map_or(Instant::NEVER, |slot| slot.start);
        let latest_start = known.slot.map_or(Instant::NEVER, |slot| slot.start + slot.padding);
        let spec = &known.request.spec;
        match (&known.phase, known.role) {
            (Phase::Seeking, Role::Requester) => {
                if now.utc > self.reply_due(id) {
                    let reason = Reason::Unreachable { point: known.request.lead.clone() };
                    self.end(turn, id, reason, false);
                } else if must_resend {
                    self.send_request(turn, id);
                }
            }
            (Phase::Seeking, _) => {
                if must_resend || now.utc > spec.latest {
                    self.seek(turn, id);
                }
            }
            (Phase::Held { .. }, Role::Peer) => {
                if gives_up {
                    let reason = Reason::HoldExpired { point: self.name().clone() };
                    self.end(turn, id, reason, false);
                }
            }
            (Phase::Held { .. }, _) => {
                if gives_up {
                    self.release_and_pause(turn, id);
                } else if must_resend {
                    self.send_proposal(turn, id);
                    self.set_resend(now, id, true);
                }
            }
            (Phase::Confirming { .. }, _) => {
                if gives_up || now.utc >= start {
                    self.release_and_pause(turn, id);
                } else if must_resend {
                    self.send(turn, id, Body::Confirm);
                    self.set_resend(now, id, true);
                }
            }
            (Phase::Booked, role) => {
                if now.utc > latest_start {
                    let point = self.name().clone();
                    let reason = match (role, known.other_end()) {
                        (Role::Peer, Some(lead)) => Reason::NotStarted { point: lead.clone() },
                        (_, Some(peer)) if is_starting => Reason::NotStarted { point: peer.clone() },
                        _ => Reason::SlotPassed { point },
                    };
                    self.end(turn, id, reason, role == Role::Lead);
                } else if role == Role::Lead && now.utc >= start && (must_resend || !is_starting) {
                    self.start(turn, id);
                }
            }
            (Phase::Running, _) => {
                if gives_up {
                    let text = "it did not end in its slot".into();
                    let reason = Reason::TestFailed { point: self.name().clone(), text };
                    self.end(turn, id, reason, false);
                }
            }
            (Phase::Ended(_), _) => {
                if now.utc >= self.forget_at(id) {
                    self.record(turn, Event::Forgotten { id: id.clone() });
                } else if known.must_notify && now.utc > self.notice_until(id) {
                    self.record(turn, Event::Notified { id: id.clone() });
                } else if known.must_notify && must_resend {
                    self.send_notice(turn, id);
                    self.pending.entry(id.clone()).or_default().repeats = repeats;
                    self.set_resend(now, id, true);
                }
            }
        }
    }

    /// Sets the time of the next repetition: two measured round trips, doubled with each.
    pub(super) fn set_resend(&mut self, now: Now, id: &ReservationId, is_repeat: bool) {
        let settings = &self.settings;
        let facts = self.state.reservation(id).and_then(Reservation::other_end);
        let facts = facts.and_then(|other| self.peers.get(other));
        let first = facts.map_or(settings.resend, |facts| {
            (facts.rtt * 2).clamp(MIN_RESEND.min(settings.resend), settings.resend)
        });
        let pending = self.pending.entry(id.clone()).or_default();
        pending.repeats = if is_repeat { pending.repeats.saturating_add(1) } else { 0 };
        let wait = first * (1 << pending.repeats.min(16));
        pending.resend_at = Some(now.steady + wait.min(settings.max_resend));
    }

    /// When a requester stops waiting for the lead, UTC.
    fn reply_due(&self, id: &ReservationId) -> Instant {
        let spec = &self.state[id].request.spec;
        spec.latest + spec.duration + self.settings.max_padding * 2
    }

    /// When the other end's slot is over, UTC.
    fn notice_until(&self, id: &ReservationId) -> Instant {
        let known = &self.state[id];
        match known.slot {
            Some(slot) if known.role != Role::Requester => slot.until(),
            _ => self.reply_due(id),
        }
    }

    /// When a reservation that has ended is forgotten, UTC.
    fn forget_at(&self, id: &ReservationId) -> Instant {
        let known = &self.state[id];
        let ended = known.ended.unwrap_or(Instant::ZERO);
        // The latest start is the requester's choice.
        let noticed = self.notice_until(id).min(ended + self.settings.horizon);
        ended.max(noticed) + self.settings.retention
    }

    /// When something is due for a reservation: by the steady clock, and by UTC.
    fn deadlines(&self, id: &ReservationId) -> (Option<Instant>, Option<Instant>) {
        let (Some(known), Some(pending)) = (self.state.reservation(id), self.pending.get(id)) else {
            return (None, None);
        };
        let start = known.slot.map(|slot| slot.start);
        let latest_start = known.slot.map(|slot| after(slot.start + slot.padding));
        let repeats = || pending.resend_at.into_iter().chain(pending.gives_up).min();
        match (&known.phase, known.role) {
            (Phase::Seeking, Role::Requester) => (pending.resend_at, Some(after(self.reply_due(id)))),
            (Phase::Seeking, _) => (pending.resend_at, Some(after(known.request.spec.latest))),
            (Phase::Held { .. }, Role::Peer) => (pending.gives_up, None),
            (Phase::Held { .. }, _) => (repeats(), None),
            (Phase::Confirming { .. }, _) => (repeats(), start),
            (Phase::Booked, Role::Lead) if pending.is_starting => (pending.resend_at, latest_start),
            (Phase::Booked, Role::Lead) => (None, start),
            (Phase::Booked, _) => (None, latest_start),
            (Phase::Running, _) => (pending.gives_up, None),
            (Phase::Ended(_), _) if known.must_notify => {
                (pending.resend_at, Some(after(self.notice_until(id)).min(self.forget_at(id))))
            }
            (Phase::Ended(_), _) => (None, Some(self.forget_at(id))),
        }
    }

    /// Puts a reservation's deadlines into the queues.
    pub(super) fn set_timers(&mut self, id: &ReservationId) {
        let (due, due_utc) = if self.state.reservation(id).is_some() {
            self.pending.entry(id.clone()).or_default();
            self.deadlines(id)
        } else {
            (None, None)
        };
        let Some(pending) = self.pending.get_mut(id) else { return };
        if let Some(old) = std::mem::replace(&mut pending.due, due) {
            self.due.remove(&(old, id.clone()));
        }
        if let Some(old) = std::mem::replace(&mut pending.due_utc, due_utc) {
            self.due_utc.remove(&(old, id.clone()));
        }
        if let Some(due) = due {
            self.due.insert((due, id.clone()));
        }
        if let Some(due) = due_utc {
            self.due_utc.insert((due, id.clone()));
        }
        if self.state.reservation(id).is_none() {
            self.pending.remove(id);
        }
    }
}
