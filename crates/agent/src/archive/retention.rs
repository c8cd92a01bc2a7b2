//! Old rows become hourly averages; old records and averages are removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Archive, rows::add_to_state};
use crate::{
    Error,
    database::sql::{self, Field, Row, read_all, read_first, values},
};

/// Microseconds of an hour and of a day.
pub(super) const HOUR_US: i64 = 3_600_000_000;
pub(super) const DAY_US: i64 = 24 * HOUR_US;
/// Maximum number of records that one step removes: a step blocks the agent's event loop.
const RECORDS_PER_STEP: u32 = 20;

/// The columns of `hours` to which rows are added.
const SUMS: [&str; 13] = [
    "finished",
    "failed",
    "not_run",
    "goodputs",
    "goodput_sum_bps",
    "losses",
    "loss_sum",
    "rtts",
    "rtt_sum_us",
    "capacities",
    "capacity_sum_bps",
    "availables",
    "available_sum_bps",
];
/// The columns of `hours` with the smallest value.
const MINIMA: [&str; 6] =
    ["min_goodput_bps", "min_rtt_us", "min_capacity_bps", "min_available_bps", "min_mtu_bytes", "min_hops"];
/// The columns of `hours` with the largest value.
const MAXIMA: [&str; 5] =
    ["max_goodput_bps", "max_capacity_bps", "max_available_bps", "max_mtu_bytes", "max_hops"];

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
        Retention { records_days: 90, tests_days: 90, hours_days: 3660 }
    }
}

/// The tests of a pair in an hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HourRow {
    /// The kind of test.
    pub kind: String,
    /// The options of the tests, as in `parallel=4`; `null` for tests without options.
    #[serde(default)]
    pub options: Option<String>,
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
    /// Of probes, the mean capacity of the narrowest link, bit/s of IP.
    pub capacity_bps: Option<f64>,
    /// Smallest capacity that a probe found, bit/s of IP.
    pub min_capacity_bps: Option<f64>,
    /// Largest capacity that a probe found, bit/s of IP.
    pub max_capacity_bps: Option<f64>,
    /// Of probes, the mean available bandwidth, bit/s of IP.
    pub available_bps: Option<f64>,
    /// Smallest available bandwidth that a probe found, bit/s of IP.
    pub min_available_bps: Option<f64>,
    /// Largest available bandwidth that a probe found, bit/s of IP.
    pub max_available_bps: Option<f64>,
    /// Of traces, the smallest path MTU, bytes of IP.
    pub min_mtu_bytes: Option<u64>,
    /// Of traces, the largest path MTU, bytes of IP.
    pub max_mtu_bytes: Option<u64>,
    /// Of traces, the smallest number of hops.
    pub min_hops: Option<u64>,
    /// Of traces, the largest number of hops.
    pub max_hops: Option<u64>,
    /// The most frequent verdict.
    pub verdict: Option<String>,
}

impl Archive {
    /// Applies one step of the retention: removes at most `RECORDS_PER_STEP` records, or replaces an hour of
    /// rows. Returns whether more steps are due. `remove` removes the record at a path; it is called for
    /// tests that the point `own` led, because the records of other tests are on other hosts.
    pub fn apply_retention(
        &mut self,
        now_us: i64,
        retention: &Retention,
        own: &str,
        remove: impl Fn(&str),
    ) -> Result<bool, Error> {
        let before = |days: u32| now_us.saturating_sub(i64::from(days).saturating_mul(DAY_US));
        let records = self.records_before(before(retention.records_days))?;
        for (id, lead, record) in &records {
            // Files are removed first: if the agent is killed in between, a row without its record remains,
            // not a record without its row.
            if lead == own {
                remove(record);
            }
            let update = "UPDATE tests SET record = NULL WHERE id = ?1";
            self.write(|database| database.execute(update, values![id]).map(drop))?;
        }
        if records.len() == RECORDS_PER_STEP as usize {
            return Ok(true);
        }
        self.apply_retention_to_rows(now_us, retention)
    }

