//! Statistics of each pair of points: counts of its tests, the best goodput, the newest results, and the
//! cause that limits it.
//!
//! The table `pairs` has a narrow row for each pair, with all figures that views of the whole mesh show. So
//! all 9,900 pairs of 100 points are read in one pass.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    causes::{CHANGE, CauseChange, last_change, read_change, update_cause},
    columns::{COLUMNS, read},
};
use crate::{
    State, TestRow,
    database::sql::{self, Database, Field, Row, placeholders, read_all, read_first, values},
};

/// The columns of `pairs`. The newest results remain after the rows of their tests have been removed.
const PAIR: &str = "lead, peer, finished, failed, refused, not_run, best_goodput_bps,
    throughput_kind, throughput_start_us, throughput_goodput_bps, throughput_loss_share, throughput_min_rtt_us, throughput_typical_rtt_us,
    throughput_options, latency_kind, latency_start_us, latency_goodput_bps, latency_loss_share, latency_min_rtt_us, latency_typical_rtt_us,
    latency_options,
    conclusion_start_us, conclusion_cause, conclusion_reason,
    cause_kind, cause_start_us, cause, cause_id,
    tested_kind, tested_start_us, probe_start_us, probe_capacity_bps, probe_available_bps, trace_start_us, trace_mtu_bytes, trace_hops";

/// Fills [`PairFacts::tested`] in an archive whose format lacked it. Of a pair without such a test among the
/// kept ones, it is the result that decides. The conditions are those of [`shows_path`].
pub(super) const FIND_NEWEST_TESTS: &str = "
    UPDATE pairs SET tested_kind = throughput_kind, tested_start_us = coalesce(
        (SELECT tests.start_us FROM tests WHERE tests.lead = pairs.lead AND tests.peer = pairs.peer AND tests.kind = pairs.throughput_kind
             AND tests.state <> 'running' AND tests.verdict IS NOT NULL AND tests.goodput_bps IS NOT NULL
         ORDER BY tests.start_us DESC LIMIT 1),
        throughput_start_us)";

/// Throughput tests with other options decide on a pair if the tests with its options have had no result for
/// longer than this, microseconds.
const OPTIONS_TIMEOUT_US: i64 = 2 * 86_400_000_000;

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

/// The newest result of some kinds of tests.
#[derive(Debug, Clone, PartialEq)]
pub struct NewestResult {
    /// The kind of the test.
    pub kind: String,
    /// The options of the test, if it had any.
    pub options: Option<String>,
    /// Its start, microseconds since 1970.
    pub start_us: i64,
    /// Goodput, bit/s.
    pub goodput_bps: Option<f64>,
    /// Share of lost or retransmitted packets.
    pub loss_share: Option<f64>,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: Option<f64>,
    /// Typical round-trip time, microseconds.
    pub typical_rtt_us: Option<f64>,
}

/// Kind and start of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStart {
    /// The kind of the test.
    pub kind: String,
    /// Its start, microseconds since 1970.
    pub start_us: i64,
}

/// The newest probe with a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewestProbe {
    /// Its start, microseconds since 1970.
    pub start_us: i64,
    /// Capacity of the narrowest link, bit/s of IP; `None` if it is inconclusive.
    pub capacity_bps: Option<f64>,
    /// Available bandwidth, bit/s of IP; `None` if it is inconclusive.
    pub available_bps: Option<f64>,
}

/// The newest trace with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestTrace {
    /// Its start, microseconds since 1970.
    pub start_us: i64,
    /// Path MTU, bytes of IP; `None` if the search for it is incomplete.
    pub mtu_bytes: Option<u64>,
    /// Number of hops to the other end; `None` if the other end did not reply.
    pub hops: Option<u64>,
}

/// What the newest conclusive test found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// The start of the test, microseconds since 1970.
    pub start_us: i64,
    /// The cause.
    pub cause: String,
    /// Why the test has no result.
    pub reason: Option<String>,
}

