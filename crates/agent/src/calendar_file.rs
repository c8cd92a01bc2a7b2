//! The calendar of a point in an SQLite file: the events of [`reservation::Point`], in their order.
//!
//! A transaction is on the disk when [`CalendarFile::write`] returns (write-ahead log, `synchronous = FULL`).
//! Only then may the messages of the same step be sent: a process that is killed at any moment has announced
//! no event that its file lacks.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use reservation::{Event, InconsistentEvents, Point, PointName, PointState, Settings};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use crate::sqlite::Format;

/// The files that this program writes: "LFcl".
const FORMAT: Format = Format { application: 0x4c46_636c, version: 1 };
/// A new snapshot replaces all events when more events than this, and more than the last snapshot has, follow
/// that snapshot.
const MAX_EVENTS_SINCE_SNAPSHOT: usize = 1000;

/// Why a calendar file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation of SQLite.
    #[error("cannot {operation} the calendar {path}: {cause}")]
    Sqlite {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        cause: rusqlite::Error,
    },
    /// Another process has it open.
    #[error(
        "the calendar {path} is in use by another process: another `longfat agent run` runs in this directory"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A file of another program, or of a newer version.
    #[error(
        "{path} is not a calendar of this version of longfat (application {application:#x}, version {version})"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its `application_id`.
        application: i64,
        /// Its `user_version`.
        version: i64,
    },
    /// A calendar of another point.
    #[error("{path} is the calendar of the point {owner}, not of {name}")]
    OtherPoint {
        /// The file.
        path: PathBuf,
        /// Its point.
        owner: String,
        /// The point that opens it.
        name: PointName,
    },
    /// An event that cannot be read.
    #[error("event {number} of the calendar {path} cannot be read: {cause}")]
    Event {
        /// The file.
        path: PathBuf,
        /// The event.
        number: i64,
        /// The cause.
        cause: serde_json::Error,
    },
    /// Events that contradict each other, or bookings that overlap.
    #[error("the calendar {path} is damaged: {cause}; move it elsewhere to begin with an empty one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mistake.
        cause: InconsistentEvents,
    },
}

/// An open calendar file. No other process can open it meanwhile.
#[derive(Debug)]
pub struct CalendarFile {
    path: PathBuf,
    connection: Connection,
    /// Number of events in the file.
    events: usize,
    /// Number of events that the last snapshot had.
    snapshot: usize,
}

