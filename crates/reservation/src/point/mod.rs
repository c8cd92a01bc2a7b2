//! The state machine of one point.
//!
//! All durable state changes by events: [`Point::record`] applies an event and puts it into the step, [`Point::recover`] applies the same
//! events after a crash. The remainder ([`Pending`]) is timers and repetitions, which [`Point::restart`] sets again.

mod lead;
mod peer;
mod requester;
mod state;
mod tasks;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use crate::{
    Admission, Body, BusyReport, Calendar, Candidate, Event, Message, Now, Occupancy, Occupied, Outcome,
    Phase, PointName, Reason, Request, Reservation, ReservationId, Role, Settings, Slot, Spec, Task,
    TaskName,
};

/// The result of a call. The caller must write `events` durably in one transaction, then send `messages` and execute `actions`.
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
    /// Start this test, and call [`Point::finish`] at its end.
    Run(ReservationId),
    /// Stop this test; its slot is over or it was cancelled.
    Stop(ReservationId),
}

/// Events that contradict each other: the storage was damaged, or written by something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InconsistentEvents {
    /// An event for a reservation that no earlier event created.
    #[error("event {number} changes {id}, which no earlier event created")]
    UnknownReservation {
        /// Position of the event, from 0.
        number: usize,
        /// The reservation.
        id: ReservationId,
    },
    /// Two tests that exclude each other have overlapping slots.
    #[error("the calendar is damaged: {0}")]
    Overlap(#[from] crate::Overlap),
}

/// A point's measurements of another.
#[derive(Debug, Clone, Copy)]
struct PeerFacts {
    /// Round-trip time of a proposal and its reply: the larger of the latest and a decaying maximum.
    rtt: Time,
    /// Error of its clock.
    error: Time,
}

/// State of a reservation that is not durable: timers, repetitions.
#[derive(Debug, Clone, Default)]
struct Pending {
    /// The key of this reservation in `Point::due`.
    due: Option<Time>,
    /// The key of this reservation in `Point::due_utc`.
    due_utc: Option<Time>,
    /// When to repeat the last message, or to seek again; steady clock.
    resend_at: Option<Time>,
    /// How often the message was repeated.
    repeats: u32,
    /// When a hold, a confirmation or a run ends; steady clock.
    gives_up: Option<Time>,
    /// When the latest proposal and its repetitions were sent: UTC and steady clock.
    sent: Vec<(Time, Time)>,
    /// Proposals since the last pause.
    rounds: u32,
    /// Earliest start that the peer may accept.
    not_before: Time,
    /// Whether `Start` was sent to the peer.
    is_starting: bool,
    /// Requester: what the lead has reported.
    reported: Option<(Phase, Option<Slot>)>,
}

/// One call into the point.
struct Turn<'a> {
    now: Now,
    admission: &'a dyn Admission,
    step: Step,
    /// `sent` of the message that is handled, and its sender.
    echo: Option<(PointName, Time)>,
    /// Reservations whose timers must be set again.
    touched: BTreeSet<ReservationId>,
}

/// One measurement point: its calendar, its reservations and its recurring tests.
#[derive(Debug, Clone)]
pub struct Point {
    name: PointName,
    settings: Settings,
    reservations: BTreeMap<ReservationId, Reservation>,
    /// Number of those that have not ended, by the requesting point and its user.
    open: BTreeMap<(PointName, Option<String>), u64>,
    calendar: Calendar,
    running: BTreeSet<ReservationId>,
    next_number: u64,
    tasks: BTreeMap<TaskName, (Task, u64)>,
    pending: BTreeMap<ReservationId, Pending>,
    due: BTreeSet<(Time, ReservationId)>,
    due_utc: BTreeSet<(Time, ReservationId)>,
    peers: BTreeMap<PointName, PeerFacts>,
}

