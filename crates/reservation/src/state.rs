//! The durable state of a point: its reservations, its calendar and its recurring tests. It changes by events
//! only.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Index,
};

use crate::{
    Calendar, Event, Occupancy, Occupied, Phase, PointName, Reason, Reservation, ReservationId, Role, Task,
    TaskName,
};

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

/// The durable state of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointState {
    name: PointName,
    reservations: BTreeMap<ReservationId, Reservation>,
    /// Number of reservations that have not ended, by the requesting point and its user.
    open: BTreeMap<(PointName, Option<String>), u64>,
    /// Number of all reservations, by the requesting point.
    known: BTreeMap<PointName, u64>,
    calendar: Calendar,
    running: BTreeSet<ReservationId>,
    next_number: u64,
    /// Recurring tests, each with the number of its next occurrence.
    tasks: BTreeMap<TaskName, (Task, u64)>,
}

impl PointState {
    /// A point without reservations.
    pub(crate) fn new(name: PointName) -> Self {
        PointState {
            name,
            reservations: BTreeMap::new(),
            open: BTreeMap::new(),
            known: BTreeMap::new(),
            calendar: Calendar::default(),
            running: BTreeSet::new(),
            next_number: 1,
            tasks: BTreeMap::new(),
        }
    }

    /// Rebuilds the state of a point from all its events, in their order.
    ///
    /// # Errors
    /// Events that contradict each other; no two tests that exclude each other are accepted for overlapping
    /// slots.
    pub(crate) fn recover<'a>(
        name: PointName,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, InconsistentEvents> {
        let mut state = PointState::new(name);
        for (number, event) in events.into_iter().enumerate() {
            if let (false, Some(id)) = (state.apply(event), event.reservation()) {
                return Err(InconsistentEvents::UnknownReservation { number, id: id.clone() });
            }
        }
        state.calendar.verify()?;
        Ok(state)
    }

    /// The name of the point.
    pub fn name(&self) -> &PointName {
        &self.name
    }

    /// The point's calendar.
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// A reservation.
    pub fn reservation(&self, id: &ReservationId) -> Option<&Reservation> {
        self.reservations.get(id)
    }

    /// All reservations that are remembered, in the order of their ids.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    /// Number of reservations that have not ended, for each user of each point
    /// ([`Request::answerable`](crate::Request::answerable)).
    pub fn open(&self) -> impl Iterator<Item = (&PointName, Option<&str>, u64)> {
        self.open.iter().map(|((point, user), count)| (point, user.as_deref(), *count))
    }

    /// Number of reservations that a point has requested and that are remembered.
    pub(crate) fn known_count(&self, origin: &PointName) -> u64 {
        self.known.get(origin).copied().unwrap_or(0)
    }

    /// Number of reservations that have not ended.
    pub fn open_count(&self) -> u64 {
        self.open.values().sum()
    }

    /// The recurring tests, each with the number of its next occurrence.
    pub fn tasks(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.tasks.values().map(|(task, next)| (task, *next))
    }

    /// A recurring test, with the number of its next occurrence.
    pub(crate) fn task(&self, name: &TaskName) -> Option<(&Task, u64)> {
        self.tasks.get(name).map(|(task, next)| (task, *next))
    }

    /// The id of this point's next reservation.
    pub(crate) fn next_id(&self) -> ReservationId {
        ReservationId { number: self.next_number, origin: self.name.clone() }
    }

    /// Whether the test of this reservation runs at this point.
    pub(crate) fn is_running(&self, id: &ReservationId) -> bool {
        self.running.contains(id)
    }

    /// A test that runs now and excludes this one. The calendar does not show it after a clock step.
    pub(crate) fn running_conflict(&self, id: &ReservationId) -> Option<ReservationId> {
        let class = self[id].request.spec.class;
        let excludes =
            |other: &&ReservationId| *other != id && self[*other].request.spec.class.excludes(class);
        self.running.iter().find(excludes).cloned()
    }

    /// The durable state as the shortest list of events that [`crate::Point::recover`] rebuilds it from; it
    /// may replace all earlier events.
    pub fn snapshot(&self) -> Vec<Event> {
        let tasks = self
            .tasks
            .values()
            .map(|(task, next)| Event::TaskSet { task: Box::new(task.clone()), next: *next });
        let reservations = self.reservations.values();
        let reservations = reservations.map(|known| Event::Restored { reservation: Box::new(known.clone()) });
        std::iter::once(Event::Numbered { next: self.next_number }).chain(tasks).chain(reservations).collect()
    }

    /// Changes the durable state. Returns `false` if the event is for a reservation that does not exist.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::Created { request, role, task, at } => {
                if request.id.origin == self.name && *role != Role::Peer {
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
                self.insert(reservation);
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
                self.insert((**reservation).clone());
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
                let is_known = self.reservations.remove(id).is_some();
                if let Some(count) = self.known.get_mut(&id.origin).filter(|_| is_known) {
                    *count -= 1;
                    if *count == 0 {
                        self.known.remove(&id.origin);
                    }
                }
                is_known
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

    fn insert(&mut self, reservation: Reservation) {
        let origin = reservation.request.id.origin.clone();
        if self.reservations.insert(reservation.request.id.clone(), reservation).is_none() {
            *self.known.entry(origin).or_default() += 1;
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
            self.calendar.insert(Occupied::new(&known.request, slot, occupancy));
        }
        self.count_open(id);
        true
    }

    /// The user who has a reservation open.
    fn open_user(&self, id: &ReservationId) -> Option<(PointName, Option<String>)> {
        let known = self.reservations.get(id).filter(|known| !known.has_ended())?;
        let (point, user) = known.request.answerable(&self.name);
        Some((point.clone(), user))
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

impl Index<&ReservationId> for PointState {
    type Output = Reservation;

    fn index(&self, id: &ReservationId) -> &Reservation {
        &self.reservations[id]
    }
}
