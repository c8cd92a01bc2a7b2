//! Recurring tests.

use datagrams::Draws;
use serde::{Deserialize, Serialize};
use units::{Instant, Time};

use crate::{PointName, Spec, TaskName};

/// The times at which a test recurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrence {
    /// Nominal start of the first occurrence, UTC.
    pub first: Instant,
    /// Time between nominal starts.
    pub every: Time,
    /// Maximum time from the nominal start of an occurrence to its start.
    pub slip: Time,
    /// Whether the earliest start is drawn at random from the time span `slip`, so that points do not all
    /// measure at the full hour.
    pub random_start: bool,
    /// Latest nominal start of an occurrence, UTC.
    pub until: Option<Instant>,
    /// Maximum number of occurrences.
    pub max_runs: Option<u64>,
}

impl Recurrence {
    /// Nominal start of an occurrence, if there is one of this number.
    pub fn nominal(&self, number: u64) -> Option<Instant> {
        if self.max_runs.is_some_and(|max| number >= max) || (number > 0 && self.every == Time::ZERO) {
            return None;
        }
        let nominal = self.every.checked_mul(number).and_then(|offset| self.first.checked_add(offset))?;
        self.until.is_none_or(|until| nominal <= until).then_some(nominal)
    }

    /// The first occurrence, from number `next` on, whose latest start is not before `utc`.
    pub fn next_possible(&self, next: u64, utc: Instant) -> u64 {
        let latest = self.first + self.slip;
        if utc <= latest || self.every == Time::ZERO {
            return next;
        }
        next.max((utc.since(latest).as_nanos()).div_ceil(self.every.as_nanos()))
    }

    /// The earliest and latest start of an occurrence with this nominal start.
    pub(crate) fn window(
        &self,
        nominal: Instant,
        number: u64,
        name: &TaskName,
        seed: u64,
    ) -> (Instant, Instant) {
        if !self.random_start {
            return (nominal, nominal + self.slip);
        }
        // FNV-1a of the name, so that the tasks of one point draw different starts.
        let hash = name.0.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut draws = Draws::new(seed ^ hash ^ number.rotate_left(32), number as u32);
        (nominal + Time::from_nanos(draws.below(self.slip.as_nanos().saturating_add(1))), nominal + self.slip)
    }
}

/// A recurring test. `earliest` and `latest` of its [`Spec`] are not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name at this point.
    pub name: TaskName,
    /// The point that leads; if it is another point, the request is sent to it.
    pub lead: PointName,
    /// The reservation to request each time.
    pub spec: Spec,
    /// When the test recurs.
    pub recurrence: Recurrence,
}

/// An occurrence of a recurring test, for which a reservation is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The recurring test.
    pub task: TaskName,
    /// Number of the occurrence, from 0.
    pub number: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hourly() -> Recurrence {
        Recurrence {
            first: Instant::from_secs(1_000_000),
            every: Time::from_secs(3600),
            slip: Time::from_secs(600),
            random_start: false,
            until: Some(Instant::from_secs(1_000_000 + 5 * 3600)),
            max_runs: None,
        }
    }

    #[test]
    fn occurrences_are_skipped_after_their_latest_start() {
        let hourly = hourly();
        let at = |offset: u64| hourly.next_possible(0, Instant::from_secs(1_000_000 + offset));
        assert_eq!((at(0), at(600), at(601), at(4200), at(4201)), (0, 0, 1, 1, 2));
        assert_eq!(hourly.next_possible(4, Instant::ZERO), 4, "a clock stepped back repeats no occurrence");
    }

    #[test]
    fn a_recurrence_ends_at_a_time_or_after_a_number_of_runs() {
        assert_eq!(hourly().nominal(5), Some(Instant::from_secs(1_000_000 + 5 * 3600)));
        assert_eq!(hourly().nominal(6), None);
        assert_eq!(Recurrence { max_runs: Some(2), ..hourly() }.nominal(2), None);
        let once = Recurrence { every: Time::ZERO, ..hourly() };
        assert_eq!((once.nominal(0), once.nominal(1)), (Some(once.first), None));
        assert_eq!(once.next_possible(0, Instant::from_secs(2_000_000)), 0);
    }

    #[test]
    fn random_starts_fill_the_slip_and_repeat_with_the_seed() {
        let random = Recurrence { random_start: true, ..hourly() };
        let start = |seed, number| random.window(Instant::ZERO, number, &"mesh".into(), seed).0;
        let starts: Vec<Instant> = (0..1000).map(|number| start(7, number)).collect();
        assert!(starts.iter().all(|start| start.since_origin() <= random.slip));
        let mean = starts.iter().map(|start| start.as_secs_f64()).sum::<f64>() / 1000.0;
        // Uniform in 600 s: standard error 5.5 s.
        assert!((mean - 300.0).abs() < 25.0, "{mean}");
        assert_eq!(start(7, 3), start(7, 3));
        assert_ne!(start(7, 3), start(8, 3));
    }
}
