//! An open archive: stores and lists tests, and keeps the outbox of tests to be sent.

use std::path::{Path, PathBuf};

use reservation::PointName;

use super::{
    Filter,
    columns::{COLUMNS, read},
    common,
    conversion::{create, prepare_spool},
    rows::{get, put},
    tables::{FIFTH_VERSION, FIRST_VERSION, FORMAT, FOURTH_VERSION, SECOND_VERSION, THIRD_VERSION},
};
use crate::{
    Error, TestRow,
    database::{
        DatabaseError, Postgres, PostgresAddress, Sqlite,
        sql::{self, Database, Field, Value, read_all, read_first, values},
    },
    sqlite::Format,
};

/// An open archive.
pub(crate) struct Archive {
    /// Its name in messages: a path, or `PostgreSQL`.
    pub(super) name: String,
    /// The file of an embedded archive.
    pub(super) path: Option<PathBuf>,
    pub(super) database: Box<dyn Database>,
    /// Whether a transaction is open, which [`Archive::commit`] ends.
    is_in_batch: bool,
    /// Rows of tests that this point leads are also stored in the spool.
    pub(super) spool_of: Option<String>,
    /// Tests that start later, microseconds since 1970, are in the future by mistake: they are not the newest
    /// of their pair.
    pub(super) latest_start_us: i64,
}

impl Archive {
    /// Opens or creates an embedded archive. `spool_of`: this point, if its tests are forwarded to a common
    /// archive.
    pub fn open(path: &Path, spool_of: Option<&PointName>) -> Result<Self, Error> {
        let failed = |operation| failed(operation, path.display().to_string());
        let database = Sqlite::open(path).map_err(failed("open"))?;
        let format = check_format(&database, path)?;
        database.batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;").map_err(failed("create"))?;
        let mut archive = Archive::new(path.display().to_string(), Some(path.into()), Box::new(database));
        archive.spool_of = spool_of.map(|point| point.0.clone());
        let version = format.map(|format| format.version);
        if version.is_some_and(|version| version != FORMAT.version) {
            tracing::info!("{} is converted from an earlier version, which may take minutes", path.display());
        }
        archive.write(|database| create(database, version)).map_err(relabel("create"))?;
        archive.write(|database| prepare_spool(database, spool_of.map(|point| point.0.as_str())))?;
        Ok(archive)
    }

    /// The file of a point's archive in its state directory.
    pub fn path(state: &Path) -> PathBuf {
        state.join("archive.sqlite")
    }

    /// Opens the archive of the agent with this state directory for reading.
    pub fn of_point(state: &Path) -> Result<Self, Error> {
        Archive::open_for_reading(&Archive::path(state))
    }

    /// The archive whose results a point shows: the common one if it has one, else its own.
    pub fn shown(state: &Path, postgres: Option<&PostgresAddress>) -> Result<Self, Error> {
        match postgres {
            Some(address) => Archive::connect_for_reading(address),
            None => Archive::of_point(state),
        }
    }

    /// Opens an embedded archive that a running agent writes.
    pub fn open_for_reading(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let database = Sqlite::open_for_reading(path).map_err(failed("open", name.clone()))?;
        check_format(&database, path)?;
        Ok(Archive::new(name, Some(path.into()), Box::new(database)))
    }

    /// Connects to a common archive; creates its tables.
    pub fn connect(address: &PostgresAddress) -> Result<Self, Error> {
        let failed = |operation| failed(operation, address.to_string());
        let database = Postgres::connect(address).map_err(failed("open"))?;
        let mut archive = Archive::new(address.to_string(), None, Box::new(database));
        archive.write(|database| common::create(database)).map_err(relabel("create"))?;
        Ok(archive)
    }

    /// Connects to a common archive that an agent has created.
    pub fn connect_for_reading(address: &PostgresAddress) -> Result<Self, Error> {
        let failed = |operation| failed(operation, address.to_string());
        let database = Postgres::connect(address).map_err(failed("open"))?;
        common::check_version(&database).map_err(failed("read"))?;
        Ok(Archive::new(address.to_string(), None, Box::new(database)))
    }

    fn new(name: String, path: Option<PathBuf>, database: Box<dyn Database>) -> Archive {
        Archive { name, path, database, is_in_batch: false, spool_of: None, latest_start_us: i64::MAX }
    }

    /// Sets the latest start of a test that is not in the future by mistake.
    pub fn set_latest_start(&mut self, time_us: i64) {
        self.latest_start_us = time_us;
    }

