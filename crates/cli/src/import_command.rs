//! `longfat import`: other programs' measurements as records.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use perf::{
    iperf3_json,
    report::{Protocol, Report, Role, Start, StreamEnd},
};
use schema::{FlowSample, FlowSummary, HostInfo, Quality, RunSummary};
use serde::Serialize;
use serde_json::json;
use verdict::{FlowContext, FlowTimes};

use crate::{
    exit::Exit,
    import_capture::{self, PcapArgs, SsArgs},
    measured_flows::{Stream, counted_from, rows, streams},
    measured_record::{self, complete, started},
    open::{import_name, read_import},
    output,
};

/// The engine's name in a record that iperf3's JSON made.
const ENGINE: &str = "iperf3";
/// Files above this are no iperf3's: a test of a day at an interval of 100 ms has a third of it.
const MAX_BYTES: u64 = 512 << 20;

/// What to import.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Make a record of each test in iperf3's JSON (-J or --json-stream, iperf3 3.1 and newer)
    Iperf3(Iperf3Args),
    /// Make a record of each capture (pcap or pcapng, of whichever machine): its TCP connections packet by packet
    Pcap(PcapArgs),
    /// Make a record of each log of `ss -tin` in a loop (with -m: the buffers too)
    Ss(SsArgs),
}

/// A record that was made.
#[derive(Debug, Serialize)]
pub struct Imported {
    file: PathBuf,
    record: PathBuf,
    partial: bool,
    error: Option<String>,
}

impl Imported {
    /// Of a file that had all.
    pub fn whole(file: &Path, record: PathBuf) -> Imported {
        Imported { file: file.into(), record, partial: false, error: None }
    }
}

/// iperf3's files.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Imports.
pub fn run(command: &ImportCommand, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let imported = match command {
        ImportCommand::Iperf3(args) => iperf3(args, runs_dir)?,
        ImportCommand::Pcap(args) => import_capture::pcap(args, runs_dir)?,
        ImportCommand::Ss(args) => import_capture::ss(args, runs_dir)?,
    };
    if json {
        return output::json(&json!({ "schema": "longfat.imported/1", "records": imported }));
    }
    let lines = imported.iter().map(|one| format!("{}: {}", one.file.display(), one.record.display()));
    output::text(&lines.collect::<Vec<_>>().join("\n"))
}

fn iperf3(args: &Iperf3Args, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    // All are read before anything is written.
    let mut read = Vec::new();
    for file in &args.files {
        let text = read_text(file)?;
        let reports =
            iperf3_json::reports(&text).map_err(|e| Exit::BadInput(format!("{}: {e}", file.display())))?;
        if reports.is_empty() {
            return Err(Exit::BadInput(format!("{}: there is no test in it", file.display())).into());
        }
        read.extend(reports.into_iter().map(|report| (file, report)));
    }
    let mut imported = Vec::new();
    for (file, report) in &read {
        let Some(start) = &report.start else {
            let why = report.error.as_deref().unwrap_or("nothing says why");
            output::note(&format!(
                "{}: this test never began ({why}); it has nothing to keep",
                file.display()
            ));
            continue;
        };
        imported.push(Imported {
            file: file.to_path_buf(),
            record: keep(file, report, start, runs_dir)?,
            partial: is_partial(report),
            error: report.error.clone(),
        });
    }
    if imported.is_empty() {
        return Err(Exit::BadInput("no test of these files ever began".into()).into());
    }
    Ok(imported)
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let bytes = read_import(file, MAX_BYTES)?;
    let whole = String::from_utf8(bytes).map_err(|_| {
        Exit::BadInput(format!("cannot read {}: stream did not contain valid UTF-8", file.display()))
    });
    Ok(whole?)
}

/// Writes the record; its place.
fn keep(file: &Path, report: &Report, start: &Start, runs_dir: &Path) -> anyhow::Result<PathBuf> {
    let name = import_name(file, "iperf3");
    let streams = streams(report);
    let rows = rows(report, &streams);
    let host = HostInfo { kernel: kernel(&start.system_info), cpus: 0 };
    let summary = measured_record::summary(&name, start, host, run_summary(report, start, &streams, &rows));
    let writer = measured_record::create(runs_dir, &measured_record::is_a_test(), &summary)?;
    measured_record::write(writer, &summary, report, &rows, &[])
}

