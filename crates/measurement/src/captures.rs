//! Captures (pcap, pcapng) and logs of `ss -tin` as records.

use std::path::{Path, PathBuf};

use ::record::Writer;
use capture::{Dissector, Packets, ss::parse};
use experiment::rfc3339;
use schema::{
    Cause, EngineName, FlowKind, FlowSample, FlowSummary, HostInfo, Quality, Reliability, RunSummary,
    SUMMARY_SCHEMA, Summary,
};
use units::Time;
use verdict::{FlowContext, FlowTimes};

use crate::{Error, Result, record};

/// A file of another program.
#[derive(Debug, Clone, Copy)]
pub struct ForeignFile<'a> {
    /// Its path, for titles and messages.
    pub path: &'a Path,
    /// The name of its record.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Rows of the trace that are buffered before they are written.
const TRACE_BUFFER_ROWS: usize = 1 << 16;

/// Maximum distance between the sender and a capture point that counts as at the sender, as a share of the minimum round-trip time.
const MAX_DISTANCE: f64 = 0.05;

/// Makes a record of a capture, with a row of each flow every `sample`, and returns its directory.
///
/// # Errors
/// If it is not a capture, has no TCP connection with data, or the record cannot be written.
pub fn pcap(file: ForeignFile<'_>, sample: Time, runs_dir: &Path) -> Result<PathBuf> {
    let bad = |why: String| Error::BadInput(format!("{}: {why}", file.path.display()));
    let mut packets = Packets::new(file.bytes).map_err(|e| bad(e.to_string()))?;
    let mut dissector = Dissector::new(sample.0 / 1000);
    let Some(first) = packets.next() else { return Err(bad("no packets in this file".into())) };
    dissector.add(&first);
    let run = RunSummary::begun(EngineName::Pcap, started(first.time_ns as f64 * 1e-9));
    let mut writer = create(runs_dir, file, "the packets of", &run)?;
    for packet in packets.by_ref() {
        dissector.add(&packet);
        if dissector.trace_len() >= TRACE_BUFFER_ROWS {
            writer.append_trace(&dissector.take_trace())?;
        }
    }
    writer.append_trace(&dissector.take_trace())?;
    let mut seen = dissector.finish();
    if seen.flows.is_empty() {
        writer.abort();
        return Err(bad(format!(
            "none of its {} packets belongs to a TCP connection with data",
            seen.packets
        )));
    }
    let flows: Vec<FlowSummary> = seen
        .flows
        .iter()
        .map(|flow| {
            let (from, to) = (flow.from.ip().to_string(), flow.to.ip().to_string());
            let name = flow.name.clone();
            let mut context = FlowContext { name, from, to, unknown_path: true, ..FlowContext::default() };
            if is_at_sender(flow, &seen.rows) {
                context.device.dropped_segs = flow.lost_before_capture_segs;
                verdict::decide(&mut seen.rows, &[], &context);
            }
            let times = FlowTimes {
                kind: FlowKind::Tcp,
                cc: None,
                started_us: Some(flow.span_us.0),
                ended_us: Some(flow.span_us.1),
                bytes: flow.bytes,
            };
            let mut summary = verdict::summarize(&seen.rows, &seen.events, &times, &context);
            if summary.verdict.is_some_and(|verdict| !is_main_limit(verdict, &seen.rows, &flow.name)) {
                // A capture does not show the congestion window and the send buffer: they may have been the main limit.
                (summary.verdict, summary.verdict_also) = (None, None);
                (summary.evidence, summary.remedy) = (Vec::new(), None);
            }
            if is_at_receiver(flow, &seen.rows) {
                summary.receiver_verdict = verdict::judge_receiver(&seen.rows, &flow.name);
            }
            summary
        })
        .collect();
    let mut notes = vec![
        format!("imported from {}: {} packets, {} of them not TCP", file.path.display(), seen.packets, seen.skipped_packets),
        "data in flight, losses and acknowledgements are those seen at the capture point; the sender's windows are unknown"
            .into(),
    ];
    notes.extend(distance_notes(&seen.flows, &flows));
    notes.extend(packets.is_truncated().then(|| "the file is truncated: later packets are missing".into()));
    let seconds = seen.duration_us as f64 * 1e-6;
    let run = RunSummary {
        id: writer.id().to_string(),
        duration_s: seconds,
        wall_s: seconds,
        hosts: Vec::new(),
        fairness_jain: record::fairness(&flows),
        flows,
        quality: Quality { reliability: Reliability::Reliable, notes, ..Quality::default() },
        ..run
    };
    let summary = summary(file, "the packets of", run);
    Ok(writer.finish(&summary, &seen.rows, &[], &seen.events)?)
}

/// Notes on the part of the path that the round-trip times do not cover, for captures not taken at the sender.
fn distance_notes(seen: &[capture::CapturedFlow], flows: &[FlowSummary]) -> Vec<String> {
    let named = |is_selected: &dyn Fn(&capture::CapturedFlow, &FlowSummary) -> bool| {
        let selected: Vec<&capture::CapturedFlow> = seen
            .iter()
            .zip(flows)
            .filter(|(seen, flow)| is_selected(seen, flow))
            .map(|(seen, _)| seen)
            .collect();
        let largest = &selected.iter().max_by_key(|flow| flow.bytes)?.name;
        Some(match selected.len() {
            1 => largest.clone(),
            count => format!("{largest} and {} other flows", count - 1),
        })
    };
    let is_unknown = |seen: &capture::CapturedFlow, _: &FlowSummary| seen.sender_side_rtt_us.is_none();
    let is_far_unfollowed = |seen: &capture::CapturedFlow, flow: &FlowSummary| {
        !seen.is_sender_side_rtt_tracked && is_far(seen, flow.min_rtt_us.unwrap_or(0.0)) == Some(true)
    };
    let unknown = named(&is_unknown).map(|names| {
        format!(
            "how far the sender is cannot be seen (no handshake, and no data that an ACK set free): round-trip times of {names} \
             are those from the capture point to the receiver and back"
        )
    });
    let far_note = named(&is_far_unfollowed).map(|names| {
        format!(
            "the handshake alone shows how far the sender is (no time stamps, or a sender that was mostly idle): round-trip times \
             of {names} lack the queues between the sender and the capture point"
        )
    });
    unknown.into_iter().chain(far_note).collect()
}

