//! The lead of a reservation: proposes slots, confirms, starts.

use units::{Instant, Time};

use super::{Point, pending::PeerFacts, turn::Turn};
use crate::{
    Action, Body, Event, Occupancy, Occupied, Phase, PointName, Reason, Request, ReservationId, Slot,
};

impl Point {
    /// Proposes the first slot that is free here, or ends the reservation.
    pub(super) fn seek(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.state[id];
        let (request, revision) = (known.request.clone(), known.revision + 1);
        let spec = &request.spec;
        let setback = known.setback.clone();
        turn.touched.insert(id.clone());
        let retry = self.settings.retry;
        let pending = self.pending.entry(id.clone()).or_default();
        pending.is_starting = false;
        pending.rounds += 1;
        if pending.rounds > self.settings.max_rounds {
            pending.rounds = 0;
            pending.resend_at = Some(turn.now.steady + retry);
            return;
        }
        let not_before = pending.not_before;
        let slot = match self.find_slot(turn, &request, not_before) {
            Ok(slot) => slot,
            Err(reason) => {
                let is_too_late = matches!(reason, Reason::TooLate { .. });
                let reason = setback.filter(|_| is_too_late).unwrap_or(reason);
                return self.end(turn, id, reason, true);
            }
        };
        self.displace(turn, &Occupied::new(&request, slot, Occupancy::OwnHold));
        let expires = turn.now.utc + self.settings.hold;
        self.record(turn, Event::Held { id: id.clone(), revision, slot, expires });
        if spec.peer.is_none() {
            self.displace(turn, &Occupied::new(&request, slot, Occupancy::Booked));
            self.record(turn, Event::Booked { id: id.clone() });
            return;
        }
        let gives_up = turn.now.steady + self.settings.hold;
        self.pending.entry(id.clone()).or_default().sent.clear();
        self.send_proposal(turn, id);
        self.set_resend(turn.now, id, false);
        self.pending.entry(id.clone()).or_default().gives_up = Some(gives_up);
    }

    /// The first slot that is free here and that the rules allow.
    pub(super) fn find_slot(
        &mut self,
        turn: &Turn<'_>,
        request: &Request,
        not_before: Instant,
    ) -> Result<Slot, Reason> {
        let spec = &request.spec;
        let padding = self.padding_to_propose(turn, spec.peer.as_ref());
        let start = spec.earliest.max(not_before).max(turn.now.utc + padding);
        if start > spec.latest {
            return Err(Reason::TooLate { latest: spec.latest });
        }
        let slot = Slot { start, duration: spec.duration, padding };
        let candidate = Occupied::new(request, slot, Occupancy::OwnHold);
        let latest = spec.latest.saturating_sub(padding);
        let from = self.state.calendar().first_fit(candidate, latest);
        let from = from.map_err(|conflict| self.conflict_with(&conflict))?;
        // A slot at the beginning of time has less padding before it.
        let slot = Slot { start: (from + padding).max(slot.start), ..slot };
        self.admit(turn, request, slot, self.other_error(spec.peer.as_ref()))?;
        Ok(slot)
    }

    pub(super) fn send_proposal(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.state[id];
        let (Some(slot), Some(peer)) = (known.slot, known.request.spec.peer.as_ref()) else { return };
        let rtt = self.peers.get(peer).map_or(self.settings.default_rtt, |facts| facts.rtt);
        let request = Box::new(known.request.clone());
        self.send(turn, id, Body::Propose { request, slot, rtt });
        self.pending.entry(id.clone()).or_default().sent.push((turn.now.utc, turn.now.steady));
    }

    /// Updates round-trip time and clock error from a reply to a proposal, and ends the reservation if the
    /// clocks disagree: the peer's time must be that of the middle of the round trip, give or take half of it
    /// and both errors (NTP's bound, RFC 5905 section 8).
    pub(super) fn clocks_agree(
        &mut self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: &ReservationId,
        echo: Instant,
        sent: Instant,
        error: Time,
    ) -> bool {
        let proposals = self.pending.get(id).map_or(&[][..], |pending| &pending.sent);
        let Some(&(sent_utc, sent_steady)) = proposals.iter().find(|(utc, _)| *utc == echo) else {
            return true;
        };
        let rtt = turn.now.steady.saturating_since(sent_steady);
        let old = self.peers.get(from).map_or(Time::ZERO, |facts| facts.rtt);
        self.peers.insert(from.clone(), PeerFacts { rtt: rtt.max(old * 7 / 8), error });
        let difference = sent.abs_diff(sent_utc + rtt / 2);
        let allowed = rtt / 2 + error + turn.now.error;
        if difference > allowed && self.state[id].has_slot() {
            let reason = Reason::ClocksDisagree { point: self.name().clone(), difference, allowed };
            self.end(turn, id, reason, true);
            return false;
        }
        true
    }

