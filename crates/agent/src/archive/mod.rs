//! The archive of a point: tests and their figures, an index over the records.
//!
//! One row for each reservation that this point leads and that has run or will not run, and for each result that another lead has sent.
//! A row is on the disk before the calendar records the test's end, and stays in the outbox until the other points have confirmed it.
//!
//! The same transaction updates the statistics of each pair of points: counts, the best goodput, the newest results, and changes of the
//! cause ([`pairs`]). Old rows become hourly averages ([`retention`]).
//!
//! Each point has an embedded archive, a file of SQLite. A mesh may also have a common one in PostgreSQL ([`forward`]), with the same tables
//! and the same statements ([`sql`]). The tables `outbox` and `spool` of rows to be sent, and acknowledgements and mutes
//! of alerts ([`attention`]), exist in the embedded archive only.

mod attention;
mod columns;
mod forward;
mod pairs;
mod postgres;
mod retention;
mod sql;
mod sqlite;

use std::path::{Path, PathBuf};

use reservation::PointName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{
    columns::{COLUMNS, DECLARATIONS, UPDATES, read, values_of},
    postgres::Postgres,
    sql::{Database, Field, Value, placeholders, read_all, read_first, values},
    sqlite::Sqlite,
};
use crate::{Error, sqlite::Format, test::Figures};

pub use attention::{Acknowledgement, Mute};
pub(crate) use attention::{Attention, Decision, EACH};
pub(crate) use forward::Forwarder;
pub use pairs::{CauseChange, PairFacts, TestCounts};
pub use postgres::PostgresAddress;
pub use retention::{HourRow, Retention};
pub use sql::DatabaseError;

/// SQLite's application_id of the files that this program writes: "LFar".
const FORMAT: Format = Format { application: 0x4c46_6172, version: 3 };
/// Version of the format without pairs, causes and hours.
const FIRST_VERSION: i64 = 1;
/// Version of the format without the newest tests, counts of states, and the spool.
const SECOND_VERSION: i64 = 2;

/// The state of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The test runs.
    Running,
    /// The test completed.
    Finished,
    /// The test was started and did not complete.
    Failed,
    /// The test was not started.
    NotRun,
}

impl State {
    /// The name of this state in the archive.
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
    /// Start of its slot, or the earliest requested start if it had no slot; microseconds since 1970, UTC.
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
    /// Only tests to this point.
    pub to: Option<String>,
    /// Only tests of this kind.
    pub kind: Option<String>,
    /// With a start at or after this time, microseconds since 1970.
    pub since_us: Option<i64>,
    /// Maximum number of tests: the newest.
    pub limit: u32,
}

/// An open archive.
pub(crate) struct Archive {
    /// For messages: a path, or `PostgreSQL`.
    name: String,
    /// The file of an embedded archive.
    path: Option<PathBuf>,
    database: Box<dyn Database>,
    /// Whether a transaction is open, which [`Archive::commit`] ends.
    is_in_batch: bool,
    /// Rows of tests that this point leads are also put into the spool.
    spool_of: Option<String>,
}

impl Archive {
    /// Opens or creates an embedded archive. `spool_of`: this point, if its tests are forwarded to a common archive.
    pub fn open(path: &Path, spool_of: Option<&PointName>) -> Result<Self, Error> {
        let failed = |operation| failed(operation, path.display().to_string());
        let database = Sqlite::open(path).map_err(failed("open"))?;
        let format = check_format(&database, path)?;
        database.batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;").map_err(failed("create"))?;
        let mut archive = Archive::new(path.display().to_string(), Some(path.into()), Box::new(database));
        archive.spool_of = spool_of.map(|point| point.0.clone());
        let version = format.map(|format| format.version);
        archive.write(|database| create(database, version)).map_err(relabel("create"))?;
        archive.set_spool()?;
        Ok(archive)
    }

