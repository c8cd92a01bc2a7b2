//! The columns of a test: one list from which the tables, the statements and the conversion of rows are
//! generated.

use crate::{
    State, TestRow,
    database::sql::{self, Field, Row, Value, ValueRef},
    test::Figures,
};

macro_rules! columns {
    ($first:literal $first_type:literal => $($first_field:ident).+;
     $($name:literal $type:literal => $($field:ident).+;)*) => {
        /// The names of all columns.
        pub(super) const COLUMNS: &str = concat!($first $(, ", ", $name)*);
        /// The names and types of all columns, for `CREATE TABLE`.
        pub(super) const DECLARATIONS: &str = concat!($first, " ", $first_type $(, ", ", $name, " ", $type)*);
        /// For `ON CONFLICT ... DO UPDATE SET`.
        pub(super) const UPDATES: &str =
            concat!($first, " = excluded.", $first $(, ", ", $name, " = excluded.", $name)*);

        /// The values of a row, in the order of [`COLUMNS`].
        pub(super) fn values_of(row: &TestRow) -> Vec<Value> {
            vec![row.$($first_field).+.to_value() $(, row.$($field).+.to_value())*]
        }

        /// A row from its values, in the order of [`COLUMNS`].
        pub(super) fn read(values: &mut Row<'_>) -> sql::Result<TestRow> {
            let mut row = TestRow::blank();
            row.$($first_field).+ = values.next()?;
            $(row.$($field).+ = values.next()?;)*
            Ok(row)
        }
    };
}

columns! {
    "id" "TEXT NOT NULL" => id;
    "lead" "TEXT NOT NULL" => from;
    "peer" "TEXT NOT NULL" => to;
    "kind" "TEXT NOT NULL" => kind;
    "task" "TEXT" => task;
    "start_us" "INTEGER NOT NULL" => start_us;
    "duration_us" "INTEGER NOT NULL" => duration_us;
    "state" "TEXT NOT NULL" => state;
    "reason" "TEXT" => reason;
    "goodput_bps" "REAL" => figures.goodput_bps;
    "loss_share" "REAL" => figures.loss_share;
    "min_rtt_us" "REAL" => figures.min_rtt_us;
    "typical_rtt_us" "REAL" => figures.typical_rtt_us;
    "verdict" "TEXT" => figures.verdict;
    "evidence" "TEXT" => figures.evidence;
    "record" "TEXT" => record;
    "reason_kind" "TEXT" => reason_kind;
    "options" "TEXT" => options;
    "capacity_bps" "REAL" => figures.capacity_bps;
    "available_bps" "REAL" => figures.available_bps;
    "mtu_bytes" "INTEGER" => figures.mtu_bytes;
    "hops" "INTEGER" => figures.hops;
}

impl TestRow {
    /// A row to be filled in.
    fn blank() -> TestRow {
        TestRow {
            id: String::new(),
            from: String::new(),
            to: String::new(),
            kind: String::new(),
            options: None,
            task: None,
            start_us: 0,
            duration_us: 0,
            state: State::Failed,
            reason: None,
            reason_kind: None,
            figures: Figures::default(),
            record: None,
        }
    }
}

impl Field for State {
    fn to_value(&self) -> Value {
        self.name().to_value()
    }

    fn of(value: ValueRef<'_>) -> std::result::Result<Self, ValueRef<'_>> {
        if let ValueRef::Text(name) = &value { Ok(State::of(name)) } else { Err(value) }
    }
}
