//! Statistics of each pair of points: counts of its tests, the best goodput, and changes of the cause that limits it.
//!
//! A change is recorded when [`CONFIRMATIONS`] tests in succession found the new cause, because a single test may be disturbed. It is dated
//! to the first of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Archive, COLUMNS, DECLARATIONS, State, TestRow, UPDATES, read,
    sql::{self, Database, Field, Row, Value, placeholders, read_all, read_first, values},
    values_of,
};
use crate::{Error, cause};

/// Number of tests in succession that must find a cause before it becomes the pair's cause.
const CONFIRMATIONS: usize = 2;

/// The tables. Changes have the kind of test, because throughput tests and diagnoses name causes differently. The newest tests are copies
/// without their records: they stay when single tests are no longer kept, and all pairs are read without a search.
pub(super) fn tables() -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS pairs (
             lead TEXT NOT NULL, peer TEXT NOT NULL, best_goodput_bps REAL, finished INTEGER NOT NULL,
             failed INTEGER NOT NULL, refused INTEGER NOT NULL, not_run INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
         CREATE TABLE IF NOT EXISTS causes (
             lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
             id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
         CREATE INDEX IF NOT EXISTS causes_pending ON causes (start_us) WHERE is_pending = 1;
         CREATE TABLE IF NOT EXISTS newest (shows TEXT NOT NULL, {DECLARATIONS}, PRIMARY KEY (lead, peer, shows))
             STRICT, WITHOUT ROWID;"
    )
}

/// SQL condition: tests that name a cause, or that failed to get a result.
const CONCLUSIVE: &str = "(state = 'finished' AND verdict IS NOT NULL
    OR reason_kind IN ('unreachable', 'not_started', 'test_failed'))";

/// Number of a pair's tests by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    /// Completed.
    pub finished: u64,
    /// Started and did not complete.
    pub failed: u64,
    /// Refused by a rule.
    pub refused: u64,
    /// Tests that were not run for another reason.
    pub not_run: u64,
}

/// A change of the cause that limits a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Statistics of a pair of points.
#[derive(Debug, Clone, PartialEq)]
pub struct PairFacts {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Number of its tests.
    pub tests: TestCounts,
    /// The best goodput so far, bit/s.
    pub best_goodput_bps: Option<f64>,
    /// The last change of the cause.
    pub cause: Option<CauseChange>,
    /// The newest throughput test or diagnosis with a result.
    pub throughput: Option<TestRow>,
    /// The newest latency test with a result.
    pub latency: Option<TestRow>,
    /// The newest throughput test or diagnosis that is conclusive: it has a cause.
    pub newest: Option<TestRow>,
}

/// Updates the pair's statistics for a row that was stored in place of `before`.
pub(super) fn update_pair(
    database: &dyn Database,
    row: &TestRow,
    before: Option<&TestRow>,
) -> sql::Result<()> {
    let TestRow { from, to, .. } = row;
    let insert = "INSERT INTO pairs VALUES (?1, ?2, NULL, 0, 0, 0, 0) ON CONFLICT DO NOTHING";
    database.execute(insert, values![from, to])?;
    let old = before.and_then(end);
    if let Some(new) = end(row).filter(|new| old != Some(new)) {
        for (column, step) in [(Some(new), 1_i64), (old, -1)] {
            let Some(column) = column else { continue };
            let update = format!("UPDATE pairs SET {column} = {column} + ?3 WHERE lead = ?1 AND peer = ?2");
            database.execute(&update, values![from, to, step])?;
        }
    }
    let is_measured = row.state == State::Finished && !matches!(row.kind.as_str(), "stream" | "transfer");
    if let Some(goodput) = row.figures.goodput_bps.filter(|_| is_measured) {
        let update = "UPDATE pairs SET best_goodput_bps = ?3
             WHERE lead = ?1 AND peer = ?2 AND (best_goodput_bps IS NULL OR best_goodput_bps < ?3)";
        database.execute(update, values![from, to, goodput])?;
    }
    update_newest(database, row)?;
    update_cause(database, row)
}

/// The kinds of information that a test gives about its pair, as in the column `shows`.
fn shown(row: &TestRow) -> impl Iterator<Item = &'static str> {
    let has_goodput = row.figures.goodput_bps.is_some() && row.state != State::Running;
    let throughput = (row.kind == "throughput" && has_goodput).then_some("throughput");
    let diagnosis = (row.kind == "diagnose" && has_goodput).then_some("diagnosis");
    let latency = (row.kind == "latency" && row.state == State::Finished).then_some("latency");
    let is_of_path = matches!(row.kind.as_str(), "throughput" | "diagnose");
    let cause = (is_of_path && cause::of(row).is_some()).then_some("cause");
    [throughput, diagnosis, latency, cause].into_iter().flatten()
}