/// Whether the capture shows outstanding data and round-trip times as the sender sees them.
fn is_at_sender(flow: &capture::CapturedFlow, rows: &[FlowSample]) -> bool {
    let own = rows.iter().filter(|row| row.flow == flow.name);
    let min_rtt_us = own.filter_map(|row| row.min_rtt_us).min().unwrap_or(0);
    is_far(flow, min_rtt_us as f64) == Some(false)
}

/// Whether the capture was taken at the receiver: nearly the whole round trip is on the sender's side.
fn is_at_receiver(flow: &capture::CapturedFlow, rows: &[FlowSample]) -> bool {
    let own = rows.iter().filter(|row| row.flow == flow.name);
    let min_rtt_us = own.filter_map(|row| row.min_rtt_us).min();
    let share =
        flow.sender_side_rtt_us.zip(min_rtt_us).map(|(beyond, all)| beyond as f64 / all.max(1) as f64);
    share.is_some_and(|share| share >= 1.0 - MAX_DISTANCE)
}

/// Whether the capture point is not at the sender; `None` where its distance is unknown.
fn is_far(flow: &capture::CapturedFlow, min_rtt_us: f64) -> Option<bool> {
    flow.sender_side_rtt_us.map(|us| us as f64 > MAX_DISTANCE * min_rtt_us)
}

/// Whether at least half of a flow's samples, the unlabelled ones included, have this label.
fn is_main_limit(verdict: Cause, rows: &[FlowSample], flow: &str) -> bool {
    let own = || rows.iter().filter(|row| row.flow == flow && row.unacked_segs.is_some());
    own().filter(|row| row.limited_by == Some(verdict)).count() * 2 >= own().count()
}

/// Makes a record of a log of `ss -tin` in a loop and returns its directory. `every` is the time between samples if the log has no
/// times.
///
/// # Errors
/// If it is not such a log, or the record cannot be written.
pub fn ss(file: ForeignFile<'_>, every: Time, runs_dir: &Path) -> Result<PathBuf> {
    let every_us = i64::try_from(every.0 / 1000).unwrap_or(i64::MAX);
    let log = parse(&String::from_utf8_lossy(file.bytes), every_us)
        .map_err(|e| Error::BadInput(format!("{}: {e}", file.path.display())))?;
    let mut rows = log.rows;
    let mut flows = Vec::new();
    for socket in &log.sockets {
        let context = FlowContext {
            name: socket.name.clone(),
            from: socket.local.clone(),
            to: socket.peer.clone(),
            unknown_path: true,
            ..FlowContext::default()
        };
        verdict::decide(&mut rows, &[], &context);
        let own: Vec<&FlowSample> = rows.iter().filter(|row| row.flow == socket.name).collect();
        let acked = |row: &&FlowSample| row.bytes_acked;
        let (before, after) = (own.first().and_then(acked), own.last().and_then(acked));
        let times = FlowTimes {
            kind: FlowKind::Tcp,
            cc: socket.cc.clone(),
            started_us: own.first().map(|row| row.time_us),
            ended_us: own.last().map(|row| row.time_us),
            bytes: after.zip(before).map_or(0, |(after, before)| (after - before).max(0) as u64),
        };
        flows.push(verdict::summarize(&rows, &[], &times, &context));
    }
    let seconds = rows.last().map_or(0.0, |row| row.time_us as f64 * 1e-6);
    let run = RunSummary {
        duration_s: seconds,
        wall_s: seconds,
        hosts: Vec::new(),
        fairness_jain: record::fairness(&flows),
        flows,
        quality: Quality {
            reliability: Reliability::Reliable,
            notes: vec![format!("imported from {}", file.path.display())],
            ..Quality::default()
        },
        ..RunSummary::begun(EngineName::Ss, started(log.start_s.unwrap_or(0.0)))
    };
    let writer = create(runs_dir, file, "ss's samples of", &run)?;
    let run = RunSummary { id: writer.id().to_string(), ..run };
    Ok(writer.finish(&summary(file, "ss's samples of", run), &rows, &[], &[])?)
}

/// RFC 3339 of seconds since 1970.
fn started(seconds: f64) -> String {
    rfc3339(jiff::Timestamp::from_second(seconds as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

fn summary(file: ForeignFile<'_>, what: &str, run: RunSummary) -> Summary {
    Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: file.name.into(),
        title: format!("{what} {}", file.path.display()),
        host: HostInfo { kernel: "unknown".into(), cpus: 0 },
        runs: vec![run],
        published: Vec::new(),
    }
}

fn create(runs_dir: &Path, file: ForeignFile<'_>, what: &str, run: &RunSummary) -> Result<Writer> {
    let summary = summary(file, what, run.clone());
    record::create(runs_dir, "Imported", &summary)
}