impl Point {
    /// A point without reservations.
    pub fn new(name: PointName, settings: Settings) -> Self {
        Point {
            name,
            settings,
            reservations: BTreeMap::new(),
            open: BTreeMap::new(),
            calendar: Calendar::default(),
            running: BTreeSet::new(),
            next_number: 1,
            tasks: BTreeMap::new(),
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            due_utc: BTreeSet::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &PointName {
        &self.name
    }

    /// Its calendar.
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// A reservation.
    pub fn reservation(&self, id: &ReservationId) -> Option<&Reservation> {
        self.reservations.get(id)
    }

    /// All reservations that are remembered.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    /// Number of reservations that have not ended, for each user of each requesting point.
    pub fn open(&self) -> impl Iterator<Item = (&PointName, Option<&str>, u64)> {
        self.open.iter().map(|((origin, user), count)| (origin, user.as_deref(), *count))
    }

    /// Number of reservations that have not ended.
    pub fn open_count(&self) -> u64 {
        self.open.values().sum()
    }

    /// The recurring tests, each with the number of its next occurrence.
    pub fn tasks(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.tasks.values().map(|(task, next)| (task, *next))
    }

    /// Its occupancy in a time.
    pub fn busy(&self, from: Time, until: Time) -> BusyReport {
        self.calendar.busy(from, until)
    }

    /// The state of a reservation in words, with the rule or the conflict that prevents or prevented it. `None` if it is not known.
    pub fn explain(&self, id: &ReservationId) -> Option<String> {
        let reservation = self.reservations.get(id)?;
        let slot = reservation.slot.map(|slot| crate::outcome::utc_text(slot.start)).unwrap_or_default();
        let other = self.other_end(reservation).map_or(String::new(), |name| format!(" with {name}"));
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

    /// Reserves a test that this point leads. The step has the proposal, or the end with its reason.
    pub fn reserve(&mut self, now: Now, spec: Spec, admission: &dyn Admission) -> (ReservationId, Step) {
        let lead = self.name.clone();
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
        if self.reservations.get(id).is_some_and(|reservation| !reservation.has_ended()) {
            let reason = Reason::Cancelled { point: self.name.clone(), text: text.into() };
            self.end(&mut turn, id, reason, true);
        }
        self.finish_turn(turn)
    }

    /// The program that ran a test reports its end.
    pub fn finish(
        &mut self,
        now: Now,
        id: &ReservationId,
        result: Result<(), String>,
        admission: &dyn Admission,
    ) -> Step {
        let mut turn = Turn::new(now, admission);
        if self.running.contains(id) {
            let has_failed = result.is_err();
            let outcome = match result {
                Ok(()) => Outcome::Finished,
                Err(text) => Outcome::Failed(Reason::TestFailed { point: self.name.clone(), text }),
            };
            self.conclude(&mut turn, id, outcome, has_failed);
        }
        self.finish_turn(turn)
    }

    /// A message from another point, which the caller has authenticated.
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
        let role = self.reservations.get(&id).map(|known| known.role);
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
        let known = &self.reservations[&id];
        let lead = &known.request.lead;
        let is_expected = match role {
            Role::Lead => known.request.spec.peer.as_ref() == Some(from) || id.origin == *from,
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
        let known = &self.reservations[&id];
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

    /// A message about a reservation that this point does not have, or not any more.
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
                Body::Refuse { reason: Reason::Unknown { point: self.name.clone() } }
            }
            Body::Hold { .. } | Body::Confirmed | Body::Started => {
                Body::Cancel { reason: Reason::Unknown { point: self.name.clone() } }
            }
            _ => return,
        };
        turn.send(from.clone(), &id, revision, reply);
    }

    /// Creates a reservation and takes its first step.
    fn create(
        &mut self,
        turn: &mut Turn<'_>,
        lead: PointName,
        spec: Spec,
        task: Option<crate::Occurrence>,
    ) -> ReservationId {
        let id = ReservationId { number: self.next_number, origin: self.name.clone() };
        let role = if lead == self.name { Role::Lead } else { Role::Requester };
        let request = Request { id: id.clone(), lead, spec };
        let invalid = self.invalid(&request);
        self.record(turn, Event::Created { request, role, task, at: turn.now.utc });
        match (invalid, role) {
            (Some(text), _) => {
                let reason = Reason::Invalid { point: self.name.clone(), text };
                self.end(turn, &id, reason, false);
            }
            (None, Role::Lead) => self.seek(turn, &id),
            (None, _) => self.send_request(turn, &id),
        }
        id
    }

    /// The mistake in a request, independent of its origin.
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
        if spec.peer.as_ref() == Some(&request.lead) {
            return Some("both ends are the same point".into());
        }
        None
    }

    /// Checks the point's own rules and its limits.
    fn admit(&self, turn: &Turn<'_>, request: &Request, slot: Slot, other_error: Time) -> Result<(), Reason> {
        let rule = |rule: String| Reason::Rule { point: self.name.clone(), rule };
        if slot.padding > self.settings.max_padding {
            return Err(rule(format!(
                "the padding of the slot would be {}, at most {} is allowed: a clock's error or the round-trip time is too large",
                slot.padding, self.settings.max_padding
            )));
        }
        if slot.start > turn.now.utc + self.settings.horizon {
            return Err(rule(format!("the start is more than {} in the future", self.settings.horizon)));
        }
        let candidate = Candidate { request, start: slot.start, now: turn.now, other_error, point: self };
        turn.admission.admit(&candidate).map_err(rule)
    }