    /// Opens an embedded archive that a running agent writes.
    pub fn open_for_reading(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let database = Sqlite::open_for_reading(path).map_err(failed("open", name.clone()))?;
        check_format(&database, path)?;
        Ok(Archive::new(name, Some(path.into()), Box::new(database)))
    }

    /// Connects with a common archive; creates its tables.
    pub fn connect(address: &PostgresAddress) -> Result<Self, Error> {
        let failed = |operation| failed(operation, address.to_string());
        let database = Postgres::connect(address).map_err(failed("open"))?;
        let mut archive = Archive::new(address.to_string(), None, Box::new(database));
        archive.write(|database| postgres::create(database)).map_err(relabel("create"))?;
        Ok(archive)
    }

    /// Connects with a common archive that an agent has created.
    pub fn connect_for_reading(address: &PostgresAddress) -> Result<Self, Error> {
        let failed = |operation| failed(operation, address.to_string());
        let database = Postgres::connect(address).map_err(failed("open"))?;
        postgres::check_version(&database).map_err(failed("read"))?;
        Ok(Archive::new(address.to_string(), None, Box::new(database)))
    }

    fn new(name: String, path: Option<PathBuf>, database: Box<dyn Database>) -> Archive {
        Archive { name, path, database, is_in_batch: false, spool_of: None }
    }

    /// Size of the file, bytes.
    pub fn size_bytes(&self) -> Option<u64> {
        Some(std::fs::metadata(self.path.as_ref()?).ok()?.len())
    }

    fn failed(&self, operation: &'static str) -> impl Fn(DatabaseError) -> Error + use<> {
        failed(operation, self.name.clone())
    }

    /// Begins a transaction, which [`Archive::commit`] ends: all writes in between cost one synchronization of the disk.
    fn begin_batch(&mut self) -> sql::Result<()> {
        if !self.is_in_batch {
            self.database.begin()?;
            self.is_in_batch = true;
        }
        Ok(())
    }

    /// Ends a batch: its rows are on the disk. Returns whether there was one.
    pub fn commit(&mut self) -> Result<bool, Error> {
        let is_in_batch = std::mem::take(&mut self.is_in_batch);
        if is_in_batch {
            self.database.batch("COMMIT").map_err(self.failed("write"))?;
        }
        Ok(is_in_batch)
    }

    /// Writes in one transaction, or as a part of the batch. An error ends the whole batch.
    fn write<T>(&mut self, body: impl FnOnce(&dyn Database) -> sql::Result<T>) -> Result<T, Error> {
        let written = if self.is_in_batch {
            body(&*self.database)
        } else {
            self.database.begin().and_then(|()| {
                let value = body(&*self.database)?;
                self.database.batch("COMMIT")?;
                Ok(value)
            })
        };
        written.map_err(|cause| {
            self.is_in_batch = false;
            // The database may have ended the transaction itself.
            let _ = self.database.batch("ROLLBACK");
            failed("write", self.name.clone())(cause)
        })
    }

    /// Adds or replaces a row, and adds its receivers to the outbox.
    pub fn put(&mut self, row: &TestRow, send_to: &[PointName]) -> Result<(), Error> {
        let is_spooled = self.spool_of.as_ref() == Some(&row.from);
        self.write(|database| {
            put(database, row)?;
            for point in send_to {
                let insert = "INSERT INTO outbox VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                database.execute(insert, values![row.id, point.0])?;
            }
            if is_spooled {
                database.execute("INSERT INTO spool (id) VALUES (?1)", values![row.id])?;
            }
            Ok(())
        })
    }

    /// Stores a row like [`Archive::put`], in the batch that [`Archive::commit`] ends.
    pub fn put_in_batch(&mut self, row: &TestRow, send_to: &[PointName]) -> Result<(), Error> {
        self.begin_batch().map_err(self.failed("write"))?;
        self.put(row, send_to)
    }

    /// A row.
    pub fn get(&self, id: &str) -> Result<Option<TestRow>, Error> {
        get(&*self.database, id).map_err(self.failed("read"))
    }