/// Statistics of a pair of points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairFacts {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Number of its tests.
    pub tests: TestCounts,
    /// The best goodput of TCP so far, bit/s.
    pub best_goodput_bps: Option<f64>,
    /// The newest throughput test by TCP with a result and the options that decide on the pair; without one,
    /// the newest diagnosis.
    pub throughput: Option<NewestResult>,
    /// The newest throughput test by TCP with a result, whatever its options; without one, the newest
    /// diagnosis. It shows whether tests of the pair are missing.
    pub tested: Option<TestStart>,
    /// The newest latency test with a result.
    pub latency: Option<NewestResult>,
    /// The newest probe with a result.
    pub probe: Option<NewestProbe>,
    /// The newest trace with a result.
    pub trace: Option<NewestTrace>,
    /// The conclusion of the newest throughput test that has one; without one, of the newest diagnosis.
    pub conclusion: Option<Conclusion>,
    /// The last change of the cause: that of throughput tests; without one, of diagnoses.
    pub cause: Option<CauseChange>,
}

impl PairFacts {
    fn of_pair(from: &str, to: &str) -> PairFacts {
        PairFacts { from: from.into(), to: to.into(), ..PairFacts::default() }
    }

    /// Counts a test whose row replaced `before`.
    fn count(&mut self, row: &TestRow, before: Option<&TestRow>) {
        if row.state == State::Running {
            return;
        }
        if let Some(counter) = before.and_then(|before| self.tests.counter(before)) {
            *counter = counter.saturating_sub(1);
        }
        if let Some(counter) = self.tests.counter(row) {
            *counter += 1;
        }
    }

    /// Updates the best goodput of the tests that determine the cause. [`PairFacts::add_newest`] has added
    /// the test; `deciding` is the kind of tests that determined the cause before. A best goodput with other
    /// options does not count.
    fn add_best(&mut self, row: &TestRow, deciding: Option<&str>, has_new_options: bool) {
        if row.state != State::Finished || !shows_path(row) || self.deciding_kind() != Some(&row.kind) {
            return;
        }
        // Goodputs of diagnoses do not count beside those of throughput tests.
        let is_comparable = !has_new_options && (deciding != Some("diagnose") || row.kind == "diagnose");
        let before = self.best_goodput_bps.filter(|_| is_comparable);
        self.best_goodput_bps = [before, row.figures.goodput_bps].into_iter().flatten().reduce(f64::max);
    }

    /// Whether a test decides on the newest results, the best goodput and the cause of the pair. Throughput
    /// tests with different options are not comparable: those with the options of the newest result decide. A
    /// result of a test without options takes their place; other tests do so after [`OPTIONS_TIMEOUT_US`].
    /// Tests that start after `latest_start_us` are in the future by mistake.
    fn is_decided_by(&self, row: &TestRow, latest_start_us: i64) -> bool {
        let Some(newest) = self.newest_with_other_options(row) else { return true };
        let later_us = row.start_us.saturating_sub(newest.start_us);
        let takes_place = newest.start_us > latest_start_us
            || (later_us >= 0 && row.options.is_none() && shows_path(row))
            || later_us > OPTIONS_TIMEOUT_US;
        takes_place && row.start_us <= latest_start_us
    }

    /// The newest throughput test, if it had other options than this one.
    fn newest_with_other_options(&self, row: &TestRow) -> Option<&NewestResult> {
        let newest = self.throughput.as_ref().filter(|newest| newest.kind == row.kind);
        newest.filter(|newest| newest.options != row.options)
    }

    /// The kind of tests from which the cause is taken: throughput tests; if there are none, diagnoses.
    fn deciding_kind(&self) -> Option<&str> {
        let kinds = [
            self.throughput.as_ref().map(|newest| &newest.kind),
            self.cause.as_ref().map(|cause| &cause.kind),
        ];
        let kinds = kinds.into_iter().flatten().map(String::as_str);
        kinds.max_by_key(|kind| *kind == "throughput")
    }

    /// Keeps the start of a test, whatever its options, unless that of a newer one is already kept. Tests
    /// that start after `latest_start_us` are in the future by mistake.
    fn add_start(&mut self, row: &TestRow, latest_start_us: i64) {
        if !shows_path(row) || row.start_us > latest_start_us {
            return;
        }
        let is_newest = self.tested.as_ref().is_none_or(|old| {
            old.start_us > latest_start_us || replaces((&row.kind, row.start_us), (&old.kind, old.start_us))
        });
        if is_newest {
            self.tested = Some(TestStart { kind: row.kind.clone(), start_us: row.start_us });
        }
    }