fn is_partial(report: &Report) -> bool {
    report.end.is_none() || report.error.is_some()
}

fn run_summary(report: &Report, start: &Start, streams: &[Stream], rows: &[FlowSample]) -> RunSummary {
    let flows: Vec<FlowSummary> = streams.iter().map(|stream| flow(report, start, stream, rows)).collect();
    let last_us = rows.iter().map(|row| row.time_us).max().unwrap_or(0);
    RunSummary {
        duration_s: last_us as f64 * 1e-6,
        wall_s: last_us as f64 * 1e-6,
        partial: is_partial(report),
        fairness_jain: measured_record::fairness(&flows),
        flows,
        quality: Quality { ok: true, notes: notes(report, start), ..Quality::default() },
        ..measured_record::begun(ENGINE, started(start))
    }
}

/// The kernel's version of `uname -a`: the third word.
fn kernel(system_info: &str) -> String {
    system_info.split_whitespace().nth(2).unwrap_or("unknown").into()
}

fn notes(report: &Report, start: &Start) -> Vec<String> {
    let mut notes = vec![format!("imported from the JSON of {}", start.version)];
    if report.intervals.iter().flat_map(|interval| &interval.streams).any(|stream| stream.sender) {
        notes.push(
            "over time, the goodput of a stream that the reporting end sent is what it handed to its kernel"
                .into(),
        );
    }
    notes.extend(report.error.as_ref().map(|error| format!("the test failed: {error}")));
    notes
}

fn flow(report: &Report, start: &Start, stream: &Stream, rows: &[FlowSample]) -> FlowSummary {
    let local = start.connections.iter().find(|one| one.id == stream.id);
    let here = local.map_or("here".into(), |one| one.local.ip().to_canonical().to_string());
    let there = if start.peer_name.is_empty() { start.peer.to_string() } else { start.peer_name.clone() };
    let sends = stream.forward == (start.role == Role::Client);
    let (from, to) = if sends { (here, there) } else { (there, here) };
    let context =
        FlowContext { name: stream.name.clone(), from, to, unknown_path: true, ..FlowContext::default() };
    let end = report.end.as_ref();
    let ended = end.and_then(|end| end.streams.iter().find(|one| one.id == stream.id));
    let seconds = |time_s: f64| ((time_s + counted_from(report)) * 1e6).round() as i64;
    let tcp = start.spec.protocol == Protocol::Tcp;
    let times = FlowTimes {
        kind: if tcp { "tcp" } else { "udp" }.into(),
        cc: end.and_then(|end| end.sender_congestion.clone()).filter(|_| tcp),
        started_us: ended.map(|one| seconds(one.received.start_s)),
        ended_us: ended.map(|one| seconds(one.received.end_s)),
        bytes: ended.map_or(0, |one| one.received.bytes),
    };
    let mut flow = verdict::summarize(rows, &[], &times, &context);
    match ended {
        Some(ended) => {
            complete(&mut flow, ended);
            as_told(&mut flow, ended);
        }
        None => flow.bytes = None,
    }
    flow
}

/// What iperf3 told of the sender's kernel over all intervals, of which there may be fewer in its document. 0 is not known.
fn as_told(flow: &mut FlowSummary, ended: &StreamEnd) {
    let Some(tcp) = &ended.tcp else { return };
    let known = |value: u64| (value > 0).then_some(value);
    let micros = |value: u64| known(value).map(|us| us as f64);
    flow.min_rtt_us = micros(tcp.min_rtt_us).or(flow.min_rtt_us);
    flow.mean_rtt_us = micros(tcp.mean_rtt_us).or(flow.mean_rtt_us);
    flow.max_rtt_us = micros(tcp.max_rtt_us).or(flow.max_rtt_us);
    flow.max_cwnd_bytes = known(tcp.max_snd_cwnd_bytes).or(flow.max_cwnd_bytes);
}
