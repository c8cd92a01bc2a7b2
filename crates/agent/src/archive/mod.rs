//! The archive of a point: an SQLite index of tests and their figures over the records.
//!
//! One row for each reservation that this point leads and that has run or will not run, and for each result that another lead has sent.
//! A row is on the disk before the calendar records the test's end, and stays in the outbox until the other points have confirmed it.
//!
//! The same transaction updates the statistics of each pair of points: counts, the best goodput, and changes of the cause
//! ([`pairs`]). Old rows become hourly averages ([`retention`]).

mod pairs;
mod retention;

use std::path::{Path, PathBuf};

use reservation::PointName;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, sqlite::Format, test::Figures};

pub use pairs::{CauseChange, PairFacts, TestCounts};
pub use retention::{HourRow, Retention};

/// SQLite's application_id of the files that this program writes: "LFar".
const FORMAT: Format = Format { application: 0x4c46_6172, version: 2 };
/// Version of the format without pairs, causes and hours.
const FIRST_VERSION: i64 = 1;
/// The columns, in the order of [`read`].
const COLUMNS: &str = "id, lead, peer, kind, task, start_us, duration_us, state, reason, goodput_bps, loss_share, \
                       min_rtt_us, typical_rtt_us, verdict, evidence, record, reason_kind";
/// Timeout of a reader or writer that waits for a lock.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The state of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// It completed.
    Finished,
    /// It was started and did not complete.
    Failed,
    /// It was not started.
    NotRun,
}

impl State {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Finished => "finished",
            State::Failed => "failed",
            State::NotRun => "not_run",
        }
    }

    /// The state of this name.
    fn of(name: &str) -> State {
        let states = [State::Running, State::Finished, State::Failed, State::NotRun];
        states.into_iter().find(|known| known.name() == name).unwrap_or(State::Failed)
    }
}

/// A test in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestRow {
    /// The reservation.
    pub id: String,
    /// The point that led it, and measured.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The kind of test.
    pub kind: String,
    /// The recurring test that it belongs to.
    pub task: Option<String>,
    /// Start of its slot, or if it had none the earliest that was requested: microseconds since 1970, UTC.
    pub start_us: i64,
    /// Its length, microseconds.
    pub duration_us: i64,
    /// Its state.
    pub state: State,
    /// Why it was not run, or failed.
    pub reason: Option<String>,
    /// The kind of reason, as in `rule`, `conflict`, `unreachable`, `test_failed`.
    #[serde(default)]
    pub reason_kind: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The record's directory, at the lead.
    pub record: Option<String>,
}

/// Which tests to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Led by this point.
    pub from: Option<String>,
    /// To this point.
    pub to: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// With a start at or after this time, microseconds since 1970.
    pub since_us: Option<i64>,
    /// At most this many, the newest.
    pub limit: u32,
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    connection: Connection,
}

impl Archive {
    /// Opens or creates an archive.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |operation| move |cause| Error::Archive { operation, path: path.into(), cause };
        let mut connection = Connection::open(path).map_err(failed("open"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("open"))?;
        let format = check_format(&connection, path)?;
        let is_first_version = format.is_some_and(|format| format.version == FIRST_VERSION);
        let journal = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
        connection.execute_batch(journal).map_err(failed("create"))?;
        create(&mut connection, is_first_version).map_err(failed("create"))?;
        Ok(Archive { path: path.into(), connection })
    }

    /// Opens an archive that a running agent writes.
    pub fn open_for_reading(path: &Path) -> Result<Self, Error> {
        let failed = |operation| move |cause| Error::Archive { operation, path: path.into(), cause };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed("open"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("open"))?;
        check_format(&connection, path)?;
        Ok(Archive { path: path.into(), connection })
    }

    /// Size of the file, bytes.
    pub fn size_bytes(&self) -> Option<u64> {
        Some(std::fs::metadata(&self.path).ok()?.len())
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> Error + '_ {
        move |cause| Error::Archive { operation, path: self.path.clone(), cause }
    }

    /// Adds or replaces a row, and adds its receivers to the outbox.
    pub fn put(&mut self, row: &TestRow, send_to: &[PointName]) -> Result<(), Error> {
        self.write(|transaction| put(transaction, row, send_to))
    }

