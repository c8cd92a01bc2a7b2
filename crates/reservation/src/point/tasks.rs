//! Recurring tests.

use units::Instant;

use super::{Point, turn::Turn};
use crate::{Admission, Event, Now, Occurrence, Spec, Step, Task, TaskName};

/// Maximum number of occurrences reserved by one call; the next call continues.
const MAX_OCCURRENCES_PER_TURN: usize = 64;

impl Point {
    /// Adds a recurring test, or replaces the one of this name. Occurrences that are reserved already stay.
    pub fn set_task(&mut self, now: Now, task: Task, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        let next = task.recurrence.next_possible(0, now.utc);
        self.record(&mut turn, Event::TaskSet { task: Box::new(task), next });
        self.reserve_occurrences(&mut turn);
        self.finish_turn(turn)
    }

    /// Removes a recurring test. Occurrences that are reserved already stay.
    pub fn remove_task(&mut self, now: Now, name: &TaskName, admission: &dyn Admission) -> Step {
        let mut turn = Turn::new(now, admission);
        if self.state.task(name).is_some() {
            self.record(&mut turn, Event::TaskRemoved { name: name.clone() });
        }
        self.finish_turn(turn)
    }

    /// When the next occurrence is to be reserved, UTC.
    pub(super) fn next_occurrence(&self) -> Option<Instant> {
        let due = |(task, next): (&Task, u64)| {
            let nominal = task.recurrence.nominal(next)?;
            Some(nominal.saturating_sub(self.settings.ahead))
        };
        self.state.tasks().filter_map(due).min()
    }

    /// Reserves the occurrences that are due.
    pub(super) fn reserve_occurrences(&mut self, turn: &mut Turn<'_>) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= turn.now.utc);
        if !is_due(self.next_occurrence()) {
            return;
        }
        let names: Vec<TaskName> = self.state.tasks().map(|(task, _)| task.name.clone()).collect();
        let mut remaining = MAX_OCCURRENCES_PER_TURN;
        for name in names {
            while let Some((task, number)) = self.state.task(&name)
                && let Some(nominal) = task.recurrence.nominal(number)
                && nominal.saturating_sub(self.settings.ahead) <= turn.now.utc
                && remaining > 0
            {
                remaining -= 1;
                let task = task.clone();
                let possible = task.recurrence.next_possible(number, turn.now.utc);
                if possible > number {
                    // The point's program did not run, or the clock was stepped.
                    self.record(turn, Event::OccurrencesPassed { name: name.clone(), next: possible });
                    continue;
                }
                let (earliest, latest) = task.recurrence.window(nominal, number, &name, self.settings.seed);
                let spec = Spec { earliest, latest, ..task.spec };
                self.create(turn, task.lead, spec, Some(Occurrence { task: name.clone(), number }));
            }
        }
    }
}
