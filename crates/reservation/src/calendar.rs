//! The calendar of one point: padded slots, conflicts, free time.

use std::collections::BTreeMap;

use serde::Serialize;
use units::{Instant, Time};

use crate::{Class, Request, ReservationId, Slot};

/// The state of an occupied slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Occupancy {
    /// Held for a proposal of this point, which may still choose another slot.
    OwnHold,
    /// Held for another point.
    Hold,
    /// Confirmed.
    Booked,
    /// The test runs; nothing displaces it.
    Running,
}

/// A padded slot that is occupied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupied {
    /// The reservation that occupies it.
    pub id: ReservationId,
    /// Start of the padded slot, UTC.
    pub from: Instant,
    /// End of the padded slot, UTC; not part of it.
    pub until: Instant,
    /// Its class.
    pub class: Class,
    /// Its priority.
    pub priority: i32,
    /// Its state.
    pub occupancy: Occupancy,
}

impl Occupied {
    /// The calendar entry that a request has with this slot.
    pub(crate) fn new(request: &Request, slot: Slot, occupancy: Occupancy) -> Self {
        Occupied {
            id: request.id.clone(),
            from: slot.from(),
            until: slot.until(),
            class: request.spec.class,
            priority: request.spec.priority,
            occupancy,
        }
    }

    fn overlaps(&self, from: Instant, until: Instant) -> bool {
        self.from < until && from < self.until
    }

    fn excludes(&self, other: &Occupied) -> bool {
        self.id != other.id && self.class.excludes(other.class) && self.overlaps(other.from, other.until)
    }

    /// Whether this slot excludes the candidate's.
    fn blocks(&self, candidate: &Occupied) -> bool {
        if !self.excludes(candidate) || self.yields_to(candidate) {
            return false;
        }
        self.occupancy == Occupancy::Running || self.priority >= candidate.priority
    }

    /// Deadlock guard: two leads that propose to each other would refuse each other endlessly. At equal
    /// priority the smaller id wins over a slot that its point has only proposed.
    fn yields_to(&self, candidate: &Occupied) -> bool {
        self.occupancy == Occupancy::OwnHold
            && candidate.occupancy == Occupancy::Hold
            && self.priority == candidate.priority
            && candidate.id < self.id
    }
}

/// Two tests that exclude each other have overlapping slots in one calendar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} are booked for overlapping slots")]
pub struct Overlap {
    /// The one that starts first.
    pub first: ReservationId,
    /// The other.
    pub second: ReservationId,
}

/// An occupied slot in a [`BusyReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BusySlot {
    /// The reservation.
    pub reservation: String,
    /// Start of the padded slot, UTC.
    pub from: Instant,
    /// End of the padded slot, UTC.
    pub until: Instant,
    /// Its class.
    pub class: Class,
    /// Its state.
    pub occupancy: Occupancy,
}

/// The occupancy of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BusyReport {
    /// All occupied slots in the requested time, in order of their starts.
    pub slots: Vec<BusySlot>,
    /// Time in which no exclusive test may run.
    pub not_free_for_exclusive: Time,
    /// Time in which no normal test may run.
    pub not_free_for_normal: Time,
    /// The ranges in which an exclusive test may run, from and until, UTC.
    pub free_for_exclusive: Vec<(Instant, Instant)>,
}

/// The calendar of one point.
#[derive(Debug, Clone, Default)]
pub struct Calendar {
    /// The occupied slots, by the start of the padded slot.
    slots: BTreeMap<(Instant, ReservationId), Occupied>,
    /// Length of the longest slot so far: a slot that overlaps a time begins at most this long before it.
    longest: Time,
}

/// Calendars with the same slots are equal. `longest` only bounds searches, and can be smaller after a
/// recovery.
impl PartialEq for Calendar {
    fn eq(&self, other: &Calendar) -> bool {
        self.slots == other.slots
    }
}

impl Eq for Calendar {}

impl Calendar {
    /// Adds a slot.
    pub(crate) fn insert(&mut self, slot: Occupied) {
        self.longest = self.longest.max(slot.until.saturating_since(slot.from));
        self.slots.insert((slot.from, slot.id.clone()), slot);
    }

    /// Removes the slot that starts at `from`.
    pub(crate) fn remove(&mut self, id: &ReservationId, from: Instant) {
        self.slots.remove(&(from, id.clone()));
        if self.slots.is_empty() {
            self.longest = Time::ZERO;
        }
    }

