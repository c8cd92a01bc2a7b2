//! The archive of a point: an SQLite index of tests and their figures over the records.
//!
//! One row for each reservation that this point leads and that has run or will not run, and for each result that another lead has sent.
//! A row is on the disk before the calendar knows of the test's end, and remains to be sent until the others have confirmed it.

use std::path::{Path, PathBuf};

use reservation::PointName;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::{Error, sqlite::Format, test::Figures};

/// The files that this program writes: "LFar".
const FORMAT: Format = Format { application: 0x4c46_6172, version: 1 };
/// The columns, in the order of [`read`].
const COLUMNS: &str = "id, lead, peer, kind, task, start_us, duration_us, state, reason, goodput_bps, loss_share, \
                       min_rtt_us, typical_rtt_us, verdict, evidence, record";

/// How far a test came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// It ran to its end.
    Finished,
    /// It was started and did not come to its end.
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
}

/// A test in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// How far it came.
    pub state: State,
    /// Why it was not run, or failed.
    pub reason: Option<String>,
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
        let connection = Connection::open(path).map_err(failed("open"))?;
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed("open"))?;
        let format = Format::of(&connection).map_err(failed("read"))?;
        if let Some(Format { application, version }) = format.filter(|format| *format != FORMAT) {
            return Err(Error::Refused(format!(
                "{} is no archive of this version of longfat (application {application:#x}, version {version})",
                path.display()
            )));
        }
        let create = format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             BEGIN;
             CREATE TABLE IF NOT EXISTS tests (
                 id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
                 goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
                 record TEXT) STRICT;
             CREATE INDEX IF NOT EXISTS tests_by_pair ON tests (lead, peer, kind, start_us);
             CREATE INDEX IF NOT EXISTS tests_by_start ON tests (start_us);
             CREATE TABLE IF NOT EXISTS outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
             {} COMMIT;",
            FORMAT.pragmas()
        );
        connection.execute_batch(&create).map_err(failed("create"))?;
        Ok(Archive { path: path.into(), connection })
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> Error + '_ {
        move |cause| Error::Archive { operation, path: self.path.clone(), cause }
    }

    /// Adds or replaces a row, and remembers to whom it has to be sent.
    pub fn put(&mut self, row: &TestRow, send_to: &[PointName]) -> Result<(), Error> {
        let path = self.path.clone();
        put(&mut self.connection, row, send_to).map_err(|cause| Error::Archive {
            operation: "write",
            path,
            cause,
        })
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

    /// A receiver has the row, or is no longer a member.
    pub fn sent(&mut self, id: &str, to: &PointName) -> Result<(), Error> {
        let deleted =
            self.connection.execute("DELETE FROM outbox WHERE id = ?1 AND point = ?2", params![id, to.0]);
        deleted.map(drop).map_err(self.failed("write"))
    }
}

fn put(connection: &mut Connection, row: &TestRow, send_to: &[PointName]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let TestRow { id, from, to, kind, task, start_us, duration_us, state, reason, figures, record } = row;
    let Figures { goodput_bps, loss_share, min_rtt_us, typical_rtt_us, verdict, evidence } = figures;
    transaction.execute(
        &format!(
            "INSERT OR REPLACE INTO tests ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
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
            record
        ],
    )?;
    for point in send_to {
        transaction.execute("INSERT OR IGNORE INTO outbox VALUES (?1, ?2)", params![id, point.0])?;
    }
    transaction.commit()
}

fn read(row: &Row<'_>) -> rusqlite::Result<TestRow> {
    let state: String = row.get(7)?;
    let states = [State::Running, State::Finished, State::Failed, State::NotRun];
    Ok(TestRow {
        id: row.get(0)?,
        from: row.get(1)?,
        to: row.get(2)?,
        kind: row.get(3)?,
        task: row.get(4)?,
        start_us: row.get(5)?,
        duration_us: row.get(6)?,
        state: states.into_iter().find(|known| known.name() == state).unwrap_or(State::Failed),
        reason: row.get(8)?,
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
mod tests {
    use super::*;

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
            figures: Figures {
                goodput_bps: Some(1e9),
                verdict: Some("path_rate".into()),
                ..Figures::default()
            },
            record: Some("runs/x".into()),
        }
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
