//! A test's verdict as a part of the diagnostics.

use measurement::test::RecordedTest;
use schema::FlowSummary;
use view::{table, words};

/// Maximum number of streams that are shown.
const MAX_STREAMS: usize = 4;

/// The limit of each stream with its evidence and fix, and the location of the record.
pub(crate) fn text(recorded: &RecordedTest) -> String {
    let judged: Vec<&FlowSummary> = recorded.run.flows.iter().filter(|flow| flow.verdict.is_some()).collect();
    let mut lines = Vec::new();
    for flow in judged.iter().take(MAX_STREAMS) {
        let limits = words::limits(flow).unwrap_or_default();
        lines.push(format!("{} was limited by: {limits}", flow.name));
        lines.extend(flow.evidence.iter().map(|evidence| format!("  {evidence}")));
        lines.push(table::fix(flow).trim_end().to_owned());
    }
    if judged.len() > MAX_STREAMS {
        lines.push(format!("{} more streams are in the record", judged.len() - MAX_STREAMS));
    }
    lines.extend(recorded.run.quality.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(recorded.path.iter().map(|path| format!("record: {}", path.display())));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}