    /// All occupied slots, by their starts.
    pub fn slots(&self) -> impl Iterator<Item = &Occupied> {
        self.slots.values()
    }

    /// The slots that overlap with a range, by their starts.
    pub fn overlapping(&self, from: Instant, until: Instant) -> impl Iterator<Item = &Occupied> {
        let no_id = ReservationId { number: 0, origin: "".into() };
        let begin = from.saturating_sub(self.longest);
        self.slots
            .range((begin, no_id)..)
            .map(|(_, slot)| slot)
            .take_while(move |slot| slot.from < until)
            .filter(move |slot| slot.overlaps(from, until))
    }

    /// The conflict that excludes this slot.
    pub(crate) fn conflict(&self, candidate: &Occupied) -> Option<&Occupied> {
        self.overlapping(candidate.from, candidate.until).find(|slot| slot.blocks(candidate))
    }

    /// The slots that this one displaces if it is `Booked`, or that yield to it if it is a `Hold`. Bookings
    /// stay under holds of higher priority until those are confirmed.
    pub(crate) fn displaced(&self, winner: &Occupied) -> Vec<ReservationId> {
        let is_displaced = |slot: &&Occupied| match winner.occupancy {
            _ if !slot.excludes(winner) || slot.blocks(winner) => false,
            Occupancy::OwnHold | Occupancy::Hold => slot.occupancy < Occupancy::Booked,
            Occupancy::Booked | Occupancy::Running => true,
        };
        self.overlapping(winner.from, winner.until).filter(is_displaced).map(|slot| slot.id.clone()).collect()
    }

    /// Moves the candidate to the first start of its padded slot that is free and at most `latest`.
    ///
    /// # Errors
    /// The last conflict.
    pub(crate) fn first_fit(&self, mut candidate: Occupied, latest: Instant) -> Result<Instant, Occupied> {
        let length = candidate.until.saturating_since(candidate.from);
        loop {
            let Some(conflict) = self.conflict(&candidate) else { return Ok(candidate.from) };
            if conflict.until > latest {
                return Err(conflict.clone());
            }
            candidate.from = conflict.until;
            candidate.until = conflict.until + length;
        }
    }

    /// Checks that confirmed slots do not overlap if their classes exclude each other.
    ///
    /// # Errors
    /// The first overlap.
    pub fn verify(&self) -> Result<(), Overlap> {
        let booked = |slot: &&Occupied| slot.occupancy >= Occupancy::Booked;
        for slot in self.slots().filter(booked) {
            let later = self.slots.range((slot.from, slot.id.clone())..).map(|(_, later)| later);
            let later = later.take_while(|later| later.from < slot.until).filter(booked);
            if let Some(second) = later.into_iter().find(|later| slot.excludes(later)) {
                return Err(Overlap { first: slot.id.clone(), second: second.id.clone() });
            }
        }
        Ok(())
    }

