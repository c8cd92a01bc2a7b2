//! Reads and writes single rows: writing a row also updates the number of rows in its state and the
//! statistics of its pair.

use super::{
    columns::{COLUMNS, UPDATES, read, values_of},
    pairs::update_pair,
};
use crate::{
    TestRow,
    database::sql::{self, Database, Field, placeholders, read_first, values},
};

/// Changes the number of rows in a state.
pub(super) fn add_to_state(database: &dyn Database, state: &str, tests: i64) -> sql::Result<()> {
    let add = "INSERT INTO states VALUES (?1, ?2) ON CONFLICT (state) DO UPDATE SET tests = states.tests + excluded.tests";
    database.execute(add, values![state, tests]).map(drop)
}

/// Reads a row.
pub(super) fn get(database: &dyn Database, id: &str) -> sql::Result<Option<TestRow>> {
    read_first(database, &format!("SELECT {COLUMNS} FROM tests WHERE id = ?1"), values![id], read)
}

/// Adds or replaces a row, and updates the statistics of its pair.
pub(super) fn put(database: &dyn Database, row: &TestRow, latest_start_us: i64) -> sql::Result<()> {
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
    // If the row that it replaces belongs to another pair, its sender was not allowed to create that row:
    // this one counts as new.
    let before = before.filter(|before| (&before.from, &before.to) == (&row.from, &row.to));
    update_pair(database, row, before.as_ref(), latest_start_us)
}