    /// The start of the newest test that has begun.
    pub fn newest_start(&self, now_us: i64) -> Result<Option<i64>, Error> {
        let query = "SELECT start_us FROM tests WHERE start_us <= ?1 ORDER BY start_us DESC LIMIT 1";
        read_first(&*self.database, query, values![now_us], |row| row.next()).map_err(self.failed("read"))
    }

    /// Size of the file, bytes.
    pub fn size_bytes(&self) -> Option<u64> {
        Some(std::fs::metadata(self.path.as_ref()?).ok()?.len())
    }

    /// Converts an error of the database to an error of this archive.
    pub(super) fn failed(&self, operation: &'static str) -> impl Fn(DatabaseError) -> Error + use<> {
        failed(operation, self.name.clone())
    }

    /// Begins a transaction, which [`Archive::commit`] ends: all writes in between cost one synchronization
    /// of the disk.
    fn begin_batch(&mut self) -> sql::Result<()> {
        if !self.is_in_batch {
            self.database.begin()?;
            self.is_in_batch = true;
        }
        Ok(())
    }

    /// Ends a batch; its rows are then on the disk. Returns whether there was a batch.
    pub fn commit(&mut self) -> Result<bool, Error> {
        let is_in_batch = std::mem::take(&mut self.is_in_batch);
        if is_in_batch {
            self.database.batch("COMMIT").map_err(self.failed("write"))?;
        }
        Ok(is_in_batch)
    }

    /// Writes in one transaction, or as a part of the batch. An error ends the whole batch.
    pub(super) fn write<T>(
        &mut self,
        body: impl FnOnce(&dyn Database) -> sql::Result<T>,
    ) -> Result<T, Error> {
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
        let latest_start_us = self.latest_start_us;
        self.write(|database| {
            put(database, row, latest_start_us)?;
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

    /// The highest number of a reservation that this point requested; 0 if there is none.
    pub fn highest_number(&self, own: &PointName) -> Result<u64, Error> {
        // `0` follows `/` in ASCII, so this range has exactly the ids that begin with the name and `/`.
        let query = "SELECT max(CAST(substr(id, ?3) AS INTEGER)) FROM tests WHERE id >= ?1 AND id < ?2";
        let digits = i64::try_from(own.0.len() + 2).unwrap_or(i64::MAX);
        let values = values![format!("{own}/"), format!("{own}0"), digits];
        let highest = read_first(&*self.database, query, values, |row| row.next::<Option<u64>>());
        Ok(highest.map_err(self.failed("read"))?.flatten().unwrap_or(0))
    }

    /// The tests that were running when the agent ended.
    pub fn running(&self) -> Result<Vec<TestRow>, Error> {
        self.rows(&format!("SELECT {COLUMNS} FROM tests WHERE state = 'running' ORDER BY start_us"), &[])
    }

    /// The newest tests, newest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<TestRow>, Error> {
        let (query, values) = filter.select();
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

    /// The points to which rows have to be sent.
    pub fn receivers(&self) -> Result<Vec<PointName>, Error> {
        let query = "SELECT DISTINCT point FROM outbox ORDER BY point";
        let rows = read_all(&*self.database, query, &[], |row| Ok(PointName(row.next()?)));
        rows.map_err(self.failed("read"))
    }

    /// The oldest tests whose rows have to be sent to a point.
    pub fn unsent(&self, to: &PointName, limit: u32) -> Result<Vec<String>, Error> {
        let query =
            "SELECT outbox.id FROM outbox LEFT JOIN tests ON tests.id = outbox.id WHERE outbox.point = ?1
             ORDER BY tests.start_us, outbox.id LIMIT ?2";
        let rows = read_all(&*self.database, query, values![to.0, i64::from(limit)], |row| row.next());
        rows.map_err(self.failed("read"))
    }

    /// Number of rows that have to be sent.
    pub fn unsent_count(&self) -> Result<u64, Error> {
        let count = read_first(&*self.database, "SELECT count(*) FROM outbox", &[], |row| row.next());
        Ok(count.map_err(self.failed("read"))?.unwrap_or(0))
    }

    /// Removes the rows to be sent to a point that is no longer a member.
    pub fn forget_receiver(&mut self, point: &PointName) -> Result<(), Error> {
        let delete = "DELETE FROM outbox WHERE point = ?1";
        self.write(|database| database.execute(delete, values![point.0]).map(drop))
    }

    /// Removes a row from the outbox: its receiver has it.
    pub fn sent(&mut self, id: &str, to: &PointName) -> Result<(), Error> {
        let delete = "DELETE FROM outbox WHERE id = ?1 AND point = ?2";
        self.write(|database| database.execute(delete, values![id, to.0]).map(drop))
    }
}

/// Converts an error of a database to an error of an archive.
fn failed(operation: &'static str, archive: String) -> impl Fn(DatabaseError) -> Error {
    move |cause| Error::Archive { operation, archive: archive.clone(), cause: Box::new(cause) }
}

/// Replaces the operation that an error names.
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
    let known = [FORMAT.version, FIFTH_VERSION, FOURTH_VERSION, THIRD_VERSION, SECOND_VERSION, FIRST_VERSION];
    let known = known.map(|version| Format { version, ..FORMAT });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, database::sql::Row, test_row::tests::row};

    #[test]
    fn each_list_is_read_from_an_index_on_all_its_conditions() {
        let archive = Archive::open(Path::new(":memory:"), None).unwrap();
        for number in 0..16 {
            let is_set = |bit: u32| number & (1 << bit) != 0;
            let filter = Filter {
                from: is_set(0).then(|| "a".into()),
                to: is_set(1).then(|| "b".into()),
                kind: is_set(2).then(|| "latency".into()),
                since_us: is_set(3).then_some(5),
                limit: 10,
            };
            let (query, values) = filter.select();
            let detail = |row: &mut Row<'_>| {
                let _: (i64, i64, i64) = (row.next()?, row.next()?, row.next()?);
                row.next::<String>()
            };
            let query = format!("EXPLAIN QUERY PLAN {query}");
            let plan = read_all(&*archive.database, &query, &values, detail).unwrap();
            let conditions = ["lead=?", "peer=?", "kind=?", "start_us>?"].into_iter().enumerate();
            let conditions = conditions.filter(|(bit, _)| is_set(*bit as u32)).map(|(_, text)| text);
            let conditions = conditions.collect::<Vec<_>>().join(" AND ");
            let end = if number == 0 { "tests_by_start".into() } else { format!(" ({conditions})") };
            assert!(
                plan[0].contains(" USING INDEX tests_") && plan[0].ends_with(&end),
                "{filter:?}: {plan:?}"
            );
            // Only tests with the same start are sorted.
            assert!(!plan.iter().any(|step| step.ends_with("TEMP B-TREE FOR ORDER BY")), "{plan:?}");
        }
    }