    /// The occupancy of the point from `from` to `until`.
    pub fn busy(&self, from: Instant, until: Instant) -> BusyReport {
        let slots: Vec<&Occupied> = self.overlapping(from, until).collect();
        let blocked = |class: Class| {
            let mut ranges: Vec<(Instant, Instant)> = Vec::new();
            for slot in slots.iter().filter(|slot| slot.class.excludes(class)) {
                let (start, end) = (slot.from.max(from), slot.until.min(until));
                match ranges.last_mut() {
                    Some(last) if start <= last.1 => last.1 = last.1.max(end),
                    _ => ranges.push((start, end)),
                }
            }
            ranges
        };
        let length = |ranges: &[(Instant, Instant)]| {
            ranges.iter().fold(Time::ZERO, |sum, (start, end)| sum + end.saturating_since(*start))
        };
        let exclusive = blocked(Class::Exclusive);
        let mut free = Vec::new();
        let mut begin = from;
        for (start, end) in &exclusive {
            if begin < *start {
                free.push((begin, *start));
            }
            begin = *end;
        }
        if begin < until {
            free.push((begin, until));
        }
        BusyReport {
            slots: slots
                .iter()
                .map(|slot| BusySlot {
                    reservation: slot.id.to_string(),
                    from: slot.from,
                    until: slot.until,
                    class: slot.class,
                    occupancy: slot.occupancy,
                })
                .collect(),
            not_free_for_exclusive: length(&exclusive),
            not_free_for_normal: length(&blocked(Class::Normal)),
            free_for_exclusive: free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u64, from: u64, until: u64, class: Class, occupancy: Occupancy) -> Occupied {
        Occupied {
            id: ReservationId { number, origin: "a".into() },
            from: Instant::from_secs(from),
            until: Instant::from_secs(until),
            class,
            priority: 0,
            occupancy,
        }
    }

    fn exclusive(number: u64, from: u64, until: u64) -> Occupied {
        slot(number, from, until, Class::Exclusive, Occupancy::Booked)
    }

    fn calendar(slots: &[Occupied]) -> Calendar {
        let mut calendar = Calendar::default();
        slots.iter().for_each(|slot| calendar.insert(slot.clone()));
        calendar
    }

    #[test]
    fn first_fit_finds_the_gap_and_names_the_conflict() {
        let calendar = calendar(&[exclusive(1, 10, 20), exclusive(2, 25, 40), exclusive(3, 50, 60)]);
        let fit =
            |from, until, latest| calendar.first_fit(exclusive(9, from, until), Instant::from_secs(latest));
        assert_eq!(fit(0, 10, 100), Ok(Instant::ZERO), "slots may touch");
        assert_eq!(fit(5, 10, 100), Ok(Instant::from_secs(5)));
        assert_eq!(fit(5, 12, 100), Ok(Instant::from_secs(40)), "7 s do not fit between 20 and 25");
        assert_eq!(fit(5, 16, 100), Ok(Instant::from_secs(60)), "11 s do not fit between 40 and 50");
        assert_eq!(fit(5, 16, 59).unwrap_err().id.number, 3);
    }

    #[test]
    fn classes_decide_which_tests_overlap() {
        for (taken, wanted, fits) in [
            (Class::Exclusive, Class::Exclusive, false),
            (Class::Exclusive, Class::Normal, false),
            (Class::Exclusive, Class::Background, true),
            (Class::Normal, Class::Exclusive, false),
            (Class::Normal, Class::Normal, true),
            (Class::Normal, Class::Background, true),
            (Class::Background, Class::Exclusive, true),
        ] {
            let calendar = calendar(&[slot(1, 0, 10, taken, Occupancy::Booked)]);
            let wanted_slot = slot(2, 5, 15, wanted, Occupancy::Hold);
            assert_eq!(calendar.conflict(&wanted_slot).is_none(), fits, "{wanted} beside {taken}");
        }
    }

    #[test]
    fn bookings_are_displaced_by_a_booking_and_holds_already_by_a_hold() {
        let lower = exclusive(1, 0, 10);
        let hold = slot(2, 20, 30, Class::Exclusive, Occupancy::Hold);
        let running = slot(3, 40, 50, Class::Exclusive, Occupancy::Running);
        let calendar = calendar(&[lower.clone(), hold.clone(), running]);
        let urgent =
            |from, until, occupancy| Occupied { priority: 5, occupancy, ..exclusive(9, from, until) };
        let claim = urgent(5, 25, Occupancy::Hold);
        assert_eq!(calendar.conflict(&claim), None);
        assert_eq!(calendar.displaced(&claim), std::slice::from_ref(&hold.id));
        assert_eq!(calendar.displaced(&urgent(5, 25, Occupancy::Booked)), [lower.id, hold.id]);
        assert_eq!(calendar.conflict(&urgent(45, 46, Occupancy::Hold)).unwrap().id.number, 3);
    }

    #[test]
    fn verify_finds_an_overlap() {
        assert_eq!(calendar(&[exclusive(1, 0, 10), exclusive(2, 10, 20)]).verify(), Ok(()));
        let overlap = calendar(&[exclusive(1, 0, 10), exclusive(2, 9, 20)]).verify().unwrap_err();
        assert_eq!(overlap.to_string(), "a/1 and a/2 are booked for overlapping slots");
    }

    #[test]
    fn a_busy_report_has_shares_and_gaps() {
        let normal = slot(3, 18, 22, Class::Normal, Occupancy::Booked);
        let latency = slot(4, 0, 100, Class::Background, Occupancy::Running);
        let report = calendar(&[exclusive(1, 10, 20), exclusive(2, 25, 40), normal, latency])
            .busy(Instant::from_secs(15), Instant::from_secs(50));
        let seconds = Instant::from_secs;
        assert_eq!(report.not_free_for_exclusive, Time::from_secs(22));
        assert_eq!(report.not_free_for_normal, Time::from_secs(20));
        assert_eq!(report.free_for_exclusive, [(seconds(22), seconds(25)), (seconds(40), seconds(50))]);
        assert_eq!(report.slots.len(), 4);
    }
}
