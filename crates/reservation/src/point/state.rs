//! Durable state: events are applied, and a point is rebuilt from them.

use super::{InconsistentEvents, Point, Turn};
use crate::{
    Admission, Event, Now, Occupancy, Outcome, Phase, PointName, Reason, Reservation, ReservationId, Role,
    Settings, Step,
};

impl Point {
    /// Rebuilds a point from all its events, in their order. Call [`Point::restart`] next.
    ///
    /// # Errors
    /// Events that contradict each other; no two tests that exclude each other are accepted for overlapping slots.
    pub fn recover<'a>(
        name: PointName,
        settings: Settings,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, InconsistentEvents> {
        let mut point = Point::new(name, settings);
        for (number, event) in events.into_iter().enumerate() {
            if let (false, Some(id)) = (point.apply(event), event.reservation()) {
                return Err(InconsistentEvents::UnknownReservation { number, id: id.clone() });
            }
        }
        point.calendar.verify()?;
        Ok(point)
    }

    /// The durable state as the shortest list of events that [`Point::recover`] rebuilds it from; it may replace all earlier events.
    pub fn snapshot(&self) -> Vec<Event> {
        let tasks = self
            .tasks
            .values()
            .map(|(task, next)| Event::TaskSet { task: Box::new(task.clone()), next: *next });
        let reservations = self.reservations.values();
        let reservations = reservations.map(|known| Event::Restored { reservation: Box::new(known.clone()) });
        std::iter::once(Event::Numbered { next: self.next_number }).chain(tasks).chain(reservations).collect()
    }

    /// Resumes after [`Point::recover`]: a test that ran has failed, all other work continues.
    pub fn restart(&mut self, now: Now, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        let ids: Vec<ReservationId> = self.reservations.keys().cloned().collect();
        for id in ids {
            turn.touched.insert(id.clone());
            let phase = self.reservations[&id].phase.clone();
            let pending = self.pending.entry(id.clone()).or_default();
            match phase {
                Phase::Running => {
                    let reason = Reason::Restarted { point: self.name.clone() };
                    self.conclude(&mut turn, &id, Outcome::Failed(reason), true);
                }
                Phase::Held { expires } | Phase::Confirming { expires } => {
                    // A clock that was stepped back does not prolong a hold.
                    let remaining = expires.saturating_sub(now.utc).min(self.settings.hold);
                    pending.gives_up = Some(now.steady + remaining);
                    pending.resend_at = Some(now.steady);
                }
                Phase::Seeking | Phase::Ended(_) => pending.resend_at = Some(now.steady),
                Phase::Booked => {}
            }
        }
        self.finish_turn(turn)
    }

    /// Whether the durable state is the same.
    pub fn has_state_of(&self, other: &Point) -> bool {
        self.reservations == other.reservations
            && self.calendar.slots().eq(other.calendar.slots())
            && self.running == other.running
            && self.open == other.open
            && self.next_number == other.next_number
            && self.tasks == other.tasks
    }