    /// Keeps the figures of a probe or a trace, unless those of a newer one are already kept.
    fn add_path_figures(&mut self, row: &TestRow, latest_start_us: i64) {
        if row.state != State::Finished {
            return;
        }
        let is_newest = |old_start_us: Option<i64>| {
            old_start_us.is_none_or(|old| row.start_us >= old || old > latest_start_us)
        };
        let (start_us, figures) = (row.start_us, &row.figures);
        match row.kind.as_str() {
            "probe" if is_newest(self.probe.map(|probe| probe.start_us)) => {
                let (capacity_bps, available_bps) = (figures.capacity_bps, figures.available_bps);
                self.probe = Some(NewestProbe { start_us, capacity_bps, available_bps });
            }
            "trace" if is_newest(self.trace.map(|trace| trace.start_us)) => {
                let (mtu_bytes, hops) = (figures.mtu_bytes, figures.hops);
                self.trace = Some(NewestTrace { start_us, mtu_bytes, hops });
            }
            _ => {}
        }
    }

    /// Keeps the result and the conclusion of a test, unless those of a newer test are already kept. Tests
    /// that start after `latest_start_us` are in the future by mistake.
    fn add_newest(&mut self, row: &TestRow, latest_start_us: i64) {
        if row.start_us > latest_start_us {
            return;
        }
        self.add_path_figures(row, latest_start_us);
        let is_of_path = matches!(row.kind.as_str(), "throughput" | "diagnose");
        // From the first throughput test on, throughput tests determine the cause.
        let is_decided_by_others = row.kind != "throughput" && self.deciding_kind() == Some("throughput");
        let is_first = row.kind == "throughput" && self.deciding_kind() == Some("diagnose");
        let shown = match row.kind.as_str() {
            _ if shows_path(row) => Some(&mut self.throughput),
            "latency" if row.state == State::Finished => Some(&mut self.latency),
            _ => None,
        };
        let shown = shown.filter(|shown| {
            shown.as_ref().is_none_or(|old| {
                old.start_us > latest_start_us
                    || replaces((&row.kind, row.start_us), (&old.kind, old.start_us))
            })
        });
        if let Some(shown) = shown {
            *shown = Some(NewestResult {
                kind: row.kind.clone(),
                options: row.options.clone(),
                start_us: row.start_us,
                goodput_bps: row.figures.goodput_bps,
                loss_share: row.figures.loss_share,
                min_rtt_us: row.figures.min_rtt_us,
                typical_rtt_us: row.figures.typical_rtt_us,
            });
        }
        let is_newest = self
            .conclusion
            .as_ref()
            .is_none_or(|old| row.start_us >= old.start_us || old.start_us > latest_start_us);
        let concludes = is_of_path && !is_decided_by_others && (is_newest || is_first);
        if let Some(cause) = row.cause().filter(|_| concludes) {
            self.conclusion = Some(Conclusion { start_us: row.start_us, cause, reason: row.reason.clone() });
        }
    }

    fn add_change(&mut self, change: CauseChange) {
        let new = (change.kind.as_str(), change.since_us);
        if self.cause.as_ref().is_none_or(|old| replaces(new, (&old.kind, old.since_us))) {
            self.cause = Some(change);
        }
    }
}

/// Whether a test shows what TCP gets on the path: a UDP test sends at a fixed rate and has no verdict.
fn shows_path(row: &TestRow) -> bool {
    matches!(row.kind.as_str(), "throughput" | "diagnose")
        && row.state != State::Running
        && row.figures.verdict.is_some()
        && row.figures.goodput_bps.is_some()
}

/// Whether a result of a kind and start replaces an older one. A diagnosis counts only if there is no
/// throughput test.
fn replaces((kind, start_us): (&str, i64), (old_kind, old_start_us): (&str, i64)) -> bool {
    match (kind == "throughput", old_kind == "throughput") {
        (true, false) => true,
        (false, true) => false,
        _ => start_us >= old_start_us,
    }
}

impl TestCounts {
    /// The counter to which a test adds; `None` while it runs.
    fn counter(&mut self, row: &TestRow) -> Option<&mut u64> {
        match row.state {
            State::Running => None,
            State::Finished => Some(&mut self.finished),
            State::Failed => Some(&mut self.failed),
            State::NotRun if row.reason_kind.as_deref() == Some("rule") => Some(&mut self.refused),
            State::NotRun => Some(&mut self.not_run),
        }
    }
}