/// Keeps a copy if no newer test shows the same.
pub(super) fn update_newest(database: &dyn Database, row: &TestRow) -> sql::Result<()> {
    for shows in shown(row) {
        let mut values = values_of(&TestRow { record: None, ..row.clone() });
        values.push(Value::Text(shows.into()));
        let insert = format!(
            "INSERT INTO newest ({COLUMNS}, shows) VALUES ({}) ON CONFLICT (lead, peer, shows) DO UPDATE SET {UPDATES}
             WHERE excluded.start_us >= newest.start_us",
            placeholders(values.len())
        );
        database.execute(&insert, &values)?;
    }
    Ok(())
}

/// The column that counts a test; `None` while it runs.
fn end(row: &TestRow) -> Option<&'static str> {
    match row.state {
        State::Running => None,
        State::Finished => Some("finished"),
        State::Failed => Some("failed"),
        State::NotRun if row.reason_kind.as_deref() == Some("rule") => Some("refused"),
        State::NotRun => Some("not_run"),
    }
}

fn update_cause(database: &dyn Database, row: &TestRow) -> sql::Result<()> {
    if cause::of(row).is_none() {
        return Ok(());
    }
    let pair: &[Value] = values![row.from, row.to, row.kind];
    let query = format!(
        "SELECT {COLUMNS} FROM tests WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND {CONCLUSIVE}
         ORDER BY start_us DESC, id DESC LIMIT {CONFIRMATIONS}"
    );
    let newest = read_all(database, &query, pair, read)?;
    let current =
        "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 ORDER BY start_us DESC LIMIT 1";
    let current: Option<String> = read_first(database, current, pair, Row::next)?;
    let Some(new) = newest.first().and_then(cause::of) else { return Ok(()) };
    let is_confirmed = newest.len() == CONFIRMATIONS
        && newest.iter().all(|row| cause::of(row).as_deref() == Some(new.as_str()));
    let first = match &current {
        Some(current) if *current == new => return Ok(()),
        Some(_) if !is_confirmed => return Ok(()),
        // A point that has just joined, or a disturbed first test.
        None if new == cause::NO_RESULT && !is_confirmed => return Ok(()),
        None if new != cause::NO_RESULT => newest.first(),
        _ => newest.last(),
    };
    let Some(first) = first else { return Ok(()) };
    // The first cause of a pair is not a change.
    let is_pending = i64::from(current.is_some());
    let insert = "INSERT INTO causes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (lead, peer, kind, start_us) DO UPDATE SET
             cause = excluded.cause, id = excluded.id, is_pending = excluded.is_pending";
    let values = values![row.from, row.to, row.kind, first.start_us, new, first.id, is_pending];
    database.execute(insert, values).map(drop)
}

fn read_change(row: &mut Row) -> sql::Result<CauseChange> {
    Ok(CauseChange {
        from: row.next()?,
        to: row.next()?,
        kind: row.next()?,
        since_us: row.next()?,
        cause: row.next()?,
        test: row.next()?,
    })
}

/// The columns of [`read_change`].
const CHANGE: &str = "lead, peer, kind, start_us, cause, id";

impl Archive {
    /// The statistics of each pair, ordered by names.
    pub fn pairs(&self) -> Result<Vec<PairFacts>, Error> {
        read_pairs(&*self.database).map_err(self.failed("read"))
    }

    /// The changes of a pair's cause since a time, oldest first, and the last one before that time.
    pub fn changes(&self, from: &str, to: &str, since_us: i64) -> Result<Vec<CauseChange>, Error> {
        let query = format!(
            "SELECT {CHANGE} FROM causes WHERE lead = ?1 AND peer = ?2 AND start_us >= coalesce(
                 (SELECT max(start_us) FROM causes WHERE lead = ?1 AND peer = ?2 AND start_us <= ?3), ?3)
             ORDER BY start_us, kind"
        );
        self.read_changes(&query, values![from, to, since_us])
    }

    fn read_changes(&self, query: &str, values: &[Value]) -> Result<Vec<CauseChange>, Error> {
        read_all(&*self.database, query, values, read_change).map_err(self.failed("read"))
    }

    /// The changes for which no alert has been sent, oldest first.
    pub fn pending_changes(&self) -> Result<Vec<CauseChange>, Error> {
        self.read_changes(
            &format!("SELECT {CHANGE} FROM causes WHERE is_pending = 1 ORDER BY start_us, lead, peer, kind"),
            &[],
        )
    }

    /// The cause before a change.
    pub fn cause_before(&self, change: &CauseChange) -> Result<Option<String>, Error> {
        let query = "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us < ?4
             ORDER BY start_us DESC LIMIT 1";
        let values = values![change.from, change.to, change.kind, change.since_us];
        read_first(&*self.database, query, values, Row::next).map_err(self.failed("read"))
    }

    /// Marks a change as alerted: its alert was sent, or is too old.
    pub fn settle_change(&mut self, change: &CauseChange) -> Result<(), Error> {
        let CauseChange { from, to, kind, since_us, .. } = change;
        let update =
            "UPDATE causes SET is_pending = 0 WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us = ?4";
        self.write(|database| database.execute(update, values![from, to, kind, since_us]).map(drop))
    }

    /// Marks all changes as alerted, without sending alerts.
    pub fn settle_all_changes(&mut self) -> Result<(), Error> {
        let update = "UPDATE causes SET is_pending = 0 WHERE is_pending = 1";
        self.write(|database| database.execute(update, &[]).map(drop))
    }
}