    /// The tests that were running when the agent ended.
    pub fn running(&self) -> Result<Vec<TestRow>, Error> {
        self.rows(&format!("SELECT {COLUMNS} FROM tests WHERE state = 'running' ORDER BY start_us"), &[])
    }

    /// The newest tests, newest first. Only conditions that are given are in the query: each combination has an index.
    pub fn list(&self, filter: &Filter) -> Result<Vec<TestRow>, Error> {
        let conditions = [
            ("lead = ", filter.from.to_value()),
            ("peer = ", filter.to.to_value()),
            ("kind = ", filter.kind.to_value()),
            ("start_us >= ", filter.since_us.to_value()),
        ];
        let mut query = format!("SELECT {COLUMNS} FROM tests");
        let mut values = Vec::new();
        for (condition, value) in conditions.into_iter().filter(|(_, value)| *value != Value::Null) {
            query += if values.is_empty() { " WHERE " } else { " AND " };
            values.push(value);
            query += &format!("{condition}?{}", values.len());
        }
        values.push(Value::Integer(filter.limit.into()));
        query += &format!(" ORDER BY start_us DESC, id DESC LIMIT ?{}", values.len());
        self.rows(&query, &values)
    }

    fn rows(&self, query: &str, values: &[Value]) -> Result<Vec<TestRow>, Error> {
        read_all(&*self.database, query, values, read).map_err(self.failed("read"))
    }

    /// Number of rows in each state.
    pub fn counts(&self) -> Result<Vec<(String, i64)>, Error> {
        let query = "SELECT state, tests FROM states WHERE tests > 0 ORDER BY state";
        let rows = read_all(&*self.database, query, &[], |row| Ok((row.next()?, row.next()?)));
        rows.map_err(self.failed("read"))
    }

    /// The rows that have to be sent, each with its receiver.
    pub fn unsent(&self) -> Result<Vec<(PointName, String)>, Error> {
        let query = "SELECT point, id FROM outbox ORDER BY id LIMIT 1000";
        let rows = read_all(&*self.database, query, &[], |row| Ok((PointName(row.next()?), row.next()?)));
        rows.map_err(self.failed("read"))
    }

    /// Removes a row from the outbox: its receiver has it, or is no longer a member.
    pub fn sent(&mut self, id: &str, to: &PointName) -> Result<(), Error> {
        let delete = "DELETE FROM outbox WHERE id = ?1 AND point = ?2";
        self.write(|database| database.execute(delete, values![id, to.0]).map(drop))
    }
}

/// Makes an error of a database one of an archive.
fn failed(operation: &'static str, archive: String) -> impl Fn(DatabaseError) -> Error {
    move |cause| Error::Archive { operation, archive: archive.clone(), cause: Box::new(cause) }
}

/// Names another operation in an error.
fn relabel(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Archive { archive, cause, .. } => Error::Archive { operation, archive, cause },
        other => other,
    }
}

/// The format of a file; `None` if it is new.
fn check_format(database: &Sqlite, path: &Path) -> Result<Option<Format>, Error> {
    let format = Format::of(&database.0);
    let format = format.map_err(|cause| failed("read", path.display().to_string())(cause.into()))?;
    let known = [FIRST_VERSION, SECOND_VERSION, FORMAT.version].map(|version| Format { version, ..FORMAT });
    match format {
        Some(Format { application, version }) if !known.iter().any(|known| Some(*known) == format) => {
            Err(Error::Refused(format!(
                "{} is not an archive of this version of longfat (application {application:#x}, version {version})",
                path.display()
            )))
        }
        format => Ok(format),
    }
}

