//! Changes of the cause that limits a pair of points.
//!
//! A change is recorded when [`CONFIRMATIONS`] tests in succession found the new cause, because a single test
//! may be disturbed. The change has the start time of the first of these tests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::{COLUMNS, read};
use crate::{
    TestRow, cause,
    database::sql::{self, Database, Field, Row, Value, read_all, read_first, values},
};

/// Number of successive tests that must find a cause before it becomes the pair's cause.
const CONFIRMATIONS: usize = 2;

/// SQL condition: tests that name a cause, or that failed to get a result.
const CONCLUSIVE: &str = "(state = 'finished' AND verdict IS NOT NULL
    OR reason_kind IN ('unreachable', 'not_started', 'test_failed'))";

/// A change of the cause that limits a pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CauseChange {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// The kind of the tests that found it.
    pub kind: String,
    /// Start of the first test that found it, microseconds since 1970.
    pub since_us: i64,
    /// The cause.
    pub cause: String,
    /// The first test that found it.
    pub test: String,
}

/// Records a change of the cause and returns it. Tests that start after `latest_start_us` are in the future
/// by mistake.
pub(super) fn update_cause(
    database: &dyn Database,
    row: &TestRow,
    latest_start_us: i64,
) -> sql::Result<Option<CauseChange>> {
    if row.cause().is_none() || row.start_us > latest_start_us {
        return Ok(None);
    }
    let pair: &[Value] = values![row.from, row.to, row.kind, latest_start_us];
    // Tests with other options may have another limit.
    let query = format!(
        "SELECT {COLUMNS} FROM tests WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us <= ?4 AND {CONCLUSIVE}
             AND coalesce(options, '') = ?5
         ORDER BY start_us DESC, id DESC LIMIT {CONFIRMATIONS}"
    );
    let options = row.options.clone().unwrap_or_default();
    let same = values![row.from, row.to, row.kind, latest_start_us, options];
    let newest = read_all(database, &query, same, read)?;
    let current = "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us <= ?4
         ORDER BY start_us DESC LIMIT 1";
    let current: Option<String> = read_first(database, current, pair, |row| row.next())?;
    let Some(new) = newest.first().and_then(TestRow::cause) else { return Ok(None) };
    let is_confirmed = newest.len() == CONFIRMATIONS
        && newest.iter().all(|row| row.cause().as_deref() == Some(new.as_str()));
    let first = match &current {
        Some(current) if *current == new => return Ok(None),
        Some(_) if !is_confirmed => return Ok(None),
        // One failure is no cause yet: the point may have just joined, or its first test was disturbed.
        None if new == cause::NO_RESULT && !is_confirmed => return Ok(None),
        None if new != cause::NO_RESULT => newest.first(),
        _ => newest.last(),
    };
    let Some(first) = first else { return Ok(None) };
    // The first cause of a pair is not a change.
    let is_pending = i64::from(current.is_some());
    let insert = "INSERT INTO causes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (lead, peer, kind, start_us) DO UPDATE SET
             cause = excluded.cause, id = excluded.id, is_pending = excluded.is_pending";
    let values = values![row.from, row.to, row.kind, first.start_us, new, first.id, is_pending];
    database.execute(insert, values)?;
    Ok(Some(CauseChange {
        from: row.from.clone(),
        to: row.to.clone(),
        kind: row.kind.clone(),
        since_us: first.start_us,
        cause: new,
        test: first.id.clone(),
    }))
}

/// The last change of a pair up to a time, as in [`super::PairFacts::cause`].
pub(super) fn last_change(
    database: &dyn Database,
    from: &str,
    to: &str,
    until_us: i64,
) -> sql::Result<Option<CauseChange>> {
    let query = format!(
        "SELECT {CHANGE} FROM causes WHERE lead = ?1 AND peer = ?2 AND start_us <= ?3
         ORDER BY CASE WHEN kind = 'throughput' THEN 0 ELSE 1 END, start_us DESC LIMIT 1"
    );
    read_first(database, &query, values![from, to, until_us], read_change)
}

/// Reads the columns [`CHANGE`].
pub(super) fn read_change(row: &mut Row<'_>) -> sql::Result<CauseChange> {
    Ok(CauseChange {
        from: row.next()?,
        to: row.next()?,
        kind: row.next()?,
        since_us: row.next()?,
        cause: row.next()?,
        test: row.next()?,
    })
}

