//! Which program and version wrote an SQLite file.

use rusqlite::Connection;

/// The numbers that identify a file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// `application_id`.
    pub application: i64,
    /// `user_version`.
    pub version: i64,
}

impl Format {
    /// Reads the format of a file; `None` if the file is new.
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Option<Format>> {
        let read = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
        let format = Format { application: read("application_id")?, version: read("user_version")? };
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = connection.query_row(tables, [], |row| row.get(0))?;
        Ok((tables > 0 || format.application != 0).then_some(format))
    }

    /// The statements that mark a file.
    pub(crate) fn pragmas(self) -> String {
        format!("PRAGMA application_id = {}; PRAGMA user_version = {};", self.application, self.version)
    }
}
