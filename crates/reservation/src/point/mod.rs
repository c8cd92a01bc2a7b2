//! The state machine of one point.
//!
//! All durable state ([`PointState`]) changes by events: [`Point::record`] applies an event and puts it into
//! the step, [`Point::recover`] applies the same events after a crash. The remaining state ([`Pending`]) is
//! timers and repetitions, which [`Point::restart`] sets up again.
//!
//! The modules `lead`, `peer` and `requester` handle the messages of the three roles, `tasks` handles
//! recurring tests, and `timers` handles timeouts. They consist of methods of [`Point`] that call each other;
//! the methods that several modules need are here.

mod lead;
mod peer;
mod pending;
mod requester;
mod tasks;
mod timers;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, Time};

use crate::{
    Action, Admission, Body, Calendar, Candidate, Event, InconsistentEvents, Message, Now, Occupied,
    Occurrence, Outcome, Phase, PointName, PointState, Reason, Request, Reservation, ReservationId, Role,
    Settings, Slot, Spec, Step,
};
use pending::{PeerFacts, Pending};
use turn::Turn;

/// Maximum length of each name and of the parameters of a test, bytes.
const MAX_REQUEST_TEXT_BYTES: usize = 1024;
/// Maximum time between the earliest and the latest start.
const MAX_WINDOW: Time = Time::from_secs(366 * 86_400);

/// One measurement point: its calendar, its reservations and its recurring tests.
#[derive(Debug, Clone)]
pub struct Point {
    state: PointState,
    settings: Settings,
    pending: BTreeMap<ReservationId, Pending>,
    /// Deadlines of reservations by the steady clock.
    due: BTreeSet<(Instant, ReservationId)>,
    /// Deadlines of reservations by UTC.
    due_utc: BTreeSet<(Instant, ReservationId)>,
    peers: BTreeMap<PointName, PeerFacts>,
}

impl Point {
    /// A point without reservations.
    pub fn new(name: PointName, settings: Settings) -> Self {
        Point::with_state(PointState::new(name), settings)
    }

    /// Rebuilds a point from all its events, in their order. Call [`Point::restart`] next.
    ///
    /// # Errors
    /// If events contradict each other: for example, if tests that exclude each other are booked for
    /// overlapping slots.
    pub fn recover<'a>(
        name: PointName,
        settings: Settings,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, InconsistentEvents> {
        Ok(Point::with_state(PointState::recover(name, events)?, settings))
    }

    fn with_state(state: PointState, settings: Settings) -> Self {
        Point {
            state,
            settings,
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            due_utc: BTreeSet::new(),
            peers: BTreeMap::new(),
        }
    }

    /// The durable state.
    pub fn state(&self) -> &PointState {
        &self.state
    }

    /// The point's name.
    pub fn name(&self) -> &PointName {
        self.state.name()
    }

    /// The point's calendar.
    pub fn calendar(&self) -> &Calendar {
        self.state.calendar()
    }

    /// A reservation.
    pub fn reservation(&self, id: &ReservationId) -> Option<&Reservation> {
        self.state.reservation(id)
    }

