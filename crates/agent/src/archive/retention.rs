//! Old rows become hourly averages, old records and averages are removed.

use rusqlite::{OptionalExtension, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Archive, count};
use crate::Error;

/// Microseconds of an hour and of a day.
const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
/// Maximum number of records that one step removes: the agent's loop waits meanwhile.
const RECORDS_PER_STEP: u32 = 20;

/// Sums and counts, so that a row that arrives late is added.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS hours (
        lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, hour_us INTEGER NOT NULL,
        finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
        goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
        losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
        verdict TEXT, PRIMARY KEY (lead, peer, kind, hour_us)) STRICT;
    CREATE INDEX IF NOT EXISTS hours_by_time ON hours (hour_us);";

/// How long results are kept, days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Records, that is, the samples of tests.
    pub records_days: u32,
    /// Figures of single tests; after that, hourly averages.
    pub tests_days: u32,
    /// Hourly averages.
    pub hours_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { records_days: 90, tests_days: 366, hours_days: 3660 }
    }
}

/// The tests of a pair in an hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HourRow {
    /// The kind of test.
    pub kind: String,
    /// Start of the hour, microseconds since 1970.
    pub start_us: i64,
    /// Number of tests that completed.
    pub finished: u64,
    /// Number of tests that did not complete.
    pub failed: u64,
    /// Number of tests that were not run.
    pub not_run: u64,
    /// Mean goodput, bit/s.
    pub goodput_bps: Option<f64>,
    /// Smallest goodput of a test, bit/s.
    pub min_goodput_bps: Option<f64>,
    /// Largest goodput of a test, bit/s.
    pub max_goodput_bps: Option<f64>,
    /// Mean share of lost packets.
    pub loss_share: Option<f64>,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: Option<f64>,
    /// Mean of the tests' typical round-trip times, microseconds.
    pub typical_rtt_us: Option<f64>,
    /// The most frequent verdict.
    pub verdict: Option<String>,
}