    #[test]
    fn each_receiver_gets_its_rows_in_the_order_of_their_starts() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        // b is unreachable for a long time.
        for number in 1..=1500 {
            archive.put_in_batch(&row(&format!("a/{number}"), number), &["b".into()]).unwrap();
        }
        archive.put_in_batch(&row("a/1501", 1501), &["c".into()]).unwrap();
        archive.commit().unwrap();
        assert_eq!(archive.receivers().unwrap(), ["b".into(), "c".into()]);
        assert_eq!(archive.unsent(&"c".into(), 10).unwrap(), ["a/1501"]);
        let first = (1..=1000).map(|number| format!("a/{number}"));
        assert!(archive.unsent(&"b".into(), 1000).unwrap().into_iter().eq(first));
        assert_eq!(archive.unsent_count().unwrap(), 1501);
        archive.forget_receiver(&"b".into()).unwrap();
        assert_eq!((archive.unsent_count().unwrap(), archive.receivers().unwrap().len()), (1, 1));
    }

    #[test]
    fn the_highest_number_counts_this_points_reservations_only() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        assert_eq!(archive.highest_number(&"a".into()).unwrap(), 0);
        for id in ["a/9", "a/100", "a/99", "a-b/500", "b/700", "a0/800"] {
            archive.put(&row(id, 1), &[]).unwrap();
        }
        assert_eq!(archive.highest_number(&"a".into()).unwrap(), 100);
        assert_eq!(archive.highest_number(&"a-b".into()).unwrap(), 500);
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
        assert_eq!(archive.unsent_count().unwrap(), 5, "each row to each receiver once");
        assert_eq!(archive.counts().unwrap(), [("finished".to_string(), 3)]);
        assert_eq!(archive.running().unwrap(), []);
        archive.put(&TestRow { state: State::Running, ..row("a/4", 40) }, &[]).unwrap();
        assert_eq!(archive.running().unwrap().len(), 1);
    }
}
