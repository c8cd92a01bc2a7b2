//! The databases of archives: SQLite and PostgreSQL behind the interface of [`sql`].

mod postgres;
mod postgres_address;
mod postgres_tls;
pub(crate) mod sql;
mod sqlite;

pub(crate) use postgres::Postgres;
pub use postgres_address::PostgresAddress;
pub use sql::DatabaseError;
pub(crate) use sqlite::Sqlite;
