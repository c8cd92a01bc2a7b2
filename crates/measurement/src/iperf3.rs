//! Records from iperf3's JSON, and from the output of iperf 2.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use iperf3::{
    document,
    report::{Protocol, Report, Role, Start, StreamEnd},
};
use schema::{EngineName, FlowKind, FlowSample, FlowSummary, HostInfo, Quality, Reliability, RunSummary};
use verdict::{FlowContext, FlowTimes};

use crate::{
    Error, Result,
    record::{self, set_totals, started},
    streams::{Stream, counted_from, rows, streams},
};

/// The tests in a JSON file of iperf3 (`-J` or `--json-stream`).
///
/// # Errors
/// If it is not such a file or has no test.
pub fn reports(file: &Path, text: &str) -> Result<Vec<Report>> {
    let bad = |why: String| Error::BadInput(format!("{}: {why}", file.display()));
    let reports = document::reports(text).map_err(|error| bad(error.to_string()))?;
    if reports.is_empty() {
        return Err(bad("no test in this file".into()));
    }
    Ok(reports)
}

/// The tests in the output of iperf 2, CSV or text. `written` is when the file was written: text without
/// times gets this time.
///
/// # Errors
/// If it is not such a file or has no test.
pub fn iperf2_reports(file: &Path, text: &str, written: SystemTime) -> Result<Vec<Report>> {
    let bad = |why: String| Error::BadInput(format!("{}: {why}", file.display()));
    iperf2::document::reports(text, written).map_err(|error| bad(error.to_string()))
}

/// Writes a record of a test that has begun and returns its directory. `engine` is the program that ran the
/// test.
///
/// # Errors
/// If the record cannot be written.
pub fn import(
    name: &str,
    engine: EngineName,
    report: &Report,
    start: &Start,
    runs_dir: &Path,
) -> Result<PathBuf> {
    let streams = streams(report);
    let rows = rows(report, &streams);
    let host = HostInfo { kernel: kernel(&start.system_info), cpus: 0 };
    let summary = record::summary(name, start, host, run_summary(engine, report, start, &streams, &rows));
    let writer = record::create(runs_dir, &record::test_comment(), &summary)?;
    record::write(writer, &summary, report, &rows, &[])
}

/// Whether a test did not reach its end.
pub fn is_partial(report: &Report) -> bool {
    report.end.is_none() || report.error.is_some()
}

fn run_summary(
    engine: EngineName,
    report: &Report,
    start: &Start,
    streams: &[Stream],
    rows: &[FlowSample],
) -> RunSummary {
    let flows: Vec<FlowSummary> = streams.iter().map(|stream| flow(report, start, stream, rows)).collect();
    let last_us = rows.iter().map(|row| row.time_us).max().unwrap_or(0);
    RunSummary {
        duration_s: last_us as f64 * 1e-6,
        wall_s: last_us as f64 * 1e-6,
        partial: is_partial(report),
        hosts: Vec::new(),
        fairness_jain: record::fairness(&flows),
        flows,
        quality: Quality {
            reliability: Reliability::Reliable,
            notes: notes(&engine, report, start),
            ..Quality::default()
        },
        ..RunSummary::begun(engine, started(start))
    }
}

/// The kernel's version of `uname -a`: the third word.
fn kernel(system_info: &str) -> String {
    system_info.split_whitespace().nth(2).unwrap_or("unknown").into()
}

fn notes(engine: &EngineName, report: &Report, start: &Start) -> Vec<String> {
    let mut notes = vec![match engine {
        EngineName::Iperf2 => format!("imported from the output of {}", start.version),
        _ => format!("imported from the JSON of {}", start.version),
    }];
    if report.intervals.iter().flat_map(|interval| &interval.streams).any(|stream| stream.sender) {
        notes.push(
            "goodput over time of streams sent by the reporting end is the rate of its writes to the kernel"
                .into(),
        );
    }
    notes.extend(report.error.as_ref().map(|error| format!("the test failed: {error}")));
    notes
}

fn flow(report: &Report, start: &Start, stream: &Stream, rows: &[FlowSample]) -> FlowSummary {
    let local = start.connections.iter().find(|one| one.id == stream.id);
    let this_host = local.map_or("here".into(), |one| one.local.ip().to_canonical().to_string());
    let peer = if start.peer_name.is_empty() { start.peer.to_string() } else { start.peer_name.clone() };
    let sends = stream.forward == (start.role == Role::Client);
    let (from, to) = if sends { (this_host, peer) } else { (peer, this_host) };
    let context =
        FlowContext { name: stream.name.clone(), from, to, unknown_path: true, ..FlowContext::default() };
    let end = report.end.as_ref();
    let ended = end.and_then(|end| end.streams.iter().find(|one| one.id == stream.id));
    let seconds = |time_s: f64| ((time_s + counted_from(report)) * 1e6).round() as i64;
    let tcp = start.spec.protocol == Protocol::Tcp;
    let times = FlowTimes {
        kind: if tcp { FlowKind::Tcp } else { FlowKind::Udp },
        cc: end.and_then(|end| end.sender_congestion.clone()).filter(|_| tcp),
        started_us: ended.map(|one| seconds(one.received.start_s)),
        ended_us: ended.map(|one| seconds(one.received.end_s)),
        bytes: ended.map_or(0, |one| one.received.bytes),
    };
    let mut flow = verdict::summarize(rows, &[], &times, &context);
    match ended {
        Some(ended) => {
            set_totals(&mut flow, ended);
            add_sender_totals(&mut flow, ended);
        }
        None => flow.bytes = None,
    }
    flow
}

/// Adds the totals that iperf3 has from the sender's kernel, because the document may lack intervals. 0 means
/// unknown.
fn add_sender_totals(flow: &mut FlowSummary, ended: &StreamEnd) {
    let Some(tcp) = &ended.tcp else { return };
    let known = |value: u64| (value > 0).then_some(value);
    let micros = |value: u64| known(value).map(|us| us as f64);
    flow.min_rtt_us = micros(tcp.min_rtt_us).or(flow.min_rtt_us);
    flow.mean_rtt_us = micros(tcp.mean_rtt_us).or(flow.mean_rtt_us);
    flow.max_rtt_us = micros(tcp.max_rtt_us).or(flow.max_rtt_us);
    flow.max_cwnd_bytes = known(tcp.max_snd_cwnd_bytes).or(flow.max_cwnd_bytes);
}