    /// Changes the durable state. Returns `false` if the event is for a reservation that does not exist.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::Created { request, role, task, at } => {
                if request.id.origin == self.name {
                    self.next_number = self.next_number.max(request.id.number.saturating_add(1));
                }
                if let Some(occurrence) = task
                    && let Some((_, next)) = self.tasks.get_mut(&occurrence.task)
                {
                    *next = (*next).max(occurrence.number.saturating_add(1));
                }
                let reservation = Reservation {
                    request: request.clone(),
                    role: *role,
                    task: task.clone(),
                    phase: Phase::Seeking,
                    revision: 0,
                    slot: None,
                    setback: None,
                    must_notify: false,
                    created: *at,
                    ended: None,
                };
                self.leave_calendar(&request.id);
                self.forget_open(&request.id);
                self.reservations.insert(request.id.clone(), reservation);
                self.count_open(&request.id);
                true
            }
            Event::Numbered { next } => {
                self.next_number = self.next_number.max(*next);
                true
            }
            Event::Restored { reservation } => {
                let id = &reservation.request.id;
                self.leave_calendar(id);
                self.forget_open(id);
                self.reservations.insert(id.clone(), (**reservation).clone());
                self.count_open(id);
                // Enters the calendar.
                self.change(id, |_| {})
            }
            Event::Held { id, revision, slot, expires } => self.change(id, |known| {
                known.revision = *revision;
                known.slot = Some(*slot);
                known.phase = Phase::Held { expires: *expires };
                known.must_notify = false;
                known.ended = None;
            }),
            Event::Confirming { id, slot, expires } => self.change(id, |known| {
                known.slot = Some(*slot);
                known.phase = Phase::Confirming { expires: *expires };
            }),
            Event::Booked { id } => self.change(id, |known| {
                known.phase = Phase::Booked;
                known.ended = None;
            }),
            Event::Released { id, reason } => self.change(id, |known| {
                known.phase = Phase::Seeking;
                // The reason why a slot was lost explains more than the search for the next one.
                let is_displaced = matches!(known.setback, Some(Reason::Preempted { .. }));
                if !(is_displaced && matches!(reason, Reason::Conflict { .. })) {
                    known.setback = Some(reason.clone());
                }
            }),
            Event::Running { id } => self.change(id, |known| known.phase = Phase::Running),
            Event::Ended { id, outcome, notify, at } => self.change(id, |known| {
                known.phase = Phase::Ended(outcome.clone());
                known.must_notify = *notify;
                known.ended = Some(*at);
            }),
            Event::Notified { id } => self.change(id, |known| known.must_notify = false),
            Event::Forgotten { id } => {
                self.leave_calendar(id);
                self.forget_open(id);
                self.running.remove(id);
                self.reservations.remove(id).is_some()
            }
            Event::TaskSet { task, next } => {
                self.tasks.insert(task.name.clone(), ((**task).clone(), *next));
                true
            }
            Event::OccurrencesPassed { name, next } => {
                if let Some((_, number)) = self.tasks.get_mut(name) {
                    *number = *next;
                }
                true
            }
            Event::TaskRemoved { name } => {
                self.tasks.remove(name);
                true
            }
        }
    }

    /// Changes a reservation, and its calendar entry with it.
    fn change(&mut self, id: &ReservationId, change: impl FnOnce(&mut Reservation)) -> bool {
        if !self.reservations.contains_key(id) {
            return false;
        }
        self.leave_calendar(id);
        self.forget_open(id);
        let Some(known) = self.reservations.get_mut(id) else { return false };
        change(known);
        let occupancy = match (&known.phase, known.role) {
            (Phase::Held { .. }, Role::Lead) => Some(Occupancy::OwnHold),
            (Phase::Held { .. }, _) => Some(Occupancy::Hold),
            (Phase::Confirming { .. } | Phase::Booked, _) => Some(Occupancy::Booked),
            (Phase::Running, _) => Some(Occupancy::Running),
            _ => None,
        };
        if known.phase == Phase::Running {
            self.running.insert(id.clone());
        } else {
            self.running.remove(id);
        }
        if let (Some(occupancy), Some(slot)) = (occupancy, known.slot) {
            self.calendar.insert(Point::occupied(&known.request, slot, occupancy));
        }
        self.count_open(id);
        true
    }

    /// The user who has a reservation open.
    fn open_user(&self, id: &ReservationId) -> Option<(PointName, Option<String>)> {
        let known = self.reservations.get(id).filter(|known| !known.has_ended())?;
        Some((id.origin.clone(), known.request.spec.user.clone()))
    }

    fn count_open(&mut self, id: &ReservationId) {
        if let Some(user) = self.open_user(id) {
            *self.open.entry(user).or_default() += 1;
        }
    }

    fn forget_open(&mut self, id: &ReservationId) {
        let Some(user) = self.open_user(id) else { return };
        if let Some(count) = self.open.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&user);
            }
        }
    }

    fn leave_calendar(&mut self, id: &ReservationId) {
        if let Some(known) = self.reservations.get(id)
            && let (true, Some(slot)) = (known.has_slot(), known.slot)
        {
            self.calendar.remove(id, slot.from());
        }
    }
}