/// The tables of both databases.
fn tables() -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS tests ({DECLARATIONS}, PRIMARY KEY (id)) STRICT;
         CREATE INDEX IF NOT EXISTS tests_of_pair ON tests (lead, peer, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_lead ON tests (lead, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_peer ON tests (peer, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_kind ON tests (kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_by_start ON tests (start_us);
         CREATE INDEX IF NOT EXISTS tests_running ON tests (start_us) WHERE state = 'running';
         CREATE INDEX IF NOT EXISTS tests_with_record ON tests (start_us) WHERE record IS NOT NULL;
         CREATE TABLE IF NOT EXISTS states (state TEXT NOT NULL, tests INTEGER NOT NULL, PRIMARY KEY (state)) STRICT;
         {} {}",
        pairs::tables(),
        retention::TABLES,
    )
}

/// Creates what is missing in an embedded archive of this version.
fn create(database: &dyn Database, version: Option<i64>) -> sql::Result<()> {
    if version == Some(FIRST_VERSION) {
        database.batch("ALTER TABLE tests ADD COLUMN reason_kind TEXT")?;
    }
    if version == Some(SECOND_VERSION) {
        database.batch("ALTER TABLE hours RENAME TO old_hours; DROP INDEX hours_by_time")?;
    }
    database.batch(&format!(
        "{}
         DROP INDEX IF EXISTS tests_by_pair;
         CREATE TABLE IF NOT EXISTS outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
         {} {} {}",
        tables(),
        forward::TABLES,
        attention::TABLES,
        FORMAT.pragmas()
    ))?;
    let Some(version) = version.filter(|version| *version != FORMAT.version) else { return Ok(()) };
    if version == SECOND_VERSION {
        database.batch("INSERT INTO hours SELECT * FROM old_hours; DROP TABLE old_hours")?;
    }
    database.batch("INSERT INTO states SELECT state, count(*) FROM tests GROUP BY state")?;
    let query = format!("SELECT {COLUMNS} FROM tests WHERE state <> 'running' ORDER BY start_us");
    for row in read_all(database, &query, &[], read)? {
        match version {
            FIRST_VERSION => pairs::update_pair(database, &row, None)?,
            _ => pairs::update_newest(database, &row)?,
        }
    }
    Ok(())
}

/// Changes the number of rows in a state.
fn add_to_state(database: &dyn Database, state: &str, tests: i64) -> sql::Result<()> {
    let add = "INSERT INTO states VALUES (?1, ?2) ON CONFLICT (state) DO UPDATE SET tests = states.tests + excluded.tests";
    database.execute(add, values![state, tests]).map(drop)
}

fn get(database: &dyn Database, id: &str) -> sql::Result<Option<TestRow>> {
    read_first(database, &format!("SELECT {COLUMNS} FROM tests WHERE id = ?1"), values![id], read)
}

fn put(database: &dyn Database, row: &TestRow) -> sql::Result<()> {
    let before = get(database, &row.id)?;
    let values = values_of(row);
    let insert = format!(
        "INSERT INTO tests ({COLUMNS}) VALUES ({}) ON CONFLICT (id) DO UPDATE SET {UPDATES}",
        placeholders(values.len())
    );
    database.execute(&insert, &values)?;
    if before.as_ref().map(|before| before.state) != Some(row.state) {
        add_to_state(database, row.state.name(), 1)?;
        if let Some(before) = &before {
            add_to_state(database, before.state.name(), -1)?;
        }
    }
    pairs::update_pair(database, row, before.as_ref())
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
        let old = rusqlite::Connection::open(&path).unwrap();
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
            let archive = Archive::open(&path, None).unwrap();
            assert_eq!(archive.get("a/1").unwrap().unwrap().figures.goodput_bps, Some(1e9));
            let pairs = archive.pairs().unwrap();
            assert_eq!((pairs.len(), pairs[0].best_goodput_bps), (1, Some(1e9)));
            assert_eq!(pairs[0].cause.as_ref().unwrap().cause, "path_rate");
        }
        assert_eq!(Archive::open_for_reading(&path).unwrap().pairs().unwrap().len(), 1);
    }

    #[test]
    fn an_archive_of_the_second_version_keeps_its_hours_and_shows_its_newest_tests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(&format!(
            "CREATE TABLE tests (
                 id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
                 goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
                 record TEXT, reason_kind TEXT) STRICT;
             CREATE INDEX tests_by_pair ON tests (lead, peer, kind, start_us);
             CREATE TABLE outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
             CREATE TABLE pairs (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, best_goodput_bps REAL, finished INTEGER NOT NULL, failed INTEGER NOT NULL,
                 refused INTEGER NOT NULL, not_run INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
             CREATE TABLE causes (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
                 id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
             CREATE INDEX causes_pending ON causes (start_us) WHERE is_pending;
             CREATE TABLE hours (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, hour_us INTEGER NOT NULL,
                 finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
                 goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
                 losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
                 verdict TEXT, PRIMARY KEY (lead, peer, kind, hour_us)) STRICT;
             CREATE INDEX hours_by_time ON hours (hour_us);
             INSERT INTO tests VALUES ('a/1', 'a', 'b', 'throughput', NULL, 5, 6, 'finished', NULL, 1e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/x', NULL);
             INSERT INTO tests VALUES ('a/2', 'a', 'b', 'throughput', NULL, 7, 6, 'finished', NULL, 2e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/y', NULL);
             INSERT INTO pairs VALUES ('a', 'b', 3e9, 5, 0, 0, 0);
             INSERT INTO causes VALUES ('a', 'b', 'throughput', 1, 'path_rate', 'a/0', 0);
             INSERT INTO hours VALUES ('a', 'b', 'throughput', 0, 3, 0, 0, 3, 3e9, 1e9, 1e9, 0, 0.0, 0, 0.0, NULL, 'loss');
             {}",
            Format { version: SECOND_VERSION, ..FORMAT }.pragmas()
        ))
        .unwrap();
        drop(old);
        for _ in 0..2 {
            let archive = Archive::open(&path, None).unwrap();
            let pairs = archive.pairs().unwrap();
            let [pair] = &pairs[..] else { panic!("{pairs:?}") };
            assert_eq!((pair.best_goodput_bps, pair.tests.finished), (Some(3e9), 5));
            assert_eq!(pair.throughput.as_ref().unwrap().id, "a/2");
            assert_eq!(pair.newest.as_ref().unwrap().id, "a/2");
            let hours = archive.hours("a", "b", 0).unwrap();
            assert_eq!((hours.len(), hours[0].finished, hours[0].goodput_bps), (1, 3, Some(1e9)));
            assert_eq!(archive.counts().unwrap(), [("finished".to_string(), 2)]);
        }
    }

    #[test]
    fn a_batch_is_stored_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let mut archive = Archive::open(&path, None).unwrap();
        let reader = Archive::open_for_reading(&path).unwrap();
        archive.put_in_batch(&row("a/1", 1), &["b".into()]).unwrap();
        archive.put_in_batch(&row("a/2", 2), &[]).unwrap();
        archive.sent("a/1", &"b".into()).unwrap();
        assert!(archive.get("a/2").unwrap().is_some(), "the writer sees it");
        assert_eq!(reader.get("a/1").unwrap(), None);
        assert!(archive.commit().unwrap());
        assert!(!archive.commit().unwrap(), "nothing is left");
        assert_eq!(reader.list(&Filter { limit: 10, ..Filter::default() }).unwrap().len(), 2);
        // The state after a kill.
        archive.put_in_batch(&row("a/3", 3), &[]).unwrap();
        drop(archive);
        assert_eq!(Archive::open(&path, None).unwrap().counts().unwrap(), [("finished".to_string(), 2)]);
    }

    #[test]
    fn rows_are_read_as_written_once_each_and_newest_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let mut archive = Archive::open(&path, None).unwrap();
        for (id, start) in [("a/1", 10), ("a/2", 30), ("a/3", 20), ("a/2", 30)] {
            archive.put(&row(id, start), &["b".into(), "c".into()]).unwrap();
        }
        archive.sent("a/1", &"b".into()).unwrap();
        drop(archive);
        let mut archive = Archive::open(&path, None).unwrap();
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