/// Updates the pair's statistics for a row that replaced `before`.
pub(super) fn update_pair(
    database: &dyn Database,
    row: &TestRow,
    before: Option<&TestRow>,
    latest_start_us: i64,
) -> sql::Result<()> {
    let known = read_pair(database, &row.from, &row.to)?;
    let mut pair = known.clone().unwrap_or_else(|| PairFacts::of_pair(&row.from, &row.to));
    pair.count(row, before);
    if pair.cause.as_ref().is_some_and(|cause| cause.since_us > latest_start_us) {
        pair.cause = last_change(database, &row.from, &row.to, latest_start_us)?;
    }
    pair.add_start(row, latest_start_us);
    if pair.is_decided_by(row, latest_start_us) {
        let deciding = pair.deciding_kind().map(str::to_owned);
        let has_new_options = pair.newest_with_other_options(row).is_some();
        pair.add_newest(row, latest_start_us);
        pair.add_best(row, deciding.as_deref(), has_new_options);
        if let Some(change) = update_cause(database, row, latest_start_us)? {
            pair.add_change(change);
        }
    }
    if known.as_ref() == Some(&pair) { Ok(()) } else { write_pair(database, &pair) }
}

/// The statistics of each pair, ordered by names.
pub(super) fn read_pairs(database: &dyn Database) -> sql::Result<Vec<PairFacts>> {
    read_all(database, &format!("SELECT {PAIR} FROM pairs ORDER BY lead, peer"), &[], facts)
}

/// The statistics of a pair; `None` if it has no tests.
pub(super) fn read_pair(database: &dyn Database, from: &str, to: &str) -> sql::Result<Option<PairFacts>> {
    let query = format!("SELECT {PAIR} FROM pairs WHERE lead = ?1 AND peer = ?2");
    read_first(database, &query, values![from, to], facts)
}

fn write_pair(database: &dyn Database, pair: &PairFacts) -> sql::Result<()> {
    let PairFacts {
        from,
        to,
        tests,
        best_goodput_bps,
        throughput,
        tested,
        latency,
        probe,
        trace,
        conclusion,
        cause,
    } = pair;
    let mut values =
        values![from, to, tests.finished, tests.failed, tests.refused, tests.not_run, best_goodput_bps]
            .to_vec();
    for newest in [throughput, latency] {
        let newest = newest.as_ref();
        values.extend([
            newest.map(|newest| newest.kind.clone()).to_value(),
            newest.map(|newest| newest.start_us).to_value(),
            newest.and_then(|newest| newest.goodput_bps).to_value(),
            newest.and_then(|newest| newest.loss_share).to_value(),
            newest.and_then(|newest| newest.min_rtt_us).to_value(),
            newest.and_then(|newest| newest.typical_rtt_us).to_value(),
            newest.and_then(|newest| newest.options.clone()).to_value(),
        ]);
    }
    let (conclusion, cause) = (conclusion.as_ref(), cause.as_ref());
    values.extend([
        conclusion.map(|conclusion| conclusion.start_us).to_value(),
        conclusion.map(|conclusion| conclusion.cause.clone()).to_value(),
        conclusion.and_then(|conclusion| conclusion.reason.clone()).to_value(),
        cause.map(|change| change.kind.clone()).to_value(),
        cause.map(|change| change.since_us).to_value(),
        cause.map(|change| change.cause.clone()).to_value(),
        cause.map(|change| change.test.clone()).to_value(),
    ]);
    let tested = tested.as_ref();
    values.extend([
        tested.map(|tested| tested.kind.clone()).to_value(),
        tested.map(|tested| tested.start_us).to_value(),
        probe.map(|probe| probe.start_us).to_value(),
        probe.and_then(|probe| probe.capacity_bps).to_value(),
        probe.and_then(|probe| probe.available_bps).to_value(),
        trace.map(|trace| trace.start_us).to_value(),
        trace.and_then(|trace| trace.mtu_bytes).to_value(),
        trace.and_then(|trace| trace.hops).to_value(),
    ]);
    let updates = PAIR.split(',').map(str::trim).map(|column| format!("{column} = excluded.{column}"));
    let insert = format!(
        "INSERT INTO pairs ({PAIR}) VALUES ({}) ON CONFLICT (lead, peer) DO UPDATE SET {}",
        placeholders(values.len()),
        updates.collect::<Vec<_>>().join(", ")
    );
    database.execute(&insert, &values).map(drop)
}

