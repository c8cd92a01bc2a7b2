//! The last minute of a watched connection, coarser than its trail, in which a change of the path's rate
//! shows.

use std::collections::VecDeque;

use diagnosis::Change;
use schema::FlowSample;

/// Minimum spacing of rows, microseconds.
const SPACING_US: i64 = 100_000;
/// Length of the history, microseconds.
const LENGTH_US: i64 = 60_000_000;
/// Time after a change until the path has its new rate, microseconds.
const ADAPTATION_US: i64 = 1_000_000;

/// Labelled rows, and the changes that they showed.
#[derive(Debug, Default)]
pub(super) struct History {
    rows: VecDeque<FlowSample>,
    changes: Vec<Change>,
}

impl History {
    /// Adds labelled rows that are later than those before, and searches for a change.
    pub(super) fn add(&mut self, rows: &[FlowSample]) {
        for row in rows {
            if self.rows.back().is_none_or(|last| row.time_us - last.time_us >= SPACING_US) {
                self.rows.push_back(row.clone());
            }
        }
        let newest = self.rows.back().map_or(0, |row| row.time_us);
        while self.rows.front().is_some_and(|first| newest - first.time_us > LENGTH_US) {
            self.rows.pop_front();
        }
        if let Some(change) = Change::of(self.rows.make_contiguous()) {
            let changed_us = i64::try_from(change.at.as_micros()).unwrap_or(i64::MAX);
            self.rows.retain(|row| row.time_us >= changed_us + ADAPTATION_US);
            self.changes.push(change);
        }
    }

    /// All changes so far, in order of time; their times are those of the rows.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use schema::Cause;

    use super::*;

    #[test]
    fn each_change_is_found_once_while_rows_arrive() {
        // 90 Mb/s, 20 from 10 s on, 60 from 25 s on; a row each 50 ms, reported each second.
        let rate = |ms: i64| {
            if ms < 10_000 {
                90
            } else if ms < 25_000 {
                20
            } else {
                60
            }
        };
        let mut history = History::default();
        let mut bytes = 0;
        for second in 0..40_i64 {
            let rows: Vec<FlowSample> = (0..20)
                .map(|i| {
                    let ms = second * 1000 + i * 50;
                    bytes += rate(ms) * 1_000_000 / 8 / 20;
                    FlowSample {
                        time_us: ms * 1000,
                        bytes_acked: Some(bytes),
                        srtt_us: Some(20_000),
                        limited_by: Some(Cause::PathRate),
                        ..FlowSample::default()
                    }
                })
                .collect();
            history.add(&rows);
        }
        let found: Vec<(f64, f64)> =
            history.changes().iter().map(|c| (c.at.as_secs_f64(), c.after_bps / 1e6)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].0 - 10.0).abs() <= 0.5 && (found[0].1 - 20.0).abs() <= 1.0, "{found:?}");
        assert!((found[1].0 - 25.0).abs() <= 0.5 && (found[1].1 - 60.0).abs() <= 3.0, "{found:?}");
    }
}
