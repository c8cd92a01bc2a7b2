//! What the records of tests between hosts have in common, whether we made the test or read it: the summary before and after,
//! and the report as iperf3's JSON beside the series.

use std::path::{Path, PathBuf};

use ::record::Writer;
use experiment::{compact, rfc3339};
use perf::{
    iperf3_json::{self, FILE_NAME},
    report::{Amount, Direction, Protocol, Report, Role, Start, StreamEnd},
};
use schema::{Event, FlowSample, FlowSummary, HostInfo, Quality, RunSummary, SUMMARY_SCHEMA, Summary};

use crate::{Error, Result};

/// When the test began, RFC 3339.
pub fn started(start: &Start) -> String {
    rfc3339(jiff::Timestamp::try_from(start.time).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// A run before anything has happened.
pub fn begun(engine: &str, started: String) -> RunSummary {
    RunSummary {
        id: String::new(),
        engine: engine.into(),
        variant: None,
        kernel: None,
        sweep: Default::default(),
        repeat: 1,
        seed: 0,
        duration_s: 0.0,
        wall_s: 0.0,
        started,
        partial: false,
        flows: Vec::new(),
        links: Vec::new(),
        fairness_jain: None,
        quality: Quality { ok: true, ..Quality::default() },
        discarded: Vec::new(),
    }
}

/// The document of this one run. `host` is the reporting end.
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

/// What the record of a test between hosts says where others have their scenario.
pub fn is_a_test() -> String {
    format!("A test between real hosts ({FILE_NAME})")
}

/// Begins the record of one run. Its scenario file has a comment in place of a scenario: `what` it is, and its title.
///
/// # Errors
/// If the record cannot be written.
pub fn create(runs_dir: &Path, what: &str, summary: &Summary) -> Result<Writer> {
    let title = serde_json::to_string(&summary.title)?;
    let toml = format!("# {what}; there is no scenario.\ntitle = {title}\n");
    let run = &summary.runs[0];
    let id = ::record::new_id(&compact(&run.started), &run.engine, None, 1);
    Ok(Writer::create(runs_dir, &summary.scenario, &id, &toml, summary)?)
}

/// Finishes a record, with the report as iperf3's JSON beside its series, and returns its directory.
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
    let document = serde_json::to_string_pretty(&iperf3_json::to_json(report))? + "\n";
    let beside = writer.path().join(FILE_NAME);
    if let Err(error) = std::fs::write(&beside, document) {
        writer.abort();
        return Err(Error::Os { attempted: format!("write {}", beside.display()), source: error });
    }
    Ok(writer.finish(summary, rows, &[], events)?)
}

/// Jain's index of the goodputs that are known.
pub fn fairness(flows: &[FlowSummary]) -> Option<f64> {
    let goodputs: Vec<f64> =
        flows.iter().filter(|flow| flow.has_window()).filter_map(|flow| flow.goodput_bps).collect();
    model::jain_index(&goodputs)
}

/// What the test's end tells better than the rows.
pub fn complete(flow: &mut FlowSummary, ended: &StreamEnd) {
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

/// The test in words, as in `TCP to far, 10 s, 2 streams, reverse`.
pub fn title(start: &Start) -> String {
    let spec = &start.spec;
    let protocol = if spec.protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let way = if start.role == Role::Client { "to" } else { "from" };
    let mut title = format!("{protocol} {way} {}", start.peer_name);
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