/// Three passes in the order of the pairs, none of which searches.
fn read_pairs(database: &dyn Database) -> sql::Result<Vec<PairFacts>> {
    let query = "SELECT lead, peer, best_goodput_bps, finished, failed, refused, not_run FROM pairs ORDER BY lead, peer";
    let pairs = read_all(database, query, &[], |row| {
        Ok(PairFacts {
            from: row.next()?,
            to: row.next()?,
            best_goodput_bps: row.next()?,
            tests: TestCounts {
                finished: row.next()?,
                failed: row.next()?,
                refused: row.next()?,
                not_run: row.next()?,
            },
            cause: None,
            throughput: None,
            latency: None,
            newest: None,
        })
    })?;
    let mut pairs: BTreeMap<(String, String), PairFacts> =
        pairs.into_iter().map(|pair| ((pair.from.clone(), pair.to.clone()), pair)).collect();
    // A diagnosis counts where there is no throughput test, as its cause does.
    let newest = format!("SELECT shows, {COLUMNS} FROM newest ORDER BY shows");
    for (shows, test) in read_all(database, &newest, &[], |row| Ok((row.next::<String>()?, read(row)?)))? {
        let Some(pair) = pairs.get_mut(&(test.from.clone(), test.to.clone())) else { continue };
        match shows.as_str() {
            "throughput" | "diagnosis" if pair.throughput.as_ref().is_none_or(|_| shows == "throughput") => {
                pair.throughput = Some(test);
            }
            "latency" => pair.latency = Some(test),
            "cause" => pair.newest = Some(test),
            _ => {}
        }
    }
    let causes = "SELECT causes.lead, causes.peer, causes.kind, causes.start_us, cause, id FROM causes JOIN (
             SELECT lead, peer, kind, max(start_us) AS start_us FROM causes GROUP BY lead, peer, kind) AS newest
         ON causes.lead = newest.lead AND causes.peer = newest.peer AND causes.kind = newest.kind
             AND causes.start_us = newest.start_us";
    for change in read_all(database, causes, &[], read_change)? {
        let Some(pair) = pairs.get_mut(&(change.from.clone(), change.to.clone())) else { continue };
        if change.kind == "throughput" || pair.cause.is_none() {
            pair.cause = Some(change);
        }
    }
    Ok(pairs.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{archive::tests::row as archive_row, test::Figures};

    fn archive() -> Archive {
        Archive::open(Path::new(":memory:"), None).unwrap()
    }

    fn test(number: i64, state: State, verdict: Option<&str>, reason_kind: Option<&str>) -> TestRow {
        TestRow {
            state,
            reason: reason_kind.map(|kind| format!("because of {kind}")),
            reason_kind: reason_kind.map(str::to_owned),
            figures: Figures {
                verdict: verdict.map(str::to_owned),
                goodput_bps: verdict.map(|_| number as f64),
                ..Figures::default()
            },
            record: None,
            ..archive_row(&format!("a/{number}"), number * 1000)
        }
    }

    fn finished(number: i64, verdict: &str) -> TestRow {
        test(number, State::Finished, Some(verdict), None)
    }

    fn causes(archive: &Archive) -> Vec<(i64, String)> {
        let changes = archive.changes("a", "b", 0).unwrap();
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
        assert_eq!(archive.changes("a", "b", 2000).unwrap().len(), 2, "the cause at the beginning too");
        assert_eq!(archive.changes("a", "b", 4000).unwrap().len(), 1);
    }

    #[test]
    fn tests_without_a_result_are_a_cause_and_refused_ones_are_not() {
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
        // A test that has a verdict, but did not end in its slot, names it.
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

    #[test]
    fn ends_are_counted_once() {
        let mut archive = archive();
        for row in [
            test(1, State::Running, None, None),
            finished(1, "loss"),
            finished(1, "loss"),
            test(2, State::Failed, None, Some("restarted")),
            test(3, State::NotRun, None, Some("rule")),
            test(4, State::NotRun, None, Some("conflict")),
            // After a kill, the record turned out to be complete.
            finished(2, "path_rate"),
        ] {
            archive.put(&row, &[]).unwrap();
        }
        let pairs = archive.pairs().unwrap();
        let [pair] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!(pair.tests, TestCounts { finished: 2, failed: 0, refused: 1, not_run: 1 });
        assert_eq!(pair.best_goodput_bps, Some(2.0));
        assert_eq!(pair.throughput.as_ref().unwrap().id, "a/2");
        assert_eq!(pair.newest.as_ref().unwrap().id, "a/2", "a conflict is not conclusive");
        assert_eq!(pair.latency, None);
    }
}
