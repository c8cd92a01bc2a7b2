//! A connection to PostgreSQL 15 or newer: schema `longfat` of a database.
//!
//! Every wait has a deadline. An advisory lock admits one writer at a time, as in SQLite: a row and the
//! statistics of its pair change in one step.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap, future::Future, time::Duration};

use tokio::{runtime::Runtime, time::timeout};
use tokio_postgres::{
    Client, Statement,
    types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

use super::{
    PostgresAddress,
    postgres_address::{CONNECT_TIMEOUT, STATEMENT_TIMEOUT},
    postgres_tls::Connector,
    sql::{self, Columns, Database, DatabaseError, Row, Value, ValueRef},
};

/// Timeout of a statement that converts an archive of an earlier version.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(3600);
/// Key of the advisory lock of writers: "LFar" in ASCII.
const WRITERS: i64 = 0x4c46_6172;

/// An open connection.
pub(crate) struct Postgres {
    /// Runs the connection while a statement waits for its reply.
    runtime: Runtime,
    client: Client,
    statements: RefCell<BTreeMap<String, Statement>>,
}

impl Postgres {
    /// Connects to the server.
    pub fn connect(address: &PostgresAddress) -> sql::Result<Postgres> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connector = Connector::new(address.tls.as_ref())?;
        let connecting = async { timeout(CONNECT_TIMEOUT * 2, address.config.connect(connector)).await };
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
        self.wait_for(STATEMENT_TIMEOUT, reply)
    }

    fn wait_for<T>(
        &self,
        time: Duration,
        reply: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> sql::Result<T> {
        let replied = self.runtime.block_on(async { timeout(time, reply).await });
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

/// Parameters in the form that the client expects.
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

    fn query(
        &self,
        query: &str,
        values: &[Value],
        on_row: &mut dyn FnMut(&mut Row<'_>) -> sql::Result<()>,
    ) -> sql::Result<()> {
        let statement = self.prepare(query)?;
        let rows = self.wait(self.client.query(&statement, &parameters(values)))?;
        rows.iter().try_for_each(|row| on_row(&mut Row::new(row)))
    }

    fn batch(&self, statements: &str) -> sql::Result<()> {
        self.wait(self.client.batch_execute(statements))
    }

    fn convert(&self, statements: &str) -> sql::Result<()> {
        let timeout_ms = CONVERSION_TIMEOUT.as_millis();
        self.batch(&format!("SET LOCAL statement_timeout = {timeout_ms}"))?;
        self.wait_for(CONVERSION_TIMEOUT, self.client.batch_execute(statements))?;
        self.batch(&format!("SET LOCAL statement_timeout = {}", STATEMENT_TIMEOUT.as_millis()))
    }
}

impl Columns for tokio_postgres::Row {
    fn column(&self, column: usize) -> sql::Result<ValueRef<'_>> {
        Ok(self.try_get(column)?)
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
            // A text in PostgreSQL cannot contain NUL.
            Value::Text(text) => text.replace('\0', "\u{fffd}").to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for ValueRef<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => ValueRef::Integer(FromSql::from_sql(kind, raw)?),
            Type::INT4 => ValueRef::Integer(i64::from(<i32 as FromSql>::from_sql(kind, raw)?)),
            Type::FLOAT8 => ValueRef::Real(FromSql::from_sql(kind, raw)?),
            _ => ValueRef::Text(Cow::Borrowed(FromSql::from_sql(kind, raw)?)),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(ValueRef::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::FLOAT8, Type::TEXT].contains(kind)
    }
}
