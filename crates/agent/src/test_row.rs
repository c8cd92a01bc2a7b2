//! A test and its result, as points store it and send it to each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Time;

use crate::{cause::NO_RESULT, test::Figures};

/// The kinds of reasons for which a pair has no result because of the other end or the path, not because of a
/// rule or a conflict.
const REASONS_OF_THE_PATH: [&str; 3] = ["unreachable", "not_started", "test_failed"];

/// The state of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The test runs.
    Running,
    /// The test completed.
    Finished,
    /// The test was started and did not complete.
    Failed,
    /// The test was not started.
    NotRun,
}

impl State {
    /// The name of this state in the archive.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Finished => "finished",
            State::Failed => "failed",
            State::NotRun => "not_run",
        }
    }

    /// The state of this name.
    pub(crate) fn of(name: &str) -> State {
        let states = [State::Running, State::Finished, State::Failed, State::NotRun];
        states.into_iter().find(|known| known.name() == name).unwrap_or(State::Failed)
    }
}

/// A test in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestRow {
    /// The reservation.
    pub id: String,
    /// The point that led it, and measured.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The kind of test.
    pub kind: String,
    /// The options with which a throughput test was measured, as in `congestion=bbr parallel=4 omit=2s`;
    /// `null` if it had none.
    #[serde(default)]
    pub options: Option<String>,
    /// The recurring test that it belongs to.
    pub task: Option<String>,
    /// Start of its slot, or the earliest requested start if it had no slot; microseconds since 1970, UTC.
    pub start_us: i64,
    /// Its length, microseconds.
    pub duration_us: i64,
    /// Its state.
    pub state: State,
    /// Why it was not run, or failed.
    pub reason: Option<String>,
    /// The kind of reason, as in `rule`, `conflict`, `unreachable`, `test_failed`.
    #[serde(default)]
    pub reason_kind: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The record's directory, at the lead.
    pub record: Option<String>,
}

impl TestRow {
    /// The cause that the test found; `None` if it states nothing about the path.
    pub(crate) fn cause(&self) -> Option<String> {
        // An application's transfer may be limited by the application, and a stream has a rate. The cause is
        // that of TCP tests.
        if matches!(self.kind.as_str(), "latency" | "probe" | "trace" | "stream" | "transfer") {
            return None;
        }
        match self.state {
            State::Finished => self.figures.verdict.clone(),
            // A test that exceeded its slot counts as failed, but has figures.
            State::Failed | State::NotRun => {
                let kind = self.reason_kind.as_deref()?;
                let is_of_path = REASONS_OF_THE_PATH.contains(&kind);
                is_of_path.then(|| self.figures.verdict.clone().unwrap_or_else(|| NO_RESULT.into()))
            }
            State::Running => None,
        }
    }
}

/// A span in the unit of the rows: whole microseconds.
pub(crate) fn micros(span: Time) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A finished test that the path's rate limited.
    pub fn row(id: &str, start_us: i64) -> TestRow {
        TestRow {
            id: id.into(),
            from: "a".into(),
            to: "b".into(),
            kind: "throughput".into(),
            options: None,
            task: None,
            start_us,
            duration_us: 10_000_000,
            state: State::Finished,
            reason: None,
            reason_kind: None,
            figures: Figures {
                goodput_bps: Some(1e9),
                verdict: Some("path_rate".into()),
                ..Figures::default()
            },
            record: Some("runs/x".into()),
        }
    }

    #[test]
    fn rows_of_points_with_an_earlier_version_are_read() {
        let mut row = row("a/1", 5);
        (row.figures.mtu_bytes, row.figures.hops) = (Some(1500), Some(7));
        let mut document = serde_json::to_value(&row).unwrap();
        assert_eq!(serde_json::from_value::<TestRow>(document.clone()).unwrap(), row);
        for name in ["capacity_bps", "available_bps", "mtu_bytes", "hops"] {
            assert!(document.as_object_mut().unwrap().remove(name).is_some(), "{name}");
        }
        (row.figures.mtu_bytes, row.figures.hops) = (None, None);
        assert_eq!(serde_json::from_value::<TestRow>(document).unwrap(), row);
    }
}