    /// Applies retention to the rows alone.
    pub(super) fn apply_retention_to_rows(
        &mut self,
        now_us: i64,
        retention: &Retention,
    ) -> Result<bool, Error> {
        let before = |days: u32| now_us.saturating_sub(i64::from(days).saturating_mul(DAY_US));
        let oldest = self.oldest_row()?;
        let end = before(retention.tests_days).div_euclid(HOUR_US) * HOUR_US;
        if let Some(oldest) = oldest.filter(|oldest| *oldest < end) {
            self.roll_up(oldest.div_euclid(HOUR_US).saturating_mul(HOUR_US))?;
            return Ok(true);
        }
        let old = before(retention.hours_days);
        self.write(|database| {
            database.execute("DELETE FROM hours WHERE hour_us < ?1", values![old])?;
            // The last cause of a pair is kept.
            let old_causes = "DELETE FROM causes WHERE start_us < ?1 AND EXISTS (
                 SELECT 1 FROM causes AS newer WHERE newer.lead = causes.lead AND newer.peer = causes.peer
                     AND newer.kind = causes.kind AND newer.start_us > causes.start_us)";
            database.execute(old_causes, values![old]).map(drop)
        })?;
        Ok(false)
    }

    /// Ids, leads and paths of the oldest records that are due, at most [`RECORDS_PER_STEP`].
    fn records_before(&self, time_us: i64) -> Result<Vec<(String, String, String)>, Error> {
        let query = "SELECT id, lead, record FROM tests WHERE record IS NOT NULL AND start_us < ?1 ORDER BY start_us LIMIT ?2";
        let values = values![time_us, i64::from(RECORDS_PER_STEP)];
        let rows =
            read_all(&*self.database, query, values, |row| Ok((row.next()?, row.next()?, row.next()?)));
        rows.map_err(self.failed("read"))
    }

    /// The condition for rows that can be replaced: their tests are not running, and the common archive, if
    /// there is one, has stored them.
    fn replaceable_condition(&self) -> &'static str {
        match self.path {
            Some(_) => "state <> 'running' AND NOT EXISTS (SELECT 1 FROM spool WHERE spool.id = tests.id)",
            None => "state <> 'running'",
        }
    }

    fn oldest_row(&self) -> Result<Option<i64>, Error> {
        let query = format!(
            "SELECT start_us FROM tests WHERE {} ORDER BY start_us LIMIT 1",
            self.replaceable_condition()
        );
        read_first(&*self.database, &query, &[], |row| row.next()).map_err(self.failed("read"))
    }

    /// Replaces the rows of an hour by one hourly average for each pair, kind and options of tests.
    fn roll_up(&mut self, hour_us: i64) -> Result<(), Error> {
        let in_hour = "start_us >= ?1 AND start_us < ?2";
        let row_condition = format!("{} AND {in_hour}", self.replaceable_condition());
        let minima = MINIMA.into_iter().map(|column| extreme(column, '<'));
        let maxima = MAXIMA.into_iter().map(|column| extreme(column, '>'));
        let updates = SUMS.into_iter().map(added).chain(minima).chain(maxima);
        let insert = format!(
            "INSERT INTO hours
             SELECT lead, peer, kind, coalesce(options, ''), CAST(?1 AS BIGINT), {}, {}, {},
                 count(goodput_bps), coalesce(sum(goodput_bps), 0.0), min(goodput_bps), max(goodput_bps),
                 count(loss_share), coalesce(sum(loss_share), 0.0),
                 count(typical_rtt_us), coalesce(sum(typical_rtt_us), 0.0), min(min_rtt_us),
                 (SELECT verdict FROM tests AS same WHERE state <> 'running' AND {in_hour} AND same.lead = tests.lead
                      AND same.peer = tests.peer AND same.kind = tests.kind AND verdict IS NOT NULL
                      AND coalesce(same.options, '') = coalesce(tests.options, '')
                  GROUP BY verdict ORDER BY count(*) DESC, verdict LIMIT 1),
                 count(capacity_bps), coalesce(sum(capacity_bps), 0.0), min(capacity_bps), max(capacity_bps),
                 count(available_bps), coalesce(sum(available_bps), 0.0), min(available_bps), max(available_bps),
                 min(mtu_bytes), max(mtu_bytes), min(hops), max(hops)
             FROM tests WHERE {row_condition} GROUP BY lead, peer, kind, options
             ON CONFLICT (lead, peer, hour_us, kind, options) DO UPDATE SET
                 {}, verdict = coalesce(hours.verdict, excluded.verdict)",
            count_of("finished"),
            count_of("failed"),
            count_of("not_run"),
            updates.collect::<Vec<_>>().join(", "),
        );
        let is_embedded = self.path.is_some();
        self.write(|database| {
            let hour = values![hour_us, hour_us.saturating_add(HOUR_US)];
            database.execute(&insert, hour)?;
            if is_embedded {
                let outbox =
                    format!("DELETE FROM outbox WHERE id IN (SELECT id FROM tests WHERE {row_condition})");
                database.execute(&outbox, hour)?;
            }
            let counts = format!("SELECT state, count(*) FROM tests WHERE {row_condition} GROUP BY state");
            let read = |row: &mut Row<'_>| -> sql::Result<(String, i64)> { Ok((row.next()?, row.next()?)) };
            for (state, tests) in read_all(database, &counts, hour, read)? {
                add_to_state(database, &state, -tests)?;
            }
            database.execute(&format!("DELETE FROM tests WHERE {row_condition}"), hour).map(drop)
        })
    }

    /// The hourly averages of a pair since a time, oldest first.
    pub fn hours(&self, from: &str, to: &str, since_us: i64) -> Result<Vec<HourRow>, Error> {
        let query =
            "SELECT kind, options, hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps,
                 max_goodput_bps, losses, loss_sum, min_rtt_us, rtts, rtt_sum_us, capacities, capacity_sum_bps, min_capacity_bps,
                 max_capacity_bps, availables, available_sum_bps, min_available_bps, max_available_bps, min_mtu_bytes,
                 max_mtu_bytes, min_hops, max_hops, verdict
             FROM hours WHERE lead = ?1 AND peer = ?2 AND hour_us >= ?3 ORDER BY hour_us, kind, options";
        let rows = read_all(&*self.database, query, values![from, to, since_us], read_hour);
        rows.map_err(self.failed("read"))
    }
}

