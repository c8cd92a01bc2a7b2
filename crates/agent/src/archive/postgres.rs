//! The common archive of a mesh in PostgreSQL 15 or newer: schema `longfat` of a database.
//!
//! Every wait has a deadline. Writers take turns by an advisory lock: a row and what it changes of its pair are one step, as in SQLite,
//! which has one writer at a time.

use std::{cell::RefCell, collections::BTreeMap, fmt, future::Future, str::FromStr, time::Duration};

use tokio::{runtime::Runtime, time::timeout};
use tokio_postgres::{
    Client, NoTls, Statement,
    types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

use super::{
    FORMAT,
    sql::{self, Database, DatabaseError, Field, Row, Value, read_first, values},
    tables,
};

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a statement, and of the server's reply to it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Key of the advisory lock of writers: "LFar".
const WRITERS: i64 = 0x4c46_6172;
/// The tables that only the common archive has. A spool's `number` is that of its last row that is stored here.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS spools (name TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (name));";

/// Where the common archive is.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress(tokio_postgres::Config);

impl FromStr for PostgresAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut config = tokio_postgres::Config::from_str(text).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        })?;
        if config.get_hosts().is_empty() {
            return Err("the host is missing, as in host=/run/postgresql dbname=longfat".into());
        }
        if config.get_ssl_mode() == tokio_postgres::config::SslMode::Require {
            return Err("TLS is not supported: use a Unix socket, or a tunnel".into());
        }
        config.application_name("longfat-agent").connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(STATEMENT_TIMEOUT);
        Ok(PostgresAddress(config))
    }
}

/// Shows the address without the password.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.0.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let database = self.0.get_dbname().or(self.0.get_user()).unwrap_or("the user's database");
        write!(out, "{database} of the PostgreSQL server {host}")
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PostgresAddress({self})")
    }
}

/// An open connection.
pub(super) struct Postgres {
    /// Runs the connection while a statement waits for its reply.
    runtime: Runtime,
    client: Client,
    statements: RefCell<BTreeMap<String, Statement>>,
}

impl Postgres {
    /// Connects with the server.
    pub fn connect(address: &PostgresAddress) -> sql::Result<Postgres> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connecting = async { timeout(CONNECT_TIMEOUT * 2, address.0.connect(NoTls)).await };
        let (client, connection) = runtime.block_on(connecting).map_err(|_| DatabaseError::NoReply)??;
        runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection with PostgreSQL ended: {error}");
            }
        });
        let postgres = Postgres { runtime, client, statements: RefCell::default() };
        let timeout_ms = STATEMENT_TIMEOUT.as_millis();
        postgres.batch(&format!(
            "SET statement_timeout = {timeout_ms}; SET lock_timeout = {timeout_ms};
             SET idle_in_transaction_session_timeout = {timeout_ms}; SET search_path = longfat"
        ))?;
        Ok(postgres)
    }

    fn wait<T>(&self, reply: impl Future<Output = Result<T, tokio_postgres::Error>>) -> sql::Result<T> {
        let replied = self.runtime.block_on(async { timeout(STATEMENT_TIMEOUT, reply).await });
        Ok(replied.map_err(|_| DatabaseError::NoReply)??)
    }

    /// A statement, prepared once for the connection.
    fn prepare(&self, statement: &str) -> sql::Result<Statement> {
        if let Some(known) = self.statements.borrow().get(statement) {
            return Ok(known.clone());
        }
        let prepared = self.wait(self.client.prepare(&statement.replace('?', "$")))?;
        self.statements.borrow_mut().insert(statement.into(), prepared.clone());
        Ok(prepared)
    }
}

