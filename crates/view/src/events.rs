//! Events of a run: counted for a table, and as marks in plots of windows.

use schema::{Event, EventKind};

use crate::number;

/// The kind of a mark in a plot of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// The window is reduced, or recovery from a loss begins.
    Reduction,
    /// A retransmission timeout.
    Timeout,
}

impl MarkKind {
    /// Its name in a plot's legend.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MarkKind::Reduction => "reduced",
            MarkKind::Timeout => "timeout",
        }
    }

    /// The mark of an event, if it has one.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match event.kind {
            // CWR and recovery: both the simulator and the lab report these.
            EventKind::CaState if matches!(event.value, 2 | 3) => Some(MarkKind::Reduction),
            EventKind::Rto => Some(MarkKind::Timeout),
            _ => None,
        }
    }
}

/// One line of the table: the events of one subject and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) subject: String,
    pub(crate) kind: EventKind,
    /// The number of events.
    pub(crate) count: u64,
    /// The sum of their values, if the values are counts or durations.
    pub(crate) sum: Option<i64>,
    pub(crate) first_us: i64,
    pub(crate) last_us: i64,
}

/// Counts the events by subject and kind, except start and stop; sorted by subject.
pub(crate) fn tallies(events: &[Event]) -> Vec<Tally> {
    let mut found: Vec<Tally> = Vec::new();
    for event in events.iter().filter(|e| !matches!(e.kind, EventKind::Start | EventKind::Stop)) {
        let Event { time_us, subject, kind, value } = event;
        match found.iter_mut().find(|tally| tally.kind == *kind && tally.subject == *subject) {
            Some(tally) => {
                tally.count += 1;
                tally.sum = tally.sum.map(|sum| sum.saturating_add(*value));
                (tally.first_us, tally.last_us) = (tally.first_us.min(*time_us), tally.last_us.max(*time_us));
            }
            None => found.push(Tally {
                subject: subject.clone(),
                kind: *kind,
                count: 1,
                sum: has_sum(*kind).then_some(*value),
                first_us: *time_us,
                last_us: *time_us,
            }),
        }
    }
    found.sort_by(|a, b| a.subject.cmp(&b.subject));
    found
}

/// The cells of the table, its header first; empty if there are no events.
pub(crate) fn rows(events: &[Event]) -> Vec<Vec<String>> {
    let tallies = tallies(events);
    if tallies.is_empty() {
        return Vec::new();
    }
    let header = ["SUBJECT", "EVENT", "COUNT", "TOTAL", "FIRST", "LAST"].map(str::to_owned).to_vec();
    let row = |tally: &Tally| {
        let seconds = |us: i64| number::seconds(us as f64 * 1e-6);
        let sum = match (tally.kind, tally.sum.and_then(|sum| u64::try_from(sum).ok())) {
            (_, None) => "-".into(),
            (EventKind::Stall, Some(us)) => number::micros(us as f64),
            (_, Some(sum)) => number::count(sum),
        };
        vec![
            tally.subject.clone(),
            tally.kind.name().replace('_', " "),
            number::count(tally.count),
            sum,
            seconds(tally.first_us),
            seconds(tally.last_us),
        ]
    };
    std::iter::once(header).chain(tallies.iter().map(row)).collect()
}

/// Whether the values of a kind are counts or durations, so that their sum has a meaning.
fn has_sum(kind: EventKind) -> bool {
    use EventKind::{DropLoss, DropQueue, Lost, Retransmit, Rto, Stall};
    matches!(kind, Retransmit | Lost | Rto | DropQueue | DropLoss | Stall)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_us: i64, subject: &str, kind: EventKind, value: i64) -> Event {
        Event { time_us, subject: subject.into(), kind, value }
    }

    #[test]
    fn events_are_counted_by_subject_and_kind() {
        let events = [
            event(0, "b", EventKind::Start, 0),
            event(1_000_000, "b", EventKind::Lost, 5),
            event(1_000_000, "a", EventKind::CaState, 3),
            event(2_500_000, "b", EventKind::Lost, 7),
            event(3_000_000, "a", EventKind::CaState, 0),
            event(4_000_000, "emulator", EventKind::Stall, 20_000),
            event(5_000_000, "emulator", EventKind::Stall, 2_000),
        ];
        let rows = rows(&events);
        assert_eq!(rows[1], ["a", "ca state", "2", "-", "1.000 s", "3.000 s"]);
        assert_eq!(rows[2], ["b", "lost", "2", "12", "1.000 s", "2.500 s"]);
        assert_eq!(rows[3], ["emulator", "stall", "2", "22.00 ms", "4.000 s", "5.000 s"]);
        assert_eq!(rows.len(), 4);
        let marks: Vec<_> = events.iter().filter_map(MarkKind::of).collect();
        assert_eq!(marks, [MarkKind::Reduction], "the return to the open state has no mark");
    }
}