/// Counts rows of a state.
fn count_of(state: &str) -> String {
    format!("sum(CASE WHEN state = '{state}' THEN 1 ELSE 0 END)")
}

/// Adds the new rows' value to the hour's.
fn added(column: &str) -> String {
    format!("{column} = hours.{column} + excluded.{column}")
}

/// The smaller (`<`) or larger (`>`) of the hour's and the new rows' value; either may be null.
fn extreme(column: &str, order: char) -> String {
    format!(
        "{column} = CASE WHEN hours.{column} IS NULL OR excluded.{column} {order} hours.{column}
             THEN excluded.{column} ELSE hours.{column} END"
    )
}

fn read_hour(row: &mut Row<'_>) -> sql::Result<HourRow> {
    let mean = |count: i64, sum: f64| (count > 0).then(|| sum / count as f64);
    Ok(HourRow {
        kind: row.next()?,
        options: Some(row.next::<String>()?).filter(|options| !options.is_empty()),
        start_us: row.next()?,
        finished: row.next()?,
        failed: row.next()?,
        not_run: row.next()?,
        goodput_bps: mean(row.next()?, row.next()?),
        min_goodput_bps: row.next()?,
        max_goodput_bps: row.next()?,
        loss_share: mean(row.next()?, row.next()?),
        min_rtt_us: row.next()?,
        typical_rtt_us: mean(row.next()?, row.next()?),
        capacity_bps: mean(row.next()?, row.next()?),
        min_capacity_bps: row.next()?,
        max_capacity_bps: row.next()?,
        available_bps: mean(row.next()?, row.next()?),
        min_available_bps: row.next()?,
        max_available_bps: row.next()?,
        min_mtu_bytes: row.next()?,
        max_mtu_bytes: row.next()?,
        min_hops: row.next()?,
        max_hops: row.next()?,
        verdict: row.next()?,
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, path::Path};

    use super::*;
    use crate::{State, TestRow, archive::Filter, test::Figures, test_row::tests::row as archive_row};

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
            .apply_retention(now_us, retention, "a", |record| removed.borrow_mut().push(record.into()))
            .unwrap()
        {}
        removed.into_inner()
    }

    #[test]
    fn old_rows_become_hourly_averages_after_their_records_are_removed() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
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
        // The rows of an hour are replaced only when the whole hour is older than the retention.
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
        // Old hourly averages are removed too; the counts of the pair are not.
        apply_retention(&mut archive, at(73, 0), &retention);
        assert_eq!(archive.hours("a", "b", 0).unwrap().len(), 1);
        assert_eq!(archive.pairs().unwrap()[0].tests.finished, 5);
        assert_eq!(archive.unsent_count().unwrap(), 0);
    }

    #[test]
    fn tests_with_different_options_have_different_averages() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        let with = |options: Option<&str>, id: &str, goodput_bps: f64, verdict: &str| TestRow {
            options: options.map(str::to_owned),
            record: None,
            ..row(id, 1000 * DAY_US, goodput_bps, verdict)
        };
        for row in [
            with(None, "a/1", 10.0, "loss"),
            with(None, "a/2", 30.0, "loss"),
            with(Some("parallel=4"), "a/3", 100.0, "path_rate"),
            with(Some("congestion=bbr"), "a/4", 70.0, "path_rate"),
            with(Some("parallel=4"), "a/5", 300.0, "path_rate"),
        ] {
            archive.put(&row, &[]).unwrap();
        }
        let retention = Retention { records_days: 1, tests_days: 2, hours_days: 9 };
        apply_retention(&mut archive, 1003 * DAY_US, &retention);
        // A result that arrives late is added to its hour.
        archive.put(&with(Some("parallel=4"), "a/6", 500.0, "loss"), &[]).unwrap();
        apply_retention(&mut archive, 1003 * DAY_US, &retention);
        let hours = archive.hours("a", "b", 0).unwrap();
        let hours: Vec<_> = hours
            .iter()
            .map(|hour| (hour.options.as_deref(), hour.finished, hour.goodput_bps, hour.verdict.as_deref()))
            .collect();
        assert_eq!(
            hours,
            [
                (None, 2, Some(20.0), Some("loss")),
                (Some("congestion=bbr"), 1, Some(70.0), Some("path_rate")),
                (Some("parallel=4"), 3, Some(300.0), Some("path_rate")),
            ]
        );
    }

    #[test]
    fn figures_of_probes_and_traces_have_means_and_extremes_of_the_hour() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        let of_kind = |kind: &str, id: &str, figures: Figures| TestRow {
            kind: kind.into(),
            figures,
            record: None,
            ..archive_row(id, 1000 * DAY_US)
        };
        let probe = |id: &str, capacity_bps: Option<f64>, available_bps: f64| {
            let figures = Figures { capacity_bps, available_bps: Some(available_bps), ..Figures::default() };
            of_kind("probe", id, figures)
        };
        let trace = |id: &str, mtu_bytes: Option<u64>, hops: u64| {
            of_kind("trace", id, Figures { mtu_bytes, hops: Some(hops), ..Figures::default() })
        };
        for row in [
            probe("a/1", Some(1e9), 8e8),
            probe("a/2", None, 5e8),
            trace("a/3", Some(1500), 7),
            trace("a/4", None, 9),
            row("a/5", 1000 * DAY_US, 10.0, "loss"),
        ] {
            archive.put(&row, &[]).unwrap();
        }
        let retention = Retention { records_days: 1, tests_days: 2, hours_days: 9 };
        apply_retention(&mut archive, 1003 * DAY_US, &retention);
        // Results that arrive late are added to their hour.
        for row in [probe("a/6", Some(3e9), 2e8), trace("a/7", Some(1400), 8)] {
            archive.put(&row, &[]).unwrap();
        }
        apply_retention(&mut archive, 1003 * DAY_US, &retention);
        let hours = archive.hours("a", "b", 0).unwrap();
        let [probes, throughput, traces] = &hours[..] else { panic!("{hours:?}") };
        assert_eq!((probes.kind.as_str(), probes.finished), ("probe", 3));
        assert_eq!(
            (probes.capacity_bps, probes.min_capacity_bps, probes.max_capacity_bps),
            (Some(2e9), Some(1e9), Some(3e9))
        );
        assert_eq!(
            (probes.available_bps, probes.min_available_bps, probes.max_available_bps),
            (Some(5e8), Some(2e8), Some(8e8))
        );
        assert_eq!((probes.min_mtu_bytes, probes.max_hops, probes.goodput_bps), (None, None, None));
        assert_eq!((traces.kind.as_str(), traces.finished), ("trace", 3));
        assert_eq!((traces.min_mtu_bytes, traces.max_mtu_bytes), (Some(1400), Some(1500)));
        assert_eq!((traces.min_hops, traces.max_hops), (Some(7), Some(9)));
        assert_eq!((traces.capacity_bps, traces.min_available_bps), (None, None));
        assert_eq!((throughput.goodput_bps, throughput.capacity_bps), (Some(10.0), None));
        assert_eq!((throughput.min_mtu_bytes, throughput.max_hops), (None, None));
    }

    #[test]
    fn records_of_other_leads_are_kept_and_rows_with_the_earliest_start_are_replaced() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        // A row that members with an earlier version could store: its start is before 1970.
        archive.put(&TestRow { from: "b".into(), ..row("b/1", i64::MIN, 1.0, "loss") }, &[]).unwrap();
        archive.put(&row("a/1", 5, 1.0, "loss"), &[]).unwrap();
        let retention = Retention { records_days: 1, tests_days: 1, hours_days: 1 };
        assert_eq!(apply_retention(&mut archive, 1000 * DAY_US, &retention), ["runs/a/1"]);
        assert_eq!(archive.list(&Filter { limit: 9, ..Filter::default() }).unwrap(), []);
    }
}