    /// Writes in one transaction.
    fn write<T>(&mut self, body: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        let path = self.path.clone();
        let written = self.connection.transaction().and_then(|transaction| {
            let value = body(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        written.map_err(|cause| Error::Archive { operation: "write", path, cause })
    }

    /// A row.
    pub fn get(&self, id: &str) -> Result<Option<TestRow>, Error> {
        let query = format!("SELECT {COLUMNS} FROM tests WHERE id = ?1");
        let row = self.connection.query_row(&query, params![id], read);
        row.optional().map_err(self.failed("read"))
    }

    /// The tests that were running when the agent ended.
    pub fn running(&self) -> Result<Vec<TestRow>, Error> {
        self.rows(&format!("SELECT {COLUMNS} FROM tests WHERE state = 'running'"), &[])
    }

    /// The newest tests, newest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<TestRow>, Error> {
        let query = format!(
            "SELECT {COLUMNS} FROM tests
             WHERE (?1 IS NULL OR lead = ?1) AND (?2 IS NULL OR peer = ?2) AND (?3 IS NULL OR kind = ?3)
                 AND (?4 IS NULL OR start_us >= ?4)
             ORDER BY start_us DESC, id DESC LIMIT ?5"
        );
        self.rows(&query, &[&filter.from, &filter.to, &filter.kind, &filter.since_us, &filter.limit])
    }

    fn rows(&self, query: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<TestRow>, Error> {
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let rows = statement.query_map(values, read).map_err(self.failed("read"))?;
        rows.collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    /// Number of rows in each state.
    pub fn counts(&self) -> Result<Vec<(String, i64)>, Error> {
        let query = "SELECT state, count(*) FROM tests GROUP BY state ORDER BY state";
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let rows =
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(self.failed("read"))?;
        rows.collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    /// The rows that have to be sent, each with its receiver.
    pub fn unsent(&self) -> Result<Vec<(PointName, String)>, Error> {
        let query = "SELECT point, id FROM outbox ORDER BY id LIMIT 1000";
        let mut statement = self.connection.prepare(query).map_err(self.failed("read"))?;
        let rows = statement.query_map([], |row| Ok((PointName(row.get(0)?), row.get(1)?)));
        rows.map_err(self.failed("read"))?.collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    /// Removes a row from the outbox: its receiver has it, or is no longer a member.
    pub fn sent(&mut self, id: &str, to: &PointName) -> Result<(), Error> {
        let deleted =
            self.connection.execute("DELETE FROM outbox WHERE id = ?1 AND point = ?2", params![id, to.0]);
        deleted.map(drop).map_err(self.failed("write"))
    }
}

/// The format of a file; `None` if it is new.
fn check_format(connection: &Connection, path: &Path) -> Result<Option<Format>, Error> {
    let format = Format::of(connection);
    let format = format.map_err(|cause| Error::Archive { operation: "read", path: path.into(), cause })?;
    let first = Format { version: FIRST_VERSION, ..FORMAT };
    match format {
        Some(Format { application, version }) if ![Some(FORMAT), Some(first)].contains(&format) => {
            Err(Error::Refused(format!(
                "{} is not an archive of this version of longfat (application {application:#x}, version {version})",
                path.display()
            )))
        }
        format => Ok(format),
    }
}

/// Creates what is missing.
fn create(connection: &mut Connection, is_first_version: bool) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    if is_first_version {
        transaction.execute_batch("ALTER TABLE tests ADD COLUMN reason_kind TEXT")?;
    }
    transaction.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS tests (
             id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
             start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
             goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
             record TEXT, reason_kind TEXT) STRICT;
         CREATE INDEX IF NOT EXISTS tests_by_pair ON tests (lead, peer, kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_by_start ON tests (start_us);
         CREATE INDEX IF NOT EXISTS tests_with_record ON tests (start_us) WHERE record IS NOT NULL;
         CREATE TABLE IF NOT EXISTS outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
         {} {} {}",
        pairs::TABLES,
        retention::TABLES,
        FORMAT.pragmas()
    ))?;
    if is_first_version {
        let query = format!("SELECT {COLUMNS} FROM tests WHERE state <> 'running' ORDER BY start_us");
        let mut statement = transaction.prepare(&query)?;
        let rows: Vec<TestRow> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
        drop(statement);
        for row in &rows {
            pairs::update_pair(&transaction, row, None)?;
        }
    }
    transaction.commit()
}

fn put(transaction: &Transaction<'_>, row: &TestRow, send_to: &[PointName]) -> rusqlite::Result<()> {
    let TestRow {
        id,
        from,
        to,
        kind,
        task,
        start_us,
        duration_us,
        state,
        reason,
        reason_kind,
        figures,
        record,
    } = row;
    let Figures { goodput_bps, loss_share, min_rtt_us, typical_rtt_us, verdict, evidence } = figures;
    let query = format!("SELECT {COLUMNS} FROM tests WHERE id = ?1");
    let before = transaction.query_row(&query, params![id], read).optional()?;
    transaction.execute(
        &format!(
            "INSERT OR REPLACE INTO tests ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
        ),
        params![
            id,
            from,
            to,
            kind,
            task,
            start_us,
            duration_us,
            state.name(),
            reason,
            goodput_bps,
            loss_share,
            min_rtt_us,
            typical_rtt_us,
            verdict,
            evidence,
            record,
            reason_kind
        ],
    )?;
    for point in send_to {
        transaction.execute("INSERT OR IGNORE INTO outbox VALUES (?1, ?2)", params![id, point.0])?;
    }
    pairs::update_pair(transaction, row, before.as_ref())
}

/// A number of things in a row.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn read(row: &Row<'_>) -> rusqlite::Result<TestRow> {
    let state: String = row.get(7)?;
    Ok(TestRow {
        id: row.get(0)?,
        from: row.get(1)?,
        to: row.get(2)?,
        kind: row.get(3)?,
        task: row.get(4)?,
        start_us: row.get(5)?,
        duration_us: row.get(6)?,
        state: State::of(&state),
        reason: row.get(8)?,
        reason_kind: row.get(16)?,
        figures: Figures {
            goodput_bps: row.get(9)?,
            loss_share: row.get(10)?,
            min_rtt_us: row.get(11)?,
            typical_rtt_us: row.get(12)?,
            verdict: row.get(13)?,
            evidence: row.get(14)?,
        },
        record: row.get(15)?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A finished test that the path's rate limited.
    pub fn row(id: &str, start_us: i64) -> TestRow {
        TestRow {
            id: id.into(),
            from: "a".into(),
            to: "b".into(),
            kind: "throughput".into(),
            task: None,
            start_us,
            duration_us: 10_000_000,
            state: State::Finished,
            reason: None,
            reason_kind: None,
            figures: Figures {
                goodput_bps: Some(1e9),
                verdict: Some("path_rate".into()),
                ..Figures::default()
            },
            record: Some("runs/x".into()),
        }
    }

    #[test]
    fn an_archive_of_the_first_version_is_read_and_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&format!(
            "CREATE TABLE tests (
                 id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
                 goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
                 record TEXT) STRICT;
             INSERT INTO tests VALUES ('a/1', 'a', 'b', 'throughput', NULL, 5, 6, 'finished', NULL, 1e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/x');
             {}",
            Format { version: FIRST_VERSION, ..FORMAT }.pragmas()
        ))
        .unwrap();
        drop(old);
        for _ in 0..2 {
            let archive = Archive::open(&path).unwrap();
            assert_eq!(archive.get("a/1").unwrap().unwrap().figures.goodput_bps, Some(1e9));
            let pairs = archive.pairs().unwrap();
            assert_eq!((pairs.len(), pairs[0].best_goodput_bps), (1, Some(1e9)));
            assert_eq!(pairs[0].cause.as_ref().unwrap().cause, "path_rate");
        }
        assert_eq!(Archive::open_for_reading(&path).unwrap().pairs().unwrap().len(), 1);
    }

    #[test]
    fn rows_are_read_as_written_once_each_and_newest_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let mut archive = Archive::open(&path).unwrap();
        for (id, start) in [("a/1", 10), ("a/2", 30), ("a/3", 20), ("a/2", 30)] {
            archive.put(&row(id, start), &["b".into(), "c".into()]).unwrap();
        }
        archive.sent("a/1", &"b".into()).unwrap();
        drop(archive);
        let mut archive = Archive::open(&path).unwrap();
        let all = archive.list(&Filter { limit: 10, ..Filter::default() }).unwrap();
        assert_eq!(all.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a/2", "a/3", "a/1"]);
        assert_eq!(all[2], row("a/1", 10));
        let of = |filter: Filter| archive.list(&filter).unwrap().len();
        assert_eq!(
            of(Filter { to: Some("b".into()), since_us: Some(20), limit: 10, ..Filter::default() }),
            2
        );
        assert_eq!(of(Filter { from: Some("b".into()), limit: 10, ..Filter::default() }), 0);
        assert_eq!(of(Filter { limit: 1, ..Filter::default() }), 1);
        assert_eq!(archive.unsent().unwrap().len(), 5, "each row to each receiver once");
        assert_eq!(archive.counts().unwrap(), [("finished".to_string(), 3)]);
        assert_eq!(archive.running().unwrap(), []);
        archive.put(&TestRow { state: State::Running, ..row("a/4", 40) }, &[]).unwrap();
        assert_eq!(archive.running().unwrap().len(), 1);
    }
}