/// Reads the columns [`PAIR`].
fn facts(row: &mut Row<'_>) -> sql::Result<PairFacts> {
    let (from, to): (String, String) = (row.next()?, row.next()?);
    let tests =
        TestCounts { finished: row.next()?, failed: row.next()?, refused: row.next()?, not_run: row.next()? };
    let best_goodput_bps = row.next()?;
    let (throughput, latency) = (newest_result(row)?, newest_result(row)?);
    let conclusion: (Option<i64>, Option<String>, Option<String>) = (row.next()?, row.next()?, row.next()?);
    let cause: (Option<String>, Option<i64>, Option<String>, Option<String>) =
        (row.next()?, row.next()?, row.next()?, row.next()?);
    let tested: (Option<String>, Option<i64>) = (row.next()?, row.next()?);
    let probe: (Option<i64>, Option<f64>, Option<f64>) = (row.next()?, row.next()?, row.next()?);
    let trace: (Option<i64>, Option<u64>, Option<u64>) = (row.next()?, row.next()?, row.next()?);
    let tested = tested.0.zip(tested.1).map(|(kind, start_us)| TestStart { kind, start_us });
    let (probed_us, capacity_bps, available_bps) = probe;
    let probe = probed_us.map(|start_us| NewestProbe { start_us, capacity_bps, available_bps });
    let (traced_us, mtu_bytes, hops) = trace;
    let trace = traced_us.map(|start_us| NewestTrace { start_us, mtu_bytes, hops });
    let conclusion = match conclusion {
        (Some(start_us), Some(cause), reason) => Some(Conclusion { start_us, cause, reason }),
        _ => None,
    };
    let cause = match cause {
        (Some(kind), Some(since_us), Some(cause), Some(test)) => {
            Some(CauseChange { from: from.clone(), to: to.clone(), kind, since_us, cause, test })
        }
        _ => None,
    };
    Ok(PairFacts {
        from,
        to,
        tests,
        best_goodput_bps,
        throughput,
        tested,
        latency,
        probe,
        trace,
        conclusion,
        cause,
    })
}

fn newest_result(row: &mut Row<'_>) -> sql::Result<Option<NewestResult>> {
    let (kind, start_us): (Option<String>, Option<i64>) = (row.next()?, row.next()?);
    let (goodput_bps, loss_share) = (row.next()?, row.next()?);
    let (min_rtt_us, typical_rtt_us) = (row.next()?, row.next()?);
    let options = row.next()?;
    Ok(kind.zip(start_us).map(|(kind, start_us)| NewestResult {
        kind,
        options,
        start_us,
        goodput_bps,
        loss_share,
        min_rtt_us,
        typical_rtt_us,
    }))
}

/// Fills the table from those of an earlier version: `old_pairs` with the counts, `causes`, and in `newest`,
/// if there is such a table, copies of the newest tests; without one, all tests are read. Run
/// [`FIND_NEWEST_TESTS`] afterwards.
pub(super) fn convert(database: &dyn Database, has_newest: bool) -> sql::Result<()> {
    let mut pairs: BTreeMap<(String, String), PairFacts> = BTreeMap::new();
    let counts = "SELECT lead, peer, finished, failed, refused, not_run, best_goodput_bps FROM old_pairs";
    database.query(counts, &[], &mut |row| {
        let mut pair = PairFacts::of_pair(&row.next::<String>()?, &row.next::<String>()?);
        pair.tests = TestCounts {
            finished: row.next()?,
            failed: row.next()?,
            refused: row.next()?,
            not_run: row.next()?,
        };
        pair.best_goodput_bps = row.next()?;
        pairs.insert((pair.from.clone(), pair.to.clone()), pair);
        Ok(())
    })?;
    let source = if has_newest { "newest" } else { "tests" };
    database.query(&format!("SELECT {COLUMNS} FROM {source} ORDER BY start_us"), &[], &mut |row| {
        let row = read(row)?;
        if let Some(pair) = pairs.get_mut(&(row.from.clone(), row.to.clone())) {
            pair.add_newest(&row, i64::MAX);
        }
        Ok(())
    })?;
    database.query(&format!("SELECT {CHANGE} FROM causes"), &[], &mut |row| {
        let change = read_change(row)?;
        if let Some(pair) = pairs.get_mut(&(change.from.clone(), change.to.clone())) {
            pair.add_change(change);
        }
        Ok(())
    })?;
    pairs.values().try_for_each(|pair| write_pair(database, pair))?;
    database.batch("DROP TABLE old_pairs; DROP TABLE IF EXISTS newest")
}

#[cfg(test)]
pub(super) mod tests;