impl Archive {
    /// Applies one step of the retention: an hour of rows, or some records. `remove` removes the record at this path. Returns whether more
    /// steps are due.
    pub fn apply_retention(
        &mut self,
        now_us: i64,
        retention: &Retention,
        remove: impl Fn(&str),
    ) -> Result<bool, Error> {
        let before = |days: u32| now_us.saturating_sub(i64::from(days).saturating_mul(DAY_US));
        let records = self.records_before(before(retention.records_days))?;
        for (id, record) in &records {
            // The files first: if the agent is killed in between, a row without its record remains, not a record without its row.
            remove(record);
            let update = "UPDATE tests SET record = NULL WHERE id = ?1";
            self.write(|transaction| transaction.execute(update, params![id]).map(drop))?;
        }
        if records.len() == RECORDS_PER_STEP as usize {
            return Ok(true);
        }
        let oldest = self.oldest_row()?;
        let end = before(retention.tests_days).div_euclid(HOUR_US) * HOUR_US;
        if let Some(oldest) = oldest.filter(|oldest| *oldest < end) {
            self.roll_up(oldest.div_euclid(HOUR_US) * HOUR_US)?;
            return Ok(true);
        }
        let old = before(retention.hours_days);
        self.write(|transaction| {
            transaction.execute("DELETE FROM hours WHERE hour_us < ?1", params![old])?;
            // The last cause of a pair stays.
            let old_causes = "DELETE FROM causes WHERE start_us < ?1 AND EXISTS (
                 SELECT 1 FROM causes AS newer WHERE newer.lead = causes.lead AND newer.peer = causes.peer
                     AND newer.kind = causes.kind AND newer.start_us > causes.start_us)";
            transaction.execute(old_causes, params![old]).map(drop)
        })?;
        Ok(false)
    }

    fn records_before(&self, time_us: i64) -> Result<Vec<(String, String)>, Error> {
        let query = "SELECT id, record FROM tests WHERE record IS NOT NULL AND start_us < ?1 ORDER BY start_us LIMIT ?2";
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let rows = statement
            .query_map(params![time_us, RECORDS_PER_STEP], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(self.failed("read"))?;
        rows.collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    fn oldest_row(&self) -> Result<Option<i64>, Error> {
        let query = "SELECT start_us FROM tests WHERE state <> 'running' ORDER BY start_us LIMIT 1";
        let oldest = self.connection.query_row(query, [], |row| row.get(0));
        oldest.optional().map_err(self.failed("read"))
    }

    /// Replaces the rows of an hour by one for each pair and kind of test.
    fn roll_up(&mut self, hour_us: i64) -> Result<(), Error> {
        let of_hour = "state <> 'running' AND start_us >= ?1 AND start_us < ?2";
        let insert = format!(
            "INSERT INTO hours
             SELECT lead, peer, kind, ?1, sum(state = 'finished'), sum(state = 'failed'), sum(state = 'not_run'),
                 count(goodput_bps), total(goodput_bps), min(goodput_bps), max(goodput_bps),
                 count(loss_share), total(loss_share), count(typical_rtt_us), total(typical_rtt_us), min(min_rtt_us),
                 (SELECT verdict FROM tests AS same WHERE {of_hour} AND same.lead = tests.lead AND same.peer = tests.peer
                      AND same.kind = tests.kind AND verdict IS NOT NULL
                  GROUP BY verdict ORDER BY count(*) DESC, verdict LIMIT 1)
             FROM tests WHERE {of_hour} GROUP BY lead, peer, kind
             ON CONFLICT (lead, peer, kind, hour_us) DO UPDATE SET
                 finished = finished + excluded.finished, failed = failed + excluded.failed,
                 not_run = not_run + excluded.not_run, goodputs = goodputs + excluded.goodputs,
                 goodput_sum_bps = goodput_sum_bps + excluded.goodput_sum_bps,
                 min_goodput_bps = min(ifnull(min_goodput_bps, excluded.min_goodput_bps),
                     ifnull(excluded.min_goodput_bps, min_goodput_bps)),
                 max_goodput_bps = max(ifnull(max_goodput_bps, excluded.max_goodput_bps),
                     ifnull(excluded.max_goodput_bps, max_goodput_bps)),
                 losses = losses + excluded.losses, loss_sum = loss_sum + excluded.loss_sum,
                 rtts = rtts + excluded.rtts, rtt_sum_us = rtt_sum_us + excluded.rtt_sum_us,
                 min_rtt_us = min(ifnull(min_rtt_us, excluded.min_rtt_us), ifnull(excluded.min_rtt_us, min_rtt_us)),
                 verdict = ifnull(verdict, excluded.verdict)"
        );
        self.write(|transaction| {
            let hour = params![hour_us, hour_us + HOUR_US];
            transaction.execute(&insert, hour)?;
            let outbox = format!("DELETE FROM outbox WHERE id IN (SELECT id FROM tests WHERE {of_hour})");
            transaction.execute(&outbox, hour)?;
            transaction.execute(&format!("DELETE FROM tests WHERE {of_hour}"), hour).map(drop)
        })
    }

    /// The hours of a pair since a time, oldest first.
    pub fn hours(&self, from: &str, to: &str, since_us: i64) -> Result<Vec<HourRow>, Error> {
        let query =
            "SELECT kind, hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps,
                 max_goodput_bps, losses, loss_sum, min_rtt_us, rtts, rtt_sum_us, verdict
             FROM hours WHERE lead = ?1 AND peer = ?2 AND hour_us >= ?3 ORDER BY hour_us, kind";
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let mean = |count: i64, sum: f64| (count > 0).then(|| sum / count as f64);
        let rows = statement.query_map(params![from, to, since_us], |row| {
            Ok(HourRow {
                kind: row.get(0)?,
                start_us: row.get(1)?,
                finished: count(row, 2)?,
                failed: count(row, 3)?,
                not_run: count(row, 4)?,
                goodput_bps: mean(row.get(5)?, row.get(6)?),
                min_goodput_bps: row.get(7)?,
                max_goodput_bps: row.get(8)?,
                loss_share: mean(row.get(9)?, row.get(10)?),
                min_rtt_us: row.get(11)?,
                typical_rtt_us: mean(row.get(12)?, row.get(13)?),
                verdict: row.get(14)?,
            })
        });
        rows.map_err(self.failed("read"))?.collect::<Result<_, _>>().map_err(self.failed("read"))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, path::Path};

    use super::*;
    use crate::{
        archive::{Filter, State, TestRow, tests::row as archive_row},
        test::Figures,
    };

    fn row(id: &str, start_us: i64, goodput_bps: f64, verdict: &str) -> TestRow {
        TestRow {
            figures: Figures {
                goodput_bps: Some(goodput_bps),
                min_rtt_us: Some(goodput_bps / 2.0),
                verdict: Some(verdict.into()),
                ..Figures::default()
            },
            record: Some(format!("runs/{id}")),
            ..archive_row(id, start_us)
        }
    }

    /// Applies all steps that are due; returns the removed records.
    fn apply_retention(archive: &mut Archive, now_us: i64, retention: &Retention) -> Vec<String> {
        let removed = RefCell::new(Vec::new());
        while archive
            .apply_retention(now_us, retention, |record| removed.borrow_mut().push(record.into()))
            .unwrap()
        {}
        removed.into_inner()
    }

    #[test]
    fn old_rows_become_hours_and_old_records_are_removed_first() {
        let mut archive = Archive::open(Path::new(":memory:")).unwrap();
        let start = 1000 * DAY_US;
        let at = |hour: i64, minute: i64| start + hour * HOUR_US + minute * 60_000_000;
        for (id, time, goodput, verdict) in [
            ("a/1", at(0, 5), 10.0, "loss"),
            ("a/2", at(0, 20), 20.0, "path_rate"),
            ("a/3", at(0, 50), 60.0, "path_rate"),
            ("a/4", at(1, 5), 40.0, "path_rate"),
        ] {
            archive.put(&row(id, time, goodput, verdict), &["b".into()]).unwrap();
        }
        archive.put(&TestRow { state: State::Running, ..row("a/5", at(0, 1), 1.0, "loss") }, &[]).unwrap();
        let retention = Retention { records_days: 1, tests_days: 2, hours_days: 3 };
        let rows = |archive: &Archive| {
            let all = archive.list(&Filter { limit: 100, ..Filter::default() }).unwrap();
            all.into_iter().map(|row| row.id).collect::<Vec<_>>()
        };
        assert_eq!(apply_retention(&mut archive, at(24, 0), &retention), Vec::<String>::new());
        assert_eq!(
            apply_retention(&mut archive, at(24, 30), &retention),
            ["runs/a/5", "runs/a/1", "runs/a/2"]
        );
        assert_eq!(rows(&archive).len(), 5);
        // The hour is complete only after its end.
        apply_retention(&mut archive, at(48, 59), &retention);
        assert_eq!(rows(&archive).len(), 5);
        apply_retention(&mut archive, at(49, 0), &retention);
        assert_eq!(rows(&archive), ["a/4", "a/5"], "a test that runs is kept");
        let hours = archive.hours("a", "b", 0).unwrap();
        let [hour] = &hours[..] else { panic!("{hours:?}") };
        assert_eq!((hour.start_us, hour.finished, hour.goodput_bps), (start, 3, Some(30.0)));
        assert_eq!((hour.min_goodput_bps, hour.max_goodput_bps), (Some(10.0), Some(60.0)));
        assert_eq!((hour.min_rtt_us, hour.loss_share), (Some(5.0), None));
        assert_eq!(hour.verdict.as_deref(), Some("path_rate"));
        // A result that arrives late is added to its hour.
        archive.put(&row("b/9", at(0, 30), 110.0, "loss"), &[]).unwrap();
        apply_retention(&mut archive, at(49, 1), &retention);
        let hours = archive.hours("a", "b", 0).unwrap();
        assert_eq!((hours[0].finished, hours[0].goodput_bps), (4, Some(50.0)));
        assert_eq!((hours[0].min_goodput_bps, hours[0].max_goodput_bps), (Some(10.0), Some(110.0)));
        // Hours end too; the counts of the pair do not.
        apply_retention(&mut archive, at(73, 0), &retention);
        assert_eq!(archive.hours("a", "b", 0).unwrap().len(), 1);
        assert_eq!(archive.pairs().unwrap()[0].tests.finished, 5);
        assert!(archive.unsent().unwrap().is_empty());
    }
}
