//! Writes a large archive for benchmarks in bulk, which is faster than adding the results one by one as an
//! agent does.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::{Error, Figures, Retention, State, TestRow, archive::Archive, database::DatabaseError};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
/// Time between two tests of the same kind and pair.
const EVERY_US: i64 = 6 * HOUR_US;
/// Number of changes of a pair's cause in a year.
const CHANGES: i64 = 5;
const KINDS: [&str; 2] = ["throughput", "latency"];
const EVIDENCE: &str = "in 82 % of the samples after 0.8 s the receive window of 4.2 MB limited the flow";

/// The size of an archive.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Single tests.
    pub tests: u64,
    /// Hourly averages.
    pub hours: u64,
}

/// The name of a point.
pub fn point(number: usize) -> String {
    format!("p{number:02}")
}

/// Fills an archive with a year of results of a mesh, until `now_us`: each pair is tested every six hours by
/// a throughput test and a latency test. Single tests cover the time of the default retention; hourly
/// averages cover the time before it.
///
/// # Errors
/// If SQLite fails.
pub fn fill_archive(path: &Path, points: usize, now_us: i64) -> Result<Size, Error> {
    drop(Archive::open(path, None)?);
    let size = fill(path, points, now_us).map_err(|cause| Error::Archive {
        operation: "fill",
        archive: path.display().to_string(),
        cause: Box::new(DatabaseError::from(cause)),
    })?;
    let mut archive = Archive::open(path, None)?;
    // The last round is added result by result, as an agent does.
    for (number, (from, to)) in pairs(points).enumerate() {
        for kind in 0..KINDS.len() {
            archive.put_in_batch(&row(number, &from, &to, kind, now_us / EVERY_US * EVERY_US), &[])?;
        }
    }
    archive.commit()?;
    Ok(size)
}

/// Replaces the oldest hour of tests in an archive by hourly averages; returns whether there was one.
///
/// # Errors
/// If SQLite fails.
pub fn replace_an_hour(path: &Path, now_us: i64) -> Result<bool, Error> {
    Archive::open(path, None)?.apply_retention(
        now_us,
        &Retention { records_days: 366, ..Retention::default() },
        "",
        |_| {},
    )
}

fn pairs(points: usize) -> impl Iterator<Item = (String, String)> {
    let others = move |from: usize| (0..points).filter(move |to| *to != from).map(move |to| (from, to));
    (0..points).flat_map(others).map(|(from, to)| (point(from), point(to)))
}

fn row(pair: usize, from: &str, to: &str, kind: usize, round_us: i64) -> TestRow {
    let offset_us = (pair as i64 * 2_180_000) % EVERY_US;
    let start_us = round_us + offset_us + kind as i64 * 60_000_000;
    let is_throughput = kind == 0;
    let noise = ((start_us / 1_000_000) % 97) as f64;
    let verdict = if pair.is_multiple_of(7) { "receive_window" } else { "path_rate" };
    TestRow {
        id: format!("{from}/{}", start_us / 1_000_000 * 2 + kind as i64),
        from: from.into(),
        to: to.into(),
        kind: KINDS[kind].into(),
        options: None,
        task: Some(format!("{}-to-{to}", KINDS[kind])),
        start_us,
        duration_us: 10_000_000,
        state: State::Finished,
        reason: None,
        reason_kind: None,
        figures: Figures {
            goodput_bps: is_throughput.then_some(9e8 + noise * 1e5),
            loss_share: Some(noise / 1e6),
            min_rtt_us: Some(50_000.0 + noise),
            typical_rtt_us: Some(51_000.0 + noise),
            verdict: is_throughput.then(|| verdict.into()),
            evidence: is_throughput.then(|| EVIDENCE.into()),
            ..Figures::default()
        },
        record: Some(format!("/var/lib/longfat-agent/state/runs/test-{to}.example/20261125T125026Z-test")),
    }
}

fn fill(path: &Path, points: usize, now_us: i64) -> rusqlite::Result<Size> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;",
    )?;
    // Building the indices at the end is faster than updating them with each row.
    let indices = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
    let indices: Vec<(String, String)> = connection
        .prepare(indices)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, _) in &indices {
        connection.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    let now_us = now_us / EVERY_US * EVERY_US;
    let (first_us, kept_us) = (now_us - 365 * DAY_US, now_us - 90 * DAY_US);
    let mut size = Size::default();
    let transaction = connection.transaction()?;
    {
        let mut hour = transaction.prepare(
            "INSERT INTO hours (lead, peer, kind, options, hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps,
                 max_goodput_bps, losses, loss_sum, rtts, rtt_sum_us, min_rtt_us, verdict)
             VALUES (?1, ?2, ?3, '', ?4, 1, 0, 0, ?5, ?6, ?7, ?7, 1, 1e-6, 1, 51000.0, 50000.0, ?8)",
        )?;
        let mut pair_row = transaction.prepare(
            "INSERT INTO pairs (lead, peer, finished, failed, refused, not_run, best_goodput_bps, cause_kind, cause_start_us, cause, cause_id)
             VALUES (?1, ?2, ?3, 0, 0, 0, 9.1e8, 'throughput', ?4, ?5, ?6)",
        )?;
        let mut change =
            transaction.prepare("INSERT INTO causes VALUES (?1, ?2, 'throughput', ?3, ?4, ?5, 0)")?;
        for (number, (from, to)) in pairs(points).enumerate() {
            for index in 0..CHANGES {
                let start_us = first_us + index * (365 / CHANGES) * DAY_US + number as i64;
                let cause = if index % 2 == 0 { "path_rate" } else { "receive_window" };
                let id = format!("{from}/{index}");
                change.execute(params![from, to, start_us, cause, id])?;
                if index == CHANGES - 1 {
                    let tests = 365 * 4 * KINDS.len() as i64;
                    pair_row.execute(params![from, to, tests, start_us, cause, id])?;
                }
            }
            for round_us in (first_us..kept_us).step_by(EVERY_US as usize) {
                for kind in (0..KINDS.len()).rev() {
                    let test = row(number, &from, &to, kind, round_us);
                    let goodput = test.figures.goodput_bps;
                    hour.execute(params![
                        from,
                        to,
                        test.kind,
                        test.start_us / HOUR_US * HOUR_US,
                        i64::from(goodput.is_some()),
                        goodput.unwrap_or(0.0),
                        goodput,
                        test.figures.verdict
                    ])?;
                    size.hours += 1;
                }
            }
        }
        let mut insert = transaction.prepare(
            "INSERT INTO tests (id, lead, peer, kind, task, start_us, duration_us, state, goodput_bps, loss_share,
                 min_rtt_us, typical_rtt_us, verdict, evidence, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'finished', ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        for round_us in (kept_us..now_us).step_by(EVERY_US as usize) {
            for (number, (from, to)) in pairs(points).enumerate() {
                for kind in 0..KINDS.len() {
                    let test = row(number, &from, &to, kind, round_us);
                    let figures = &test.figures;
                    insert.execute(params![
                        test.id,
                        from,
                        to,
                        test.kind,
                        test.task,
                        test.start_us,
                        test.duration_us,
                        figures.goodput_bps,
                        figures.loss_share,
                        figures.min_rtt_us,
                        figures.typical_rtt_us,
                        figures.verdict,
                        figures.evidence,
                        test.record
                    ])?;
                    size.tests += 1;
                }
            }
        }
        transaction.execute("INSERT INTO states VALUES ('finished', ?1)", params![size.tests as i64])?;
    }
    transaction.commit()?;
    for (_, create) in &indices {
        connection.execute_batch(create)?;
    }
    Ok(size)
}
