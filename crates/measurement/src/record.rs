//! Common parts of records of tests between hosts, own or imported: the summary at the beginning and end, and
//! iperf3's JSON with the series.

use std::path::{Path, PathBuf};

use ::record::Writer;
use experiment::{compact, rfc3339};
use iperf3::{
    document::{self, FILE_NAME},
    report::{Amount, Direction, Protocol, Report, Role, Start, StreamEnd},
};
use schema::{Event, FlowSample, FlowSummary, HostInfo, RunSummary, SUMMARY_SCHEMA, Summary};

use crate::{Error, Result};

/// Start time of the test, RFC 3339.
pub fn started(start: &Start) -> String {
    rfc3339(jiff::Timestamp::try_from(start.time).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// The summary document of one run. `host` is the reporting end.
pub fn summary(name: &str, start: &Start, host: HostInfo, run: RunSummary) -> Summary {
    Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: name.into(),
        title: title(start),
        host,
        runs: vec![run],
        published: Vec::new(),
    }
}

/// The comment that replaces the scenario in the record of a test.
pub fn test_comment() -> String {
    format!("A test between real hosts ({FILE_NAME})")
}

/// Creates the record of one run. Its scenario file has the comment `what` and a title instead of a scenario.
///
/// # Errors
/// If the record cannot be written.
pub fn create(runs_dir: &Path, what: &str, summary: &Summary) -> Result<Writer> {
    let title = serde_json::to_string(&summary.title)?;
    let toml = format!("# {what}; there is no scenario.\ntitle = {title}\n");
    let run = &summary.runs[0];
    let id = ::record::new_id(&compact(&run.started), run.engine.name(), None, 1);
    Ok(Writer::create(runs_dir, &summary.scenario, &id, &toml, summary)?)
}

/// Finishes a record and adds the report as iperf3's JSON; returns the record's directory.
///
/// # Errors
/// If the record cannot be written.
pub fn write(
    writer: Writer,
    summary: &Summary,
    report: &Report,
    rows: &[FlowSample],
    events: &[Event],
) -> Result<PathBuf> {
    let document = serde_json::to_string_pretty(&document::to_json(report))? + "\n";
    let document_path = writer.path().join(FILE_NAME);
    if let Err(error) = std::fs::write(&document_path, document) {
        writer.abort();
        return Err(Error::Os { attempted: format!("write {}", document_path.display()), source: error });
    }
    Ok(writer.finish(summary, rows, &[], events)?)
}

/// Jain's fairness index of the known goodputs.
pub fn fairness(flows: &[FlowSummary]) -> Option<f64> {
    let goodputs: Vec<f64> =
        flows.iter().filter(|flow| flow.is_bulk_transfer()).filter_map(|flow| flow.goodput_bps).collect();
    model::jain_index(&goodputs)
}

/// Sets the totals that are more exact in a test's result than in its rows.
pub fn set_totals(flow: &mut FlowSummary, ended: &StreamEnd) {
    if let Some(retransmits) = ended.tcp.and_then(|tcp| tcp.retransmits) {
        flow.retransmitted_segs = Some(retransmits);
    }
    if let (Some(sent), Some(received)) = (&ended.sent.udp, &ended.received.udp) {
        flow.datagrams_sent = Some(sent.packets);
        flow.datagrams_lost = u64::try_from(received.lost).ok();
        flow.datagrams_reordered = Some(received.out_of_order);
        flow.jitter_us = Some((received.jitter_s * 1e6 * 1e3).round() / 1e3);
        flow.loss_share = match received.packets {
            0 => None,
            packets => Some(received.lost.max(0) as f64 / packets as f64),
        };
    }
}

/// The title of a test: `TCP to far, 10 s, 2 streams, reverse`.
pub fn title(start: &Start) -> String {
    let spec = &start.spec;
    let protocol = if spec.protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let preposition = if start.role == Role::Client { "to" } else { "from" };
    let mut title = format!("{protocol} {preposition} {}", start.peer_name);
    match spec.amount {
        Amount::Time(time) => title.push_str(&format!(", {} s", time.as_secs_f64())),
        Amount::Bytes(bytes) => title.push_str(&format!(", {bytes}")),
        Amount::Blocks(blocks) => title.push_str(&format!(", {blocks} blocks")),
    }
    if spec.streams > 1 {
        title.push_str(&format!(", {} streams", spec.streams));
    }
    match spec.direction {
        Direction::Forward => {}
        Direction::Reverse => title.push_str(", reverse"),
        Direction::Both => title.push_str(", both directions"),
    }
    match &spec.title {
        Some(own) => format!("{own}: {title}"),
        None => title,
    }
}