/// Parameters as the client wants them.
fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl Database for Postgres {
    fn begin(&self) -> sql::Result<()> {
        self.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({WRITERS})"))
    }

    fn execute(&self, statement: &str, values: &[Value]) -> sql::Result<u64> {
        let statement = self.prepare(statement)?;
        self.wait(self.client.execute(&statement, &parameters(values)))
    }

    fn query(&self, query: &str, values: &[Value]) -> sql::Result<Vec<Row>> {
        let statement = self.prepare(query)?;
        let rows = self.wait(self.client.query(&statement, &parameters(values)))?;
        let read = |row: &tokio_postgres::Row| -> sql::Result<Row> {
            let values = (0..row.len()).map(|column| row.try_get::<_, Value>(column));
            Ok(Row::new(values.collect::<Result<Vec<Value>, _>>()?))
        };
        rows.iter().map(read).collect()
    }

    fn batch(&self, statements: &str) -> sql::Result<()> {
        self.wait(self.client.batch_execute(statements))
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) => number.to_sql(kind, out),
            Value::Real(number) => number.to_sql(kind, out),
            // PostgreSQL's texts cannot contain NUL.
            Value::Text(text) => text.replace('\0', "\u{fffd}").to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl FromSql<'_> for Value {
    fn from_sql(kind: &Type, raw: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Value::Integer(FromSql::from_sql(kind, raw)?),
            Type::INT4 => Value::Integer(i64::from(<i32 as FromSql>::from_sql(kind, raw)?)),
            Type::FLOAT8 => Value::Real(FromSql::from_sql(kind, raw)?),
            _ => Value::Text(FromSql::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::FLOAT8, Type::TEXT].contains(kind)
    }
}

/// Declarations of SQLite's strict tables as PostgreSQL has them. Texts are ordered by their bytes in both.
fn declarations(tables: &str) -> String {
    tables
        .replace(" STRICT, WITHOUT ROWID", "")
        .replace(" STRICT", "")
        .replace(" INTEGER", " BIGINT")
        .replace(" REAL", " DOUBLE PRECISION")
        .replace(" TEXT", " TEXT COLLATE \"C\"")
}

/// Creates what is missing, in a transaction.
pub(super) fn create(database: &dyn Database) -> sql::Result<()> {
    database.batch("CREATE SCHEMA IF NOT EXISTS longfat")?;
    database.batch(&declarations(TABLES))?;
    if version(database)?.is_none() {
        database.batch(&declarations(&tables()))?;
        database.execute("INSERT INTO format VALUES (?1)", values![FORMAT.version])?;
    }
    check_version(database)
}

fn version(database: &dyn Database) -> sql::Result<Option<i64>> {
    read_first(database, "SELECT version FROM format", &[], Row::next)
}

/// Checks that the tables are those of this version.
pub(super) fn check_version(database: &dyn Database) -> sql::Result<()> {
    match version(database)?.unwrap_or(0) {
        found if found == FORMAT.version => Ok(()),
        found => Err(DatabaseError::Version { found, known: FORMAT.version }),
    }
}

/// The number of the last row of a spool that is stored.
pub(super) fn stored_number(database: &dyn Database, spool: &str) -> sql::Result<i64> {
    let query = "SELECT number FROM spools WHERE name = ?1";
    Ok(read_first(database, query, values![spool], Row::next)?.unwrap_or(0))
}

/// Remembers it, in the transaction that stores the row.
pub(super) fn set_stored_number(database: &dyn Database, spool: &str, number: i64) -> sql::Result<()> {
    let insert =
        "INSERT INTO spools VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET number = excluded.number";
    database.execute(insert, values![spool, number]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_shown_without_password() {
        let address: PostgresAddress = "host=db.example user=u password=secret dbname=mesh".parse().unwrap();
        assert_eq!(address.to_string(), "mesh of the PostgreSQL server db.example");
        assert!(!format!("{address:?}").contains("secret"));
        for (text, part) in [
            ("dbname=x", "host is missing"),
            ("host=a sslmode=require", "TLS is not supported"),
            ("host=a colour=red", "colour"),
        ] {
            let error = text.parse::<PostgresAddress>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