impl CalendarFile {
    /// Opens or creates the calendar of a point, and rebuilds the point. Call [`Point::restart`] next.
    ///
    /// # Errors
    /// The file cannot be opened or read, belongs to another point, is in use, or has overlapping bookings.
    pub fn open(path: &Path, name: PointName, settings: Settings) -> Result<(Self, Point), Error> {
        let failed = |operation| {
            let path = path.to_owned();
            move |cause: rusqlite::Error| match cause.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::InUse { path },
                _ => Error::Sqlite { operation, path, cause },
            }
        };
        let connection = Connection::open(path).map_err(failed("open"))?;
        // Another agent keeps its lock until it ends: waiting for it would only delay the message.
        connection.busy_timeout(Duration::ZERO).map_err(failed("open"))?;
        let format = Format::of(&connection).map_err(failed("read"))?;
        if let Some(Format { application, version }) = format.filter(|format| *format != FORMAT) {
            return Err(Error::Foreign { path: path.into(), application, version });
        }
        // The lock is kept until the end of the process; no -shm file is needed.
        let prepare =
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
        connection.execute_batch(prepare).map_err(failed("lock"))?;
        connection.execute_batch("BEGIN EXCLUSIVE; COMMIT;").map_err(failed("lock"))?;
        if format.is_none() {
            let create = format!(
                "BEGIN;
                 CREATE TABLE owner (name TEXT NOT NULL) STRICT;
                 CREATE TABLE events (number INTEGER PRIMARY KEY, event TEXT NOT NULL) STRICT;
                 {} COMMIT;",
                FORMAT.pragmas()
            );
            connection.execute_batch(&create).map_err(failed("create"))?;
        }
        let mut file = CalendarFile { path: path.into(), connection, events: 0, snapshot: 0 };
        file.check_owner(&name)?;
        let events = file.events()?;
        let point = Point::recover(name, settings, &events);
        let point = point.map_err(|cause| Error::Damaged { path: path.into(), cause })?;
        file.events = events.len();
        let snapshot = point.state().snapshot();
        file.snapshot = snapshot.len();
        if events.len() > snapshot.len() + MAX_EVENTS_SINCE_SNAPSHOT {
            file.replace(&snapshot)?;
        }
        Ok((file, point))
    }

    /// Whether the file has no events: it is new, or an earlier one was moved elsewhere.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Replaces the events by a snapshot, if there are many more than it has. `state` has applied all events
    /// that were written.
    ///
    /// # Errors
    /// SQLite's, as on a full disk.
    pub fn compact(&mut self, state: &PointState) -> Result<(), Error> {
        if self.events.saturating_sub(self.snapshot) > self.snapshot.max(MAX_EVENTS_SINCE_SNAPSHOT) {
            self.replace(&state.snapshot())?;
        }
        Ok(())
    }

    fn check_owner(&mut self, name: &PointName) -> Result<(), Error> {
        let owner = self.connection.query_row("SELECT name FROM owner", [], |row| row.get::<_, String>(0));
        match owner.optional().map_err(|cause| self.failed("read", cause))? {
            Some(owner) if owner == name.0 => Ok(()),
            Some(owner) => Err(Error::OtherPoint { path: self.path.clone(), owner, name: name.clone() }),
            None => {
                let inserted = self.connection.execute("INSERT INTO owner VALUES (?1)", params![name.0]);
                inserted.map(|_| ()).map_err(|cause| self.failed("write", cause))
            }
        }
    }

    /// All events, in their order.
    fn events(&self) -> Result<Vec<Event>, Error> {
        let failed = |cause| self.failed("read", cause);
        let mut statement =
            self.connection.prepare("SELECT number, event FROM events ORDER BY number").map_err(failed)?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
        rows.map_err(failed)?
            .map(|row| {
                let (number, text) = row.map_err(failed)?;
                let event = serde_json::from_str(&text);
                event.map_err(|cause| Error::Event { path: self.path.clone(), number, cause })
            })
            .collect()
    }

    /// Writes the events of one or more steps in one transaction. They are on the disk when it returns.
    ///
    /// # Errors
    /// An error of SQLite, for example if the disk is full. Then none of the events is written, and the
    /// messages of these steps must not be sent: rebuild the point by opening the file again.
    pub fn write(&mut self, events: &[Event]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        self.in_transaction(events, false)?;
        self.events += events.len();
        Ok(())
    }

    /// Replaces all events.
    fn replace(&mut self, snapshot: &[Event]) -> Result<(), Error> {
        self.in_transaction(snapshot, true)?;
        (self.events, self.snapshot) = (snapshot.len(), snapshot.len());
        Ok(())
    }

    fn in_transaction(&mut self, events: &[Event], replaces: bool) -> Result<(), Error> {
        let written = write_events(&mut self.connection, events, replaces);
        written.map_err(|cause| self.failed("write", cause))
    }

    fn failed(&self, operation: &'static str, cause: rusqlite::Error) -> Error {
        Error::Sqlite { operation, path: self.path.clone(), cause }
    }
}

fn write_events(connection: &mut Connection, events: &[Event], replaces: bool) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    if replaces {
        transaction.execute("DELETE FROM events", [])?;
    }
    {
        let mut insert = transaction.prepare("INSERT INTO events (event) VALUES (?1)")?;
        for event in events {
            let text = serde_json::to_string(event);
            let text = text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            insert.execute(params![text])?;
        }
    }
    transaction.commit()
}
