//! The common archive of a mesh in PostgreSQL: its tables, and the number of the last row stored from each
//! point's spool.

use super::{
    conversion::{prepare_tables, restore_rows},
    tables::{FIFTH_VERSION, FORMAT, FOURTH_VERSION, THIRD_VERSION, tables},
};
use crate::database::{
    DatabaseError,
    sql::{self, Database, Field, read_first, values},
};

/// The tables that only the common archive has. A spool's `number` is that of its last row that is stored
/// here.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS spools (name TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (name));";

/// Declarations of SQLite's strict tables as PostgreSQL has them. Texts are ordered by their bytes in both.
fn declarations(tables: &str) -> String {
    tables
        .replace(" STRICT, WITHOUT ROWID", "")
        .replace(" STRICT", "")
        .replace(" INTEGER", " BIGINT")
        .replace(" REAL", " DOUBLE PRECISION")
        .replace(" TEXT", " TEXT COLLATE \"C\"")
}

/// Creates missing tables, or converts those of an earlier version, in one transaction.
pub(super) fn create(database: &dyn Database) -> sql::Result<()> {
    database.batch("CREATE SCHEMA IF NOT EXISTS longfat")?;
    database.batch(&declarations(TABLES))?;
    match version(database)? {
        None => {
            database.batch(&declarations(&tables()))?;
            database.execute("INSERT INTO format VALUES (?1)", values![FORMAT.version])?;
        }
        Some(version @ (THIRD_VERSION | FOURTH_VERSION | FIFTH_VERSION)) => {
            database.batch(&declarations(&prepare_tables(version)))?;
            database.convert(&declarations(&tables()))?;
            restore_rows(database, version)?;
            database.execute("UPDATE format SET version = ?1", values![FORMAT.version])?;
        }
        Some(_) => {}
    }
    check_version(database)
}

fn version(database: &dyn Database) -> sql::Result<Option<i64>> {
    read_first(database, "SELECT version FROM format", &[], |row| row.next())
}

/// Checks that the tables have the format of this version.
pub(super) fn check_version(database: &dyn Database) -> sql::Result<()> {
    match version(database)?.unwrap_or(0) {
        found if found == FORMAT.version => Ok(()),
        found => Err(DatabaseError::Version { found, known: FORMAT.version }),
    }
}

/// The server's UTC, microseconds since 1970.
pub(super) fn server_time_us(database: &dyn Database) -> sql::Result<i64> {
    let query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";
    Ok(read_first(database, query, &[], |row| row.next())?.unwrap_or(0))
}

/// The number of the last row of a spool that is stored.
pub(super) fn stored_number(database: &dyn Database, spool: &str) -> sql::Result<i64> {
    let query = "SELECT number FROM spools WHERE name = ?1";
    Ok(read_first(database, query, values![spool], |row| row.next())?.unwrap_or(0))
}

/// Stores this number, in the transaction that stores the row.
pub(super) fn set_stored_number(database: &dyn Database, spool: &str, number: i64) -> sql::Result<()> {
    let insert =
        "INSERT INTO spools VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET number = excluded.number";
    database.execute(insert, values![spool, number]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use testing::{Missing, postgres::Cluster};

    use super::*;
    use crate::{
        archive::{
            Archive,
            conversion::tests::{check_fifth_version, check_third_version, fifth_version, third_version},
        },
        database::{Postgres, PostgresAddress},
    };

    /// Creates the tables of an earlier version, converts them, and checks the result.
    fn check_conversion(address: &PostgresAddress, version: i64, tables: &str, check: fn(&mut Archive)) {
        let old = Postgres::connect(address).unwrap();
        old.batch(&declarations(&format!(
            "CREATE SCHEMA longfat; {TABLES} INSERT INTO format VALUES ({version}); {tables}"
        )))
        .unwrap();
        drop(old);
        // Two points are updated at the same time.
        let connect = || {
            thread::spawn({
                let address = address.clone();
                move || drop(Archive::connect(&address).unwrap())
            })
        };
        for thread in [connect(), connect()] {
            thread.join().unwrap();
        }
        let mut archive = Archive::connect(address).unwrap();
        check(&mut archive);
        assert_eq!(Archive::connect_for_reading(address).unwrap().pairs().unwrap(), archive.pairs().unwrap());
    }

    #[test]
    fn a_common_archive_of_an_earlier_version_is_converted_once() {
        let Some(mut cluster) = Cluster::create() else {
            return testing::skip(Missing::Tool, "PostgreSQL 15 or newer is not installed");
        };
        cluster.start();
        let address: PostgresAddress = cluster.address().parse().unwrap();
        check_conversion(&address, THIRD_VERSION, &third_version(), check_third_version);
        Postgres::connect(&address).unwrap().batch("DROP SCHEMA longfat CASCADE").unwrap();
        check_conversion(&address, FIFTH_VERSION, &fifth_version(), check_fifth_version);
    }
}