    /// Ends reservations that `winner` displaces; those that this point leads seek another slot.
    fn displace(&mut self, turn: &mut Turn<'_>, winner: &Occupied) {
        for id in self.calendar.displaced(winner) {
            let loser = &self.reservations[&id];
            let loser_priority = loser.request.spec.priority;
            let reason = if loser_priority < winner.priority {
                Reason::Preempted {
                    point: self.name.clone(),
                    by: winner.id.clone(),
                    priority: winner.priority,
                }
            } else {
                self.conflict_with(winner)
            };
            if loser.role == Role::Lead {
                self.record(turn, Event::Released { id: id.clone(), reason });
                let pending = self.pending.entry(id).or_default();
                // The next timeout seeks, when the winner's slot is taken.
                pending.resend_at = Some(turn.now.steady);
            } else {
                self.end(turn, &id, reason, true);
            }
        }
    }

    /// Ends a reservation that was not run, or whose run is aborted.
    fn end(&mut self, turn: &mut Turn<'_>, id: &ReservationId, reason: Reason, notify: bool) {
        let is_running = self.reservations[id].phase == Phase::Running;
        let outcome = if is_running { Outcome::Failed(reason) } else { Outcome::NotRun(reason) };
        if is_running {
            turn.step.actions.push(Action::Stop(id.clone()));
        }
        self.conclude(turn, id, outcome, notify);
    }

    /// Records the end, and notifies the other end if there is one.
    fn conclude(&mut self, turn: &mut Turn<'_>, id: &ReservationId, outcome: Outcome, notify: bool) {
        let known = &self.reservations[id];
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
            point: self.name.clone(),
            with: occupied.id.clone(),
            class: occupied.class,
            from: occupied.from,
            until: occupied.until,
        }
    }

    /// The calendar entry that a reservation would have.
    fn occupied(request: &Request, slot: Slot, occupancy: Occupancy) -> Occupied {
        Occupied {
            id: request.id.clone(),
            from: slot.from(),
            until: slot.until(),
            class: request.spec.class,
            priority: request.spec.priority,
            occupancy,
        }
    }

    /// A test that runs now and excludes this one. The calendar does not show it after a clock step.
    fn running_conflict(&self, id: &ReservationId) -> Option<ReservationId> {
        let class = self.reservations[id].request.spec.class;
        let excludes = |other: &&ReservationId| {
            *other != id && self.reservations[*other].request.spec.class.excludes(class)
        };
        self.running.iter().find(excludes).cloned()
    }

    /// The point at the other end of the agreement.
    fn other_end<'a>(&self, reservation: &'a Reservation) -> Option<&'a PointName> {
        match reservation.role {
            Role::Lead => reservation.request.spec.peer.as_ref(),
            Role::Peer | Role::Requester => Some(&reservation.request.lead),
        }
    }

    fn send(&self, turn: &mut Turn<'_>, id: &ReservationId, body: Body) {
        let known = &self.reservations[id];
        let Some(to) = self.other_end(known).cloned() else { return };
        self.send_to(turn, to, id, body);
    }

    fn send_to(&self, turn: &mut Turn<'_>, to: PointName, id: &ReservationId, body: Body) {
        turn.send(to, id, self.reservations[id].revision, body);
    }

    /// The notice of an end.
    fn send_notice(&mut self, turn: &mut Turn<'_>, id: &ReservationId) {
        let known = &self.reservations[id];
        let Phase::Ended(outcome) = &known.phase else { return };
        let reason = outcome.reason().cloned().unwrap_or(Reason::Unknown { point: self.name.clone() });
        let body = match known.role {
            Role::Requester => Body::Withdraw { text: reason.to_string() },
            _ => Body::Cancel { reason },
        };
        self.send(turn, id, body);
        self.set_resend(turn.now, id, false);
    }

    /// Applies an event and puts it into the step.
    fn record(&mut self, turn: &mut Turn<'_>, event: Event) {
        if let Some(id) = event.reservation() {
            turn.touched.insert(id.clone());
        }
        let is_known = self.apply(&event);
        debug_assert!(is_known, "{event:?}");
        turn.step.events.push(event);
    }

    /// Sets timers again, and reports to requesters.
    fn finish_turn(&mut self, turn: Turn<'_>) -> Step {
        let mut turn = turn;
        for id in std::mem::take(&mut turn.touched) {
            self.set_timers(&id);
            let Some(known) = self.reservations.get(&id) else { continue };
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
            if known.role == Role::Lead && id.origin != self.name && has_changed {
                self.send_report(&mut turn, &id);
            }
        }
        turn.step
    }
}

impl<'a> Turn<'a> {
    fn new(now: Now, admission: &'a dyn Admission) -> Self {
        Turn { now, admission, step: Step::default(), echo: None, touched: BTreeSet::new() }
    }

    fn send(&mut self, to: PointName, id: &ReservationId, revision: u32, body: Body) {
        let Now { utc: sent, error, .. } = self.now;
        let echo = self.echo.as_ref().filter(|(from, _)| *from == to).map(|(_, sent)| *sent);
        self.step.messages.push((to, Message { id: id.clone(), revision, sent, echo, error, body }));
    }
}
