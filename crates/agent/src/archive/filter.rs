//! Which tests an archive lists.

use serde::{Deserialize, Serialize};

use super::columns::COLUMNS;
use crate::database::sql::{Field, Value};

/// Which tests to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Led by this point.
    pub from: Option<String>,
    /// Only tests to this point.
    pub to: Option<String>,
    /// Only tests of this kind.
    pub kind: Option<String>,
    /// With a start at or after this time, microseconds since 1970.
    pub since_us: Option<i64>,
    /// Maximum number of tests: the newest.
    pub limit: u32,
}

impl Filter {
    /// The query of these tests. It contains only the conditions that are set: an index exists for each
    /// combination.
    pub(super) fn select(&self) -> (String, Vec<Value>) {
        let conditions = [
            ("lead = ", self.from.to_value()),
            ("peer = ", self.to.to_value()),
            ("kind = ", self.kind.to_value()),
            ("start_us >= ", self.since_us.to_value()),
        ];
        let mut query = format!("SELECT {COLUMNS} FROM tests");
        let mut values = Vec::new();
        for (condition, value) in conditions.into_iter().filter(|(_, value)| *value != Value::Null) {
            query += if values.is_empty() { " WHERE " } else { " AND " };
            values.push(value);
            query += &format!("{condition}?{}", values.len());
        }
        values.push(Value::Integer(self.limit.into()));
        query += &format!(" ORDER BY start_us DESC, id DESC LIMIT ?{}", values.len());
        (query, values)
    }
}
