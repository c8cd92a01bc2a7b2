//! The embedded database: a file of SQLite in the point's state directory.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, types::ValueRef as SqliteValue};

use super::sql::{self, Columns, Database, Row, Value, ValueRef};

/// Time that a reader or a writer waits for another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of prepared statements that are kept: more than an archive has.
const PREPARED_STATEMENTS: usize = 64;
/// Size of the page cache, KiB: the inner pages of the indices of some millions of tests.
const CACHE_KIB: u32 = 8192;

/// An open file.
#[derive(Debug)]
pub(crate) struct Sqlite(pub Connection);

impl Sqlite {
    /// Opens or creates a file.
    pub fn open(path: &Path) -> sql::Result<Sqlite> {
        Sqlite::of(Connection::open(path)?)
    }

    /// Opens a file that another connection writes.
    pub fn open_for_reading(path: &Path) -> sql::Result<Sqlite> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Sqlite::of(Connection::open_with_flags(path, flags)?)
    }

    fn of(connection: Connection) -> sql::Result<Sqlite> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
        connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB};"))?;
        Ok(Sqlite(connection))
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        let value = match self {
            Value::Null => SqliteValue::Null,
            Value::Integer(number) => SqliteValue::Integer(*number),
            Value::Real(number) => SqliteValue::Real(*number),
            Value::Text(text) => SqliteValue::Text(text.as_bytes()),
        };
        Ok(rusqlite::types::ToSqlOutput::Borrowed(value))
    }
}

impl Columns for rusqlite::Row<'_> {
    fn column(&self, column: usize) -> sql::Result<ValueRef<'_>> {
        Ok(match self.get_ref(column)? {
            SqliteValue::Null => ValueRef::Null,
            SqliteValue::Integer(number) => ValueRef::Integer(number),
            SqliteValue::Real(number) => ValueRef::Real(number),
            // A blob, or text that is not UTF-8, was written by another program.
            SqliteValue::Text(bytes) | SqliteValue::Blob(bytes) => {
                ValueRef::Text(String::from_utf8_lossy(bytes))
            }
        })
    }
}

impl Database for Sqlite {
    fn begin(&self) -> sql::Result<()> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn execute(&self, statement: &str, values: &[Value]) -> sql::Result<u64> {
        let mut statement = self.0.prepare_cached(statement)?;
        Ok(statement.execute(rusqlite::params_from_iter(values))? as u64)
    }

    fn query(
        &self,
        query: &str,
        values: &[Value],
        on_row: &mut dyn FnMut(&mut Row<'_>) -> sql::Result<()>,
    ) -> sql::Result<()> {
        let mut statement = self.0.prepare_cached(query)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            on_row(&mut Row::new(row))?;
        }
        Ok(())
    }

    fn batch(&self, statements: &str) -> sql::Result<()> {
        Ok(self.0.execute_batch(statements)?)
    }
    fn convert(&self, statements: &str) -> sql::Result<()> {
        self.batch(statements)
    }
}
