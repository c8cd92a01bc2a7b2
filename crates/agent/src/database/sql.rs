//! The interface of an archive's database: statements that SQLite and PostgreSQL both understand, and their
//! values.
//!
//! Parameters are `?1`, `?2`, ...; statements must have no other question mark. Sums of integers need `CASE`,
//! because PostgreSQL does not convert booleans to numbers, and a parameter that replaces a column needs
//! `CAST`.

use std::borrow::Cow;

/// Why a database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite's error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL's error.
    #[error("{}", postgres_text(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// PostgreSQL did not reply in time.
    #[error("the server does not reply")]
    NoReply,
    /// A system call.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// A column without the value that it must have.
    #[error("column {column} has an unexpected value: {value:?}")]
    Column {
        /// Its position in the row, from 0.
        column: usize,
        /// The value.
        value: Value,
    },
    /// Tables of another version.
    #[error("its format is version {found}, this version of longfat has {known}")]
    Version {
        /// The version of the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
}

/// An error of PostgreSQL with its cause, which has the server's message.
fn postgres_text(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A result of a database.
pub(crate) type Result<T> = std::result::Result<T, DatabaseError>;

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// `INTEGER`, `BIGINT`.
    Integer(i64),
    /// `REAL`, `DOUBLE PRECISION`.
    Real(f64),
    /// `TEXT`.
    Text(String),
}

/// A value in a row that a database is reading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueRef<'a> {
    /// No value.
    Null,
    /// `INTEGER`, `BIGINT`.
    Integer(i64),
    /// `REAL`, `DOUBLE PRECISION`.
    Real(f64),
    /// `TEXT`.
    Text(Cow<'a, str>),
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Value {
        match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Text(text) => Value::Text(text.into_owned()),
        }
    }
}

/// A type whose values are stored in a column.
pub(crate) trait Field: Sized {
    /// Converts to a database value.
    fn to_value(&self) -> Value;
    /// Converts from a database value; returns the value if it has another type.
    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>>;
}

impl Field for i64 {
    fn to_value(&self) -> Value {
        Value::Integer(*self)
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        if let ValueRef::Integer(number) = value { Ok(number) } else { Err(value) }
    }
}

/// A count.
impl Field for u64 {
    fn to_value(&self) -> Value {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        i64::of(value).map(|number| u64::try_from(number).unwrap_or(0))
    }
}

impl Field for f64 {
    fn to_value(&self) -> Value {
        Value::Real(*self)
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        if let ValueRef::Real(number) = value { Ok(number) } else { Err(value) }
    }
}

impl Field for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        if let ValueRef::Text(text) = value { Ok(text.into_owned()) } else { Err(value) }
    }
}

impl Field for &str {
    fn to_value(&self) -> Value {
        Value::Text((*self).into())
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        Err(value)
    }
}

impl<T: Field> Field for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::to_value)
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        if value == ValueRef::Null { Ok(None) } else { T::of(value).map(Some) }
    }
}

/// The columns of a row that a database is reading.
pub(crate) trait Columns {
    /// The value of a column; the first has the number 0.
    fn column(&self, column: usize) -> Result<ValueRef<'_>>;
}

/// A row whose values are read from left to right.
pub(crate) struct Row<'a> {
    columns: &'a dyn Columns,
    column: usize,
}

impl<'a> Row<'a> {
    /// A row of these columns.
    pub fn new(columns: &'a dyn Columns) -> Row<'a> {
        Row { columns, column: 0 }
    }

    /// The next value.
    pub fn next<T: Field>(&mut self) -> Result<T> {
        let column = self.column;
        self.column += 1;
        let value = T::of(self.columns.column(column)?);
        value.map_err(|value| DatabaseError::Column { column, value: value.into() })
    }
}

/// An open database.
pub(crate) trait Database: Send {
    /// Begins a transaction that writes. No other one may begin before its end.
    fn begin(&self) -> Result<()>;
    /// Runs a statement; returns the number of changed rows.
    fn execute(&self, statement: &str, values: &[Value]) -> Result<u64>;
    /// Runs a query, and calls `on_row` for each row of the result until it fails.
    fn query(
        &self,
        query: &str,
        values: &[Value],
        on_row: &mut dyn FnMut(&mut Row<'_>) -> Result<()>,
    ) -> Result<()>;
    /// Runs statements without values, separated by semicolons.
    fn batch(&self, statements: &str) -> Result<()>;
    /// Runs statements that may take long, because they convert all rows.
    fn convert(&self, statements: &str) -> Result<()>;
}

/// The values of a statement, of types with the trait [`Field`].
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($value.to_value()),*] };
}
pub(crate) use values;

/// Reads all rows of a query.
pub(crate) fn read_all<T>(
    database: &dyn Database,
    query: &str,
    values: &[Value],
    read: impl Fn(&mut Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    database.query(query, values, &mut |row| {
        rows.push(read(row)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Reads the first row of a query that returns few rows.
pub(crate) fn read_first<T>(
    database: &dyn Database,
    query: &str,
    values: &[Value],
    read: impl Fn(&mut Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut first = None;
    database.query(query, values, &mut |row| {
        if first.is_none() {
            first = Some(read(row)?);
        }
        Ok(())
    })?;
    Ok(first)
}

/// `?1, ?2, ...`
pub(crate) fn placeholders(count: usize) -> String {
    (1..=count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}