    /// All reservations that the point has not forgotten yet.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.state.reservations()
    }

    /// The state of a reservation in words, with the rule or the conflict that prevents or prevented it.
    /// `None` if the point does not know the reservation.
    pub fn explain(&self, id: &ReservationId) -> Option<String> {
        let reservation = self.state.reservation(id)?;
        let slot = reservation.slot.map(|slot| crate::outcome::utc_text(slot.start)).unwrap_or_default();
        let other = reservation.other_end().map_or(String::new(), |name| format!(" with {name}"));
        let state = match &reservation.phase {
            Phase::Ended(outcome) => outcome.to_string(),
            Phase::Booked => format!("booked for {slot}{other}"),
            Phase::Running => format!("running since {slot}{other}"),
            Phase::Held { .. } => format!("proposed for {slot}{other}"),
            Phase::Confirming { .. } => format!("decided for {slot}{other}, not yet confirmed"),
            Phase::Seeking => match self.pending.get(id).and_then(|pending| pending.reported.as_ref()) {
                Some((_, Some(slot))) => {
                    let start = crate::outcome::utc_text(slot.start);
                    format!("{} has a slot at {start}", reservation.request.lead)
                }
                _ if reservation.role == Role::Requester => {
                    format!("requested from {}", reservation.request.lead)
                }
                _ => format!("searching for a slot{other}"),
            },
        };
        let setback = match &reservation.setback {
            Some(reason) if !reservation.has_ended() => format!("; lost its previous slot: {reason}"),
            _ => String::new(),
        };
        Some(format!("{id}: {state}{setback}"))
    }

    /// Resumes after [`Point::recover`]: a test that was running has failed; all other work continues.
    pub fn restart(&mut self, now: Now, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        let ids: Vec<ReservationId> = self.reservations().map(|known| known.request.id.clone()).collect();
        for id in ids {
            turn.touched.insert(id.clone());
            let phase = self.state[&id].phase.clone();
            let pending = self.pending.entry(id.clone()).or_default();
            match phase {
                Phase::Running => {
                    let reason = Reason::Restarted { point: self.name().clone() };
                    self.conclude(&mut turn, &id, Outcome::Failed(reason), true);
                }
                Phase::Held { expires } | Phase::Confirming { expires } => {
                    // A clock that was stepped back does not prolong a hold.
                    let remaining = expires.saturating_since(now.utc).min(self.settings.hold);
                    pending.gives_up = Some(now.steady + remaining);
                    pending.resend_at = Some(now.steady);
                }
                Phase::Seeking | Phase::Ended(_) => pending.resend_at = Some(now.steady),
                Phase::Booked => {}
            }
        }
        self.finish_turn(turn)
    }

    /// Numbers new reservations of this point from `first` on, because the events of its earlier reservations
    /// were lost.
    pub fn begin_numbers(&mut self, now: Now, first: u64, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        self.record(&mut turn, Event::Numbered { next: first });
        self.finish_turn(turn)
    }

    /// Reserves a test that this point leads. The step contains the proposal, or the reservation's end with
    /// the reason.
    pub fn reserve(&mut self, now: Now, spec: Spec, admission: &dyn Admission) -> (ReservationId, Step) {
        let lead = self.name().clone();
        self.request(now, lead, spec, admission)
    }

    /// Requests a test from the point that leads it; the lead may be this point.
    pub fn request(
        &mut self,
        now: Now,
        lead: PointName,
        spec: Spec,
        admission: &dyn Admission,
    ) -> (ReservationId, Step) {
        let mut turn = Turn::new(now, admission);
        let id = self.create(&mut turn, lead, spec, None);
        (id, self.finish_turn(turn))
    }

    /// Cancels a reservation at this point and at the other end. A test that runs is stopped.
    pub fn cancel(&mut self, now: Now, id: &ReservationId, text: &str, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        if self.state.reservation(id).is_some_and(|reservation| !reservation.has_ended()) {
            let reason = Reason::Cancelled { point: self.name().clone(), text: text.into() };
            self.end(&mut turn, id, reason, true);
        }
        self.finish_turn(turn)
    }

    /// Handles the end of a test, which the program that ran it has reported.
    pub fn finish(
        &mut self,
        now: Now,
        id: &ReservationId,
        result: Result<(), String>,
        admission: &dyn Admission,
    ) -> Step {
        let mut turn = Turn::new(now, admission);
        if self.state.is_running(id) {
            let has_failed = result.is_err();
            let outcome = match result {
                Ok(()) => Outcome::Finished,
                Err(text) => Outcome::Failed(Reason::TestFailed { point: self.name().clone(), text }),
            };
            self.conclude(&mut turn, id, outcome, has_failed);
        }
        self.finish_turn(turn)
    }

    /// Handles a message from another point, which the caller has authenticated.
    pub fn handle_message(
        &mut self,
        now: Now,
        from: &PointName,
        message: Message,
        admission: &dyn Admission,
    ) -> Step {
        let mut turn = Turn::new(now, admission);
        turn.echo = Some((from.clone(), message.sent));
        self.dispatch(&mut turn, from, message);
        self.finish_turn(turn)
    }

    fn dispatch(&mut self, turn: &mut Turn<'_>, from: &PointName, message: Message) {
        let Message { id, revision, sent, echo, error, body } = message;
        let role = self.state.reservation(&id).map(|known| known.role);
        // New reservations.
        match body {
            Body::Request { request } => return self.on_request(turn, from, &id, *request),
            Body::Propose { request, slot, rtt } => {
                let proposal = peer::Proposal { revision, slot, rtt, sent, error };
                return self.on_propose(turn, from, &id, *request, proposal);
            }
            _ => {}
        }
        let Some(role) = role else { return self.on_unknown(turn, from, id, revision, &body) };
        turn.touched.insert(id.clone());
        let known = &self.state[&id];
        let lead = &known.request.lead;
        let is_expected = match role {
            Role::Lead => match body {
                Body::Withdraw { .. } => id.origin == *from,
                _ => known.request.spec.peer.as_ref() == Some(from),
            },
            Role::Peer | Role::Requester => lead == from,
        };
        if !is_expected {
            return;
        }
        if let (Role::Lead, Some(echo), true) = (role, echo, revision == known.revision)
            && !self.clocks_agree(turn, from, &id, echo, sent, error)
        {
            return;
        }
        let known = &self.state[&id];
        match (role, body) {
            (Role::Lead, Body::Hold { slot }) => self.on_hold(turn, &id, revision, slot, error),
            (Role::Lead, Body::Busy { reason, next }) => self.on_busy(turn, &id, revision, reason, next),
            (Role::Lead, Body::Refuse { reason }) => self.on_refuse(turn, &id, revision, reason),
            (Role::Lead, Body::Confirmed) => self.on_confirmed(turn, &id, revision),
            (Role::Lead, Body::Started) => self.on_started(turn, &id, revision),
            (Role::Lead, Body::Withdraw { text }) => self.on_withdraw(turn, from, &id, text),
            (Role::Lead, Body::Cancel { reason }) => self.on_peer_cancel(turn, from, &id, revision, reason),
            (Role::Peer, Body::Confirm) => self.on_confirm(turn, &id, revision),
            (Role::Peer, Body::Start) => self.on_start(turn, &id, revision),
            (Role::Peer, Body::Cancel { reason }) => self.on_lead_cancel(turn, &id, revision, reason),
            (Role::Requester, Body::Report { phase, slot }) => self.on_report(turn, &id, phase, slot),
            (_, Body::Cancelled) if known.must_notify && revision == known.revision => {
                self.record(turn, Event::Notified { id });
            }
            _ => {}
        }
    }

    /// Handles a message about a reservation that this point never had, or no longer has.
    fn on_unknown(
        &self,
        turn: &mut Turn<'_>,
        from: &PointName,
        id: ReservationId,
        revision: u32,
        body: &Body,
    ) {
        let reply = match body {
            Body::Cancel { .. } | Body::Withdraw { .. } => Body::Cancelled,
            Body::Confirm | Body::Start => {
                Body::Refuse { reason: Reason::Unknown { point: self.name().clone() } }
            }
            Body::Hold { .. } | Body::Confirmed | Body::Started => {
                Body::Cancel { reason: Reason::Unknown { point: self.name().clone() } }
            }
            _ => return,
        };
        turn.send(from.clone(), &id, revision, reply);
    }

    /// Creates a reservation. Then searches for a slot, or sends the request to the lead; an invalid request
    /// ends at once.
    fn create(
        &mut self,
        turn: &mut Turn<'_>,
        lead: PointName,
        spec: Spec,
        task: Option<Occurrence>,
    ) -> ReservationId {
        let id = self.state.next_id();
        let role = if lead == *self.name() { Role::Lead } else { Role::Requester };
        let request = Request { id: id.clone(), lead, spec };
        let invalid = self.invalid(&request);
        self.record(turn, Event::Created { request, role, task, at: turn.now.utc });
        match (invalid, role) {
            (Some(text), _) => {
                let reason = Reason::Invalid { point: self.name().clone(), text };
                self.end(turn, &id, reason, false);
            }
            (None, Role::Lead) => self.seek(turn, &id),
            (None, _) => self.send_request(turn, &id),
        }
        id
    }

    /// The error in a request, if it is invalid; the checks do not depend on the request's origin.
    fn invalid(&self, request: &Request) -> Option<String> {
        let spec = &request.spec;
        if spec.duration == Time::ZERO {
            return Some("its duration is zero".into());
        }
        if spec.duration > self.settings.max_duration {
            return Some(format!(
                "its duration, {}, is longer than {}",
                spec.duration, self.settings.max_duration
            ));
        }
        if spec.latest < spec.earliest {
            return Some("its latest start is before its earliest".into());
        }
        if spec.latest > spec.earliest + MAX_WINDOW {
            return Some(format!("its latest start is more than {MAX_WINDOW} after its earliest"));
        }
        let peer = spec.peer.as_ref().map(|peer| &peer.0);
        let texts = [&spec.test.kind, &spec.test.parameters].into_iter().chain(peer).chain(&spec.user);
        if texts.into_iter().any(|text| text.len() > MAX_REQUEST_TEXT_BYTES) {
            return Some(format!("one of its texts is longer than {MAX_REQUEST_TEXT_BYTES} bytes"));
        }
        if spec.peer.as_ref() == Some(&request.lead) {
            return Some("both ends are the same point".into());
        }
        None
    }

    /// Checks the point's own rules and its limits.
    fn admit(&self, turn: &Turn<'_>, request: &Request, slot: Slot, other_error: Time) -> Result<(), Reason> {
        let rule = |rule: String| Reason::Rule { point: self.name().clone(), rule };
        if slot.padding > self.settings.max_padding {
            return Err(rule(format!(
                "the padding of the slot would be {}, at most {} is allowed: a clock's error or the round-trip time is too large",
                slot.padding, self.settings.max_padding
            )));
        }
        if slot.start > turn.now.utc + self.settings.horizon {
            return Err(rule(format!("the start is more than {} in the future", self.settings.horizon)));
        }
        let origin = &request.id.origin;
        let is_new = origin != self.name() && self.state.reservation(&request.id).is_none();
        if is_new && self.state.known_count(origin) >= self.settings.max_known {
            let max = self.settings.max_known;
            return Err(rule(format!("{origin} has requested {max} tests that this point still stores")));
        }
        let candidate =
            Candidate { request, start: slot.start, now: turn.now, other_error, point: &self.state };
        turn.admission.admit(&candidate).map_err(rule)
    }

    /// Ends the reservations that `winner` displaces. For those that this point leads, it searches for
    /// another slot.
    fn displace(&mut self, turn: &mut Turn<'_>, winner: &Occupied) {
        for id in self.state.calendar().displaced(winner) {
            let loser = &self.state[&id];
            let loser_priority = loser.request.spec.priority;
            let reason = if loser_priority < winner.priority {
                Reason::Preempted {
                    point: self.name().clone(),
                    by: winner.id.clone(),
                    priority: winner.priority,
                }
            } else {
                self.conflict_with(winner)
            };
            if loser.role == Role::Lead {
                self.record(turn, Event::Released { id: id.clone(), reason });
                let pending = self.pending.entry(id).or_default();
                // The next timeout starts the search; by then the calendar has the winner's slot.
                pending.resend_at = Some(turn.now.steady);
            } else {
                self.end(turn, &id, reason, true);
            }
        }
    }

    /// Ends a reservation whose test has not started, or stops its running test.
    fn end(&mut self, turn: &mut Turn<'_>, id: &ReservationId, reason: Reason, notify: bool) {
        let is_running = self.state[id].phase == Phase::Running;
        let outcome = if is_running { Outcome::Failed(reason) } else { Outcome::NotRun(reason) };
        if is_running {
            turn.step.actions.push(Action::Stop(id.clone()));
        }
        self.conclude(turn, id, outcome, notify);
    }

    /// Records the outcome, and notifies the other point if there is one.
    fn conclude(&mut self, turn: &mut Turn<'_>, id: &ReservationId, outcome: Outcome, notify: bool) {
        let known = &self.state[id];
        let has_other = match known.role {
            Role::Requester => true,
            _ => known.revision > 0 && known.request.spec.peer.is_some(),
        };
        let notify = notify && has_other;
        self.record(turn, Event::Ended { id: id.clone(), outcome, notify, at: turn.now.utc });
        if notify {
            self.send_notice(turn, id);
        }
    }

    fn conflict_with(&self, occupied: &Occupied) -> Reason {
        Reason::Conflict {
            point: self.name().clone(),
            with: occupied.id.clone(),
            class: occupied.class,
            from: occupied.from,
            until: occupied.until,
        }
    }

    fn send(&self, turn: &mut Turn<'_>, id: &ReservationId, body: Body) {
        let known = &self.state[id];
        let Some(to) = known.other_end().cloned() else { return };
        self.send_to(turn, to, id, body);
    }

    fn send_to(&self, turn: &mut Turn<'_>, to: PointName, id: &ReservationId, body: Body) {
        turn.send(to, id, self.state[id].revision, body);
    }

    /// Notifies the other point that the reservation has ended.
    fn send_notice(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.state[id];
        let Phase::Ended(outcome) = &known.phase else { return };
        let reason = outcome.reason().cloned().unwrap_or(Reason::Unknown { point: self.name().clone() });
        let body = match known.role {
            Role::Requester => Body::Withdraw { text: reason.to_string() },
            _ => Body::Cancel { reason },
        };
        self.send(turn, id, body);
        self.set_resend(turn.now, id, false);
    }

    /// Applies an event and puts it into the step.
    fn record(&mut self, turn: &mut Turn<'_>, event: Event) {
        let event = event.shortened();
        if let Some(id) = event.reservation() {
            turn.touched.insert(id.clone());
        }
        let is_known = self.state.apply(&event);
        debug_assert!(is_known, "{event:?}");
        turn.step.events.push(event);
    }

    /// Sets the timers of the reservations that the turn touched, and reports their changes to requesters.
    fn finish_turn(&mut self, turn: Turn<'_>) -> Step {
        let mut turn = turn;
        for id in std::mem::take(&mut turn.touched) {
            self.set_timers(&id);
            let Some(known) = self.state.reservation(&id) else { continue };
            let has_changed = turn.step.events.iter().any(|event| {
                event.reservation() == Some(&id)
                    && matches!(
                        event,
                        Event::Booked { .. }
                            | Event::Running { .. }
                            | Event::Released { .. }
                            | Event::Ended { .. }
                    )
            });
            if known.role == Role::Lead && id.origin != *self.name() && has_changed {
                self.send_report(&mut turn, &id);
            }
        }
        turn.step
    }
}
