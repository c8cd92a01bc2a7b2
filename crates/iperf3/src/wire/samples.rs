//! Samples of sockets, sent between two longfat ends: a column for each metric that has values, so that names are
//! sent once.

use schema::{FlowSample, Metrics};
use serde::{Deserialize, Serialize};

/// Maximum number of rows that are sent, and that are read.
pub const ROWS_MAX: usize = 100_000;

/// Rows of the record, column by column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    time_us: Vec<i64>,
    flow: Vec<String>,
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Column {
    name: String,
    values: Vec<Option<i64>>,
}

impl Samples {
    /// The columns of the first rows, up to `ROWS_MAX`.
    pub fn of(rows: &[FlowSample]) -> Samples {
        let rows = &rows[..rows.len().min(ROWS_MAX)];
        let column = |(index, about): (usize, &schema::ColumnInfo)| {
            let values: Vec<Option<i64>> = rows.iter().map(|row| row.metric(index)).collect();
            values.iter().any(Option::is_some).then(|| Column { name: about.name.into(), values })
        };
        Samples {
            time_us: rows.iter().map(|row| row.time_us).collect(),
            flow: rows.iter().map(|row| row.flow.clone()).collect(),
            columns: FlowSample::COLUMNS.iter().enumerate().filter_map(column).collect(),
        }
    }

    /// The rows. Unknown columns are ignored, missing values are absent.
    pub fn rows(self) -> Vec<FlowSample> {
        let mut rows: Vec<FlowSample> = std::iter::zip(self.time_us, self.flow)
            .take(ROWS_MAX)
            .map(|(time_us, flow)| FlowSample { time_us, flow, ..FlowSample::default() })
            .collect();
        for column in self.columns {
            let Some(index) = FlowSample::COLUMNS.iter().position(|known| known.name == column.name) else {
                continue;
            };
            for (row, value) in rows.iter_mut().zip(column.values) {
                row.set_metric(index, value);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip() {
        let row = |i: i64| FlowSample {
            time_us: i,
            flow: "stream-1".into(),
            rcv_wnd_bytes: Some(i * 7),
            srtt_us: (i > 1).then_some(5),
            ..FlowSample::default()
        };
        let rows = [row(0), row(1), row(2)];
        let samples = Samples::of(&rows);
        assert_eq!(samples.columns.len(), 2, "only columns with values are sent");
        let text = serde_json::to_string(&samples).unwrap();
        assert_eq!(serde_json::from_str::<Samples>(&text).unwrap().rows(), rows);
    }

    #[test]
    fn columns_of_any_length_and_name_cause_no_panic() {
        let text = r#"{"time_us":[1,2],"flow":["a","b","c"],
            "columns":[{"name":"srtt_us","values":[3]},{"name":"nonsense","values":[1,2,3,4]}]}"#;
        let rows = serde_json::from_str::<Samples>(text).unwrap().rows();
        assert_eq!(rows.iter().map(|row| row.srtt_us).collect::<Vec<_>>(), [Some(3), None]);
    }
}