/// The columns of a change.
pub(super) const CHANGE: &str = "lead, peer, kind, start_us, cause, id";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{
        State,
        archive::{
            Archive, CauseChange,
            pairs::tests::{finished, test},
        },
    };

    fn archive() -> Archive {
        Archive::open(Path::new(":memory:"), None).unwrap()
    }

    fn causes(archive: &Archive) -> Vec<(i64, String)> {
        let changes = archive.changes("a", "b", "throughput", 0).unwrap();
        changes.into_iter().map(|change| (change.since_us, change.cause)).collect()
    }

    #[test]
    fn a_cause_changes_when_two_tests_agree_and_dates_from_the_first() {
        let mut archive = archive();
        archive.put(&finished(1, "path_rate"), &[]).unwrap();
        assert_eq!(causes(&archive), [(1000, "path_rate".to_string())]);
        assert_eq!(archive.pending_changes().unwrap(), [], "the first cause is not a change");
        // One disturbed test changes nothing.
        for row in [finished(2, "host_cpu"), finished(3, "path_rate"), finished(4, "receive_window")] {
            archive.put(&row, &[]).unwrap();
        }
        assert_eq!(causes(&archive).len(), 1);
        archive.put(&finished(5, "receive_window"), &[]).unwrap();
        // A repeated result changes nothing, nor does one that arrives late.
        archive.put(&finished(5, "receive_window"), &[]).unwrap();
        archive.put(&finished(0, "loss"), &[]).unwrap();
        assert_eq!(causes(&archive), [(1000, "path_rate".to_string()), (4000, "receive_window".to_string())]);
        let pending = archive.pending_changes().unwrap();
        assert_eq!((pending.len(), pending[0].test.as_str()), (1, "a/4"));
        assert_eq!(archive.cause_before(&pending[0]).unwrap().as_deref(), Some("path_rate"));
        archive.settle_change(&pending[0]).unwrap();
        assert_eq!(archive.pending_changes().unwrap(), []);
        let since = |since_us| archive.changes("a", "b", "throughput", since_us).unwrap().len();
        assert_eq!((since(2000), since(4000)), (2, 1), "the cause at the beginning too");
    }

    #[test]
    fn the_newest_test_that_found_a_cause_states_the_remedy() {
        let mut archive = archive();
        archive.put(&finished(1, "path_rate"), &[]).unwrap();
        for number in 2..5 {
            let mut row = finished(number, "receive_window");
            row.figures.evidence = Some(format!("the window was full; to fix it: on b: step {number}"));
            archive.put(&row, &[]).unwrap();
        }
        archive.put(&finished(5, "loss"), &[]).unwrap();
        let cause = archive.pair("a", "b").unwrap().unwrap().cause.unwrap();
        assert_eq!((cause.cause.as_str(), cause.since_us), ("receive_window", 2000));
        assert_eq!(archive.remedy(&cause).unwrap().as_deref(), Some("on b: step 4"));
        let later = CauseChange { since_us: 4001, ..cause };
        assert_eq!(archive.remedy(&later).unwrap(), None, "of an earlier time");
    }

    /// The clock was wrong for two tests, and was corrected.
    #[test]
    fn tests_in_the_future_do_not_freeze_a_pair() {
        let mut archive = archive();
        archive.put(&finished(1, "path_rate"), &[]).unwrap();
        for number in [1_000_000, 1_000_001] {
            archive.put(&finished(number, "loss"), &[]).unwrap();
        }
        let pair = |archive: &Archive| archive.pair("a", "b").unwrap().unwrap();
        assert_eq!(pair(&archive).throughput.unwrap().start_us, 1_000_001_000);
        archive.set_latest_start(500_000);
        archive.put(&finished(2, "path_rate"), &[]).unwrap();
        let facts = pair(&archive);
        assert_eq!((facts.throughput.unwrap().start_us, facts.conclusion.unwrap().start_us), (2000, 2000));
        assert_eq!(facts.cause.unwrap().since_us, 1000);
        for number in [3, 4] {
            archive.put(&finished(number, "receive_window"), &[]).unwrap();
        }
        // A test sent by another point whose clock is wrong.
        archive.put(&finished(2_000_000, "loss"), &[]).unwrap();
        let facts = pair(&archive);
        assert_eq!((facts.cause.unwrap().since_us, facts.throughput.unwrap().start_us), (3000, 4000));
    }

    #[test]
    fn tests_without_a_result_are_a_cause_but_refused_tests_are_not() {
        let mut archive = archive();
        archive.put(&finished(1, "path_rate"), &[]).unwrap();
        for number in 2..4 {
            archive.put(&test(number, State::NotRun, None, Some("rule")), &[]).unwrap();
            archive.put(&test(number + 10, State::NotRun, None, Some("conflict")), &[]).unwrap();
        }
        assert_eq!(causes(&archive).len(), 1);
        archive.put(&test(21, State::NotRun, None, Some("unreachable")), &[]).unwrap();
        archive.put(&test(22, State::Failed, None, Some("test_failed")), &[]).unwrap();
        assert_eq!(causes(&archive)[1], (21_000, "no_result".to_string()));
        // A test with a verdict that did not end in its slot is recorded with this verdict.
        for number in 30..32 {
            archive.put(&test(number, State::Failed, Some("loss"), Some("test_failed")), &[]).unwrap();
        }
        assert_eq!(causes(&archive)[2], (30_000, "loss".to_string()));
        // One test without a result is not yet a cause of a new pair.
        let mut new = self::archive();
        new.put(&test(1, State::NotRun, None, Some("unreachable")), &[]).unwrap();
        assert_eq!(causes(&new), []);
        new.put(&test(2, State::NotRun, None, Some("unreachable")), &[]).unwrap();
        assert_eq!(causes(&new), [(1000, "no_result".to_string())]);
    }
}
