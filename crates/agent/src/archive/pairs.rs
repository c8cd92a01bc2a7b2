//! Statistics of each pair of points: counts of its tests, the best goodput, and changes of the cause that limits it.
//!
//! A change is recorded when [`CONFIRMATIONS`] tests in succession found the new cause, because a single test may be disturbed. It is dated
//! to the first of them.

use rusqlite::{OptionalExtension, Transaction, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Archive, COLUMNS, State, TestRow, count, read};
use crate::{Error, cause};

/// Number of tests in succession that must find a cause before it becomes the pair's cause.
const CONFIRMATIONS: usize = 2;

/// Rows of `causes` have the kind of test, because throughput tests and diagnoses name causes differently.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS pairs (
        lead TEXT NOT NULL, peer TEXT NOT NULL, best_goodput_bps REAL, finished INTEGER NOT NULL, failed INTEGER NOT NULL,
        refused INTEGER NOT NULL, not_run INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
    CREATE TABLE IF NOT EXISTS causes (
        lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
        id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
    CREATE INDEX IF NOT EXISTS causes_pending ON causes (start_us) WHERE is_pending;";

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
    /// Not run for another reason.
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
    transaction: &Transaction<'_>,
    row: &TestRow,
    before: Option<&TestRow>,
) -> rusqlite::Result<()> {
    let TestRow { from, to, .. } = row;
    transaction
        .execute("INSERT OR IGNORE INTO pairs VALUES (?1, ?2, NULL, 0, 0, 0, 0)", params![from, to])?;
    let old = before.and_then(end);
    if let Some(new) = end(row).filter(|new| old != Some(new)) {
        for (column, step) in [(Some(new), 1), (old, -1)] {
            let Some(column) = column else { continue };
            let update = format!("UPDATE pairs SET {column} = {column} + ?3 WHERE lead = ?1 AND peer = ?2");
            transaction.execute(&update, params![from, to, step])?;
        }
    }
    if let Some(goodput) = row.figures.goodput_bps.filter(|_| row.state == State::Finished) {
        let update = "UPDATE pairs SET best_goodput_bps = max(?3, ifnull(best_goodput_bps, 0))
             WHERE lead = ?1 AND peer = ?2";
        transaction.execute(update, params![from, to, goodput])?;
    }
    update_cause(transaction, row)
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

fn update_cause(transaction: &Transaction<'_>, row: &TestRow) -> rusqlite::Result<()> {
    if cause::of(row).is_none() {
        return Ok(());
    }
    let pair = params![row.from, row.to, row.kind];
    let query = format!(
        "SELECT {COLUMNS} FROM tests WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND {CONCLUSIVE}
         ORDER BY start_us DESC LIMIT {CONFIRMATIONS}"
    );
    let mut statement = transaction.prepare(&query)?;
    let newest: Vec<TestRow> = statement.query_map(pair, read)?.collect::<Result<_, _>>()?;
    let current =
        "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 ORDER BY start_us DESC LIMIT 1";
    let current: Option<String> = transaction.query_row(current, pair, |row| row.get(0)).optional()?;
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
    transaction.execute(
        "INSERT OR REPLACE INTO causes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![row.from, row.to, row.kind, first.start_us, new, first.id, is_pending],
    )?;
    Ok(())
}

fn read_change(row: &rusqlite::Row<'_>) -> rusqlite::Result<CauseChange> {
    Ok(CauseChange {
        from: row.get(0)?,
        to: row.get(1)?,
        kind: row.get(2)?,
        since_us: row.get(3)?,
        cause: row.get(4)?,
        test: row.get(5)?,
    })
}

/// The columns of [`read_change`].
const CHANGE: &str = "lead, peer, kind, start_us, cause, id";

impl Archive {
    /// The statistics of each pair, ordered by names.
    pub fn pairs(&self) -> Result<Vec<PairFacts>, Error> {
        self.read_pairs().map_err(self.failed("read"))
    }

    fn read_pairs(&self) -> rusqlite::Result<Vec<PairFacts>> {
        let connection = &self.connection;
        let of_pair = "FROM tests WHERE lead = ?1 AND peer = ?2";
        let newest = |condition: &str| {
            connection.prepare(&format!(
                "SELECT {COLUMNS} {of_pair} AND {condition} ORDER BY start_us DESC LIMIT 1"
            ))
        };
        let mut throughput =
            newest("kind = 'throughput' AND state <> 'running' AND goodput_bps IS NOT NULL")?;
        let mut diagnosis = newest("kind = 'diagnose' AND state <> 'running' AND goodput_bps IS NOT NULL")?;
        let mut latency = newest("kind = 'latency' AND state = 'finished'")?;
        // By kind, as the index is sorted.
        let mut conclusive = ["throughput", "diagnose"]
            .into_iter()
            .map(|kind| newest(&format!("kind = '{kind}' AND {CONCLUSIVE}")))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut cause = connection.prepare(&format!(
            "SELECT {CHANGE} FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 ORDER BY start_us DESC LIMIT 1"
        ))?;
        let mut statement = connection.prepare(
            "SELECT lead, peer, best_goodput_bps, finished, failed, refused, not_run FROM pairs ORDER BY lead, peer",
        )?;
        let pairs = statement.query_map([], |row| {
            Ok(PairFacts {
                from: row.get(0)?,
                to: row.get(1)?,
                best_goodput_bps: row.get(2)?,
                tests: TestCounts {
                    finished: count(row, 3)?,
                    failed: count(row, 4)?,
                    refused: count(row, 5)?,
                    not_run: count(row, 6)?,
                },
                cause: None,
                throughput: None,
                latency: None,
                newest: None,
            })
        })?;
        let mut pairs = pairs.collect::<rusqlite::Result<Vec<PairFacts>>>()?;
        for pair in &mut pairs {
            let names = params![pair.from, pair.to];
            let tested =
                [throughput.query_row(names, read).optional()?, diagnosis.query_row(names, read).optional()?];
            for kind in ["throughput", "diagnose"] {
                if pair.cause.is_none() {
                    pair.cause =
                        cause.query_row(params![pair.from, pair.to, kind], read_change).optional()?;
                }
            }
            pair.throughput = tested.into_iter().flatten().next();
            pair.latency = latency.query_row(names, read).optional()?;
            let ends = conclusive.iter_mut().map(|statement| statement.query_row(names, read).optional());
            let ends = ends.collect::<rusqlite::Result<Vec<_>>>()?;
            pair.newest = ends.into_iter().flatten().max_by_key(|row| row.start_us);
        }
        Ok(pairs)
    }

    /// The changes of a pair's cause since a time, oldest first, and the last one before that time.
    pub fn changes(&self, from: &str, to: &str, since_us: i64) -> Result<Vec<CauseChange>, Error> {
        let query = format!(
            "SELECT {CHANGE} FROM causes WHERE lead = ?1 AND peer = ?2 AND start_us >= ifnull(
                 (SELECT max(start_us) FROM causes WHERE lead = ?1 AND peer = ?2 AND start_us <= ?3), ?3)
             ORDER BY start_us"
        );
        self.read_changes(&query, &[&from, &to, &since_us])
    }

    fn read_changes(&self, query: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<CauseChange>, Error> {
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let rows = statement.query_map(values, read_change).map_err(self.failed("read"))?;
        rows.collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    /// The changes for which no alert has been sent, oldest first.
    pub fn pending_changes(&self) -> Result<Vec<CauseChange>, Error> {
        self.read_changes(&format!("SELECT {CHANGE} FROM causes WHERE is_pending ORDER BY start_us"), &[])
    }

    /// The cause before a change.
    pub fn cause_before(&self, change: &CauseChange) -> Result<Option<String>, Error> {
        let query = "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us < ?4
             ORDER BY start_us DESC LIMIT 1";
        let values = params![change.from, change.to, change.kind, change.since_us];
        let cause = self.connection.query_row(query, values, |row| row.get(0));
        cause.optional().map_err(self.failed("read"))
    }

    /// Marks a change as alerted: its alert was sent, or is too old.
    pub fn settle_change(&mut self, change: &CauseChange) -> Result<(), Error> {
        let CauseChange { from, to, kind, since_us, .. } = change;
        let update =
            "UPDATE causes SET is_pending = 0 WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us = ?4";
        self.write(|transaction| transaction.execute(update, params![from, to, kind, since_us]).map(drop))
    }

    /// Marks all changes as alerted, without sending alerts.
    pub fn settle_all_changes(&mut self) -> Result<(), Error> {
        self.write(|transaction| {
            transaction.execute("UPDATE causes SET is_pending = 0 WHERE is_pending", []).map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{archive::tests::row as archive_row, test::Figures};

    fn archive() -> Archive {
        Archive::open(Path::new(":memory:")).unwrap()
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