    /// Padding of a slot with a peer, by the measurements of it.
    fn padding(&self, turn: &Turn<'_>, peer: Option<&PointName>) -> Time {
        let Some(peer) = peer else { return self.settings.base_padding + turn.now.error };
        let rtt = self.peers.get(peer).map_or(self.settings.default_rtt, |facts| facts.rtt);
        self.settings.base_padding + turn.now.error + self.other_error(Some(peer)) + rtt * 2
    }

    /// As [`Point::padding`]. Measurements that alone exceed the largest padding (one slow reply, a clock
    /// that was wrong) are forgotten: only the reply to a proposal replaces them, and the peer checks its
    /// clock's error itself.
    fn padding_to_propose(&mut self, turn: &Turn<'_>, peer: Option<&PointName>) -> Time {
        let padding = self.padding(turn, peer);
        match peer {
            Some(peer) if padding > self.settings.max_padding && self.peers.remove(peer).is_some() => {
                self.padding(turn, Some(peer))
            }
            _ => padding,
        }
    }

    fn other_error(&self, peer: Option<&PointName>) -> Time {
        peer.and_then(|peer| self.peers.get(peer)).map_or(Time::ZERO, |facts| facts.error)
    }

    /// Gives the slot up and proposes another one at once.
    fn release_and_seek(&mut self, turn: &mut Turn<'_>, id: &ReservationId, reason: Reason) {
        self.record(turn, Event::Released { id: id.clone(), reason });
        self.seek(turn, id);
    }

    /// Gives the slot up because the peer does not reply, and proposes again later.
    pub(super) fn release_and_pause(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let Some(point) = self.state[id].request.spec.peer.clone() else { return };
        self.record(turn, Event::Released { id: id.clone(), reason: Reason::Unreachable { point } });
        let retry = turn.now.steady + self.settings.retry;
        let pending = self.pending.entry(id.clone()).or_default();
        pending.resend_at = Some(retry);
        pending.rounds = 0;
        pending.not_before = Instant::ZERO;
        // A reply that arrives later is not a measurement of the round trip.
        pending.sent.clear();
    }

    /// The peer holds the slot: confirm it, if it is still this point's latest proposal.
    pub(super) fn on_hold(
        &mut self,
        turn: &mut Turn<'_>,
        id: &ReservationId,
        revision: u32,
        theirs: Slot,
        error: Time,
    ) {
        let known = &self.state[id];
        if known.has_ended() && revision == known.revision {
            // The peer holds a slot that is no longer needed.
            return self.send_notice(turn, id);
        }
        let (Phase::Held { .. }, Some(ours), true) = (&known.phase, known.slot, revision == known.revision)
        else {
            return;
        };
        let request = known.request.clone();
        let slot = Slot { padding: ours.padding.max(theirs.padding), ..ours };
        let has_passed = slot.start <= turn.now.utc;
        let booked = Occupied::new(&request, slot, Occupancy::Booked);
        let conflict = self.state.calendar().conflict(&booked).map(|conflict| self.conflict_with(conflict));
        // The first exchange may have shown that the round trip is longer than assumed.
        let needed = self.padding(turn, request.spec.peer.as_ref());
        let padded = Slot { padding: slot.padding.max(needed), ..slot };
        if let Err(reason) = self.admit(turn, &request, padded, error) {
            return self.end(turn, id, reason, true);
        }
        if needed > slot.padding + self.settings.base_padding / 2 {
            return self.seek(turn, id);
        }
        match conflict {
            Some(reason) => return self.release_and_seek(turn, id, reason),
            None if has_passed => {
                let reason = Reason::SlotPassed { point: self.name().clone() };
                return self.release_and_seek(turn, id, reason);
            }
            None => {}
        }
        self.displace(turn, &booked);
        let expires = turn.now.utc + self.settings.hold;
        self.record(turn, Event::Confirming { id: id.clone(), slot, expires });
        self.send(turn, id, Body::Confirm);
        self.set_resend(turn.now, id, false);
        let gives_up = turn.now.steady + self.settings.hold;
        let pending = self.pending.entry(id.clone()).or_default();
        (pending.gives_up, pending.rounds) = (Some(gives_up), 0);
    }

