//! Samples of sockets, sent between two longfat ends: a column for each metric that has values, so that names
//! are sent once. Received values that no end measures are ignored.

use std::ops::RangeInclusive;

use schema::{FlowSample, Metrics};
use serde::{Deserialize, Serialize};

/// Maximum number of rows that are sent, and that are read.
pub const ROWS_MAX: usize = 100_000;
/// Longest name of a flow that is read, bytes: each row has a copy.
const MAX_FLOW_NAME_BYTES: usize = 128;
/// Sums and products of larger values would overflow.
const MAX_VALUE: i64 = 1 << 52;
const MAX_SEGMENTS: i64 = 1 << 32;
const MAX_SEGMENT_BYTES: i64 = 1 << 20;

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

    /// The rows. Unknown columns are ignored, missing and impossible values are absent, and so are rows with
    /// an impossible time or name.
    pub fn rows(self) -> Vec<FlowSample> {
        let mut rows: Vec<FlowSample> = std::iter::zip(self.time_us, self.flow)
            .take(ROWS_MAX)
            .map(|(time_us, flow)| FlowSample { time_us, flow, ..FlowSample::default() })
            .collect();
        for column in self.columns {
            let Some(index) = FlowSample::COLUMNS.iter().position(|known| known.name == column.name) else {
                continue;
            };
            let possible = possible_values(&column.name);
            for (row, value) in rows.iter_mut().zip(column.values) {
                row.set_metric(index, value.filter(|value| possible.contains(value)));
            }
        }
        rows.retain(|row| is_possible_time(row.time_us) && row.flow.len() <= MAX_FLOW_NAME_BYTES);
        rows
    }
}

/// Whether the other end can have measured a time since the start, microseconds.
pub fn is_possible_time(time_us: i64) -> bool {
    (0..=MAX_VALUE).contains(&time_us)
}

/// The values of a column that an end can measure.
fn possible_values(column: &str) -> RangeInclusive<i64> {
    match column {
        "snd_mss_bytes" => 0..=MAX_SEGMENT_BYTES,
        // They contain the difference of two clocks.
        name if name.contains("owd") => -MAX_VALUE..=MAX_VALUE,
        name if name.ends_with("_segs") => 0..=MAX_SEGMENTS,
        _ => 0..=MAX_VALUE,
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
    fn values_that_no_end_measures_are_ignored() {
        let row = |time_us, flow: String| FlowSample {
            time_us,
            flow,
            unacked_segs: Some(i64::MAX),
            snd_mss_bytes: Some(1 << 21),
            bytes_acked: Some(-1),
            owd_us: Some(-5),
            srtt_us: Some(7),
            ..FlowSample::default()
        };
        let named = |time_us| row(time_us, "stream-1".into());
        let rows = [named(0), named(-1), named(i64::MAX), row(0, "x".repeat(MAX_FLOW_NAME_BYTES + 1))];
        let possible = FlowSample {
            flow: "stream-1".into(),
            owd_us: Some(-5),
            srtt_us: Some(7),
            ..FlowSample::default()
        };
        assert_eq!(Samples::of(&rows).rows(), [possible]);
    }

    #[test]
    fn columns_of_any_length_and_name_cause_no_panic() {
        let text = r#"{"time_us":[1,2],"flow":["a","b","c"],
            "columns":[{"name":"srtt_us","values":[3]},{"name":"nonsense","values":[1,2,3,4]}]}"#;
        let rows = serde_json::from_str::<Samples>(text).unwrap().rows();
        assert_eq!(rows.iter().map(|row| row.srtt_us).collect::<Vec<_>>(), [Some(3), None]);
    }
}