    /// The peer's calendar is full at the proposed time.
    pub(super) fn on_busy(
        &mut self,
        turn: &mut Turn<'_>,
        id: &ReservationId,
        revision: u32,
        reason: Reason,
        next: Option<Instant>,
    ) {
        let known = &self.state[id];
        let (Phase::Held { .. }, true) = (&known.phase, revision == known.revision) else { return };
        let proposed = known.slot.map_or(Instant::ZERO, |slot| slot.start);
        match next {
            // Only a later start is progress.
            Some(next) if next > proposed => {
                self.pending.entry(id.clone()).or_default().not_before = next;
                self.release_and_seek(turn, id, reason);
            }
            _ => self.end(turn, id, reason, false),
        }
    }

    /// The peer refuses.
    pub(super) fn on_refuse(
        &mut self,
        turn: &mut Turn<'_>,
        id: &ReservationId,
        revision: u32,
        reason: Reason,
    ) {
        let known = &self.state[id];
        if revision != known.revision || !known.has_slot() || known.phase == Phase::Running {
            return;
        }
        if reason.permits_retry() {
            self.release_and_seek(turn, id, reason);
        } else {
            self.end(turn, id, reason, true);
        }
    }

    /// The peer has booked the slot.
    pub(super) fn on_confirmed(&mut self, turn: &mut Turn<'_>, id: &ReservationId, revision: u32) {
        let known = &self.state[id];
        if revision != known.revision {
            return;
        }
        match known.phase {
            Phase::Confirming { .. } => {
                self.record(turn, Event::Booked { id: id.clone() });
                let pending = self.pending.entry(id.clone()).or_default();
                (pending.resend_at, pending.gives_up, pending.repeats) = (None, None, 0);
            }
            Phase::Ended(_) => self.send_notice(turn, id),
            _ => {}
        }
    }

    /// The slot begins: request the peer's start, or start alone.
    pub(super) fn start(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        if let Some(test) = self.state.running_conflict(id) {
            let reason = Reason::StillRunning { point: self.name().clone(), test };
            return self.end(turn, id, reason, true);
        }
        if self.state[id].request.spec.peer.is_none() {
            return self.run(turn, id);
        }
        let is_repeat = std::mem::replace(&mut self.pending.entry(id.clone()).or_default().is_starting, true);
        self.send(turn, id, Body::Start);
        self.set_resend(turn.now, id, is_repeat);
    }

    /// The peer has started.
    pub(super) fn on_started(&mut self, turn: &mut Turn<'_>, id: &ReservationId, revision: u32) {
        let known = &self.state[id];
        if revision != known.revision {
            return;
        }
        let is_in_time = known.slot.is_some_and(|slot| turn.now.utc <= slot.start + slot.padding);
        match known.phase {
            Phase::Ended(_) if known.must_notify => self.send_notice(turn, id),
            Phase::Booked if is_in_time => match self.state.running_conflict(id) {
                Some(test) => {
                    let reason = Reason::StillRunning { point: self.name().clone(), test };
                    self.end(turn, id, reason, true);
                }
                None => self.run(turn, id),
            },
            _ => {}
        }
    }

    /// Starts the test at this point.
    pub(super) fn run(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let slot = self.state[id].slot;
        let length = slot.map_or(Time::ZERO, |slot| slot.duration + slot.padding);
        self.record(turn, Event::Running { id: id.clone() });
        let pending = self.pending.entry(id.clone()).or_default();
        pending.resend_at = None;
        pending.gives_up = Some(turn.now.steady + length);
        turn.step.actions.push(Action::Run(id.clone()));
    }

    /// The peer has ended the reservation.
    pub(super) fn on_peer_cancel(
        &mut self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: &ReservationId,
        revision: u32,
        reason: Reason,
    ) {
        let known = &self.state[id];
        if known.request.spec.peer.as_ref() != Some(from) || revision != known.revision {
            return;
        }
        self.send(turn, id, Body::Cancelled);
        let known = &self.state[id];
        if !known.has_slot() {
            return;
        }
        if known.phase != Phase::Running && reason.permits_retry() {
            self.release_and_seek(turn, id, reason);
        } else {
            self.end(turn, id, reason, false);
        }
    }
}
