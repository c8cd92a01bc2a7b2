//! Captures (pcap, pcapng) and logs of `ss -tin` as records.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use ::record::Writer;
use capture::{
    CapturedFlow, Dissector, Packets,
    ss::{SsFlow, SsLog, parse},
};
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

/// Maximum distance between the sender and a capture point that counts as at the sender, as a share of the
/// minimum round-trip time.
const MAX_DISTANCE: f64 = 0.05;

/// Writes a record of a capture, with a row of each flow every `sample`, and returns its directory.
///
/// # Errors
/// If it is not a capture, has no TCP connection with data, or the record cannot be written.
pub fn pcap(file: ForeignFile<'_>, sample: Time, runs_dir: &Path) -> Result<PathBuf> {
    let bad = |why: String| Error::BadInput(format!("{}: {why}", file.path.display()));
    let mut packets = Packets::new(file.bytes).map_err(|e| bad(e.to_string()))?;
    let mut dissector = Dissector::new(sample.as_micros());
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
    let seen = dissector.finish();
    if seen.flows.is_empty() {
        writer.abort();
        return Err(bad(format!(
            "none of its {} packets belongs to a TCP connection with data",
            seen.packets
        )));
    }
    let (flows, rows) = judge_each(seen.rows, &seen.flows, |flow| flow.name.as_str(), judge_captured);
    let mut notes = vec![
        format!("imported from {}: {} packets, {} of them not TCP", file.path.display(), seen.packets, seen.skipped_packets),
        "data in flight, losses and acknowledgements are those seen at the capture point; the sender's windows are unknown"
            .into(),
    ];
    notes.extend((seen.copies > 0).then(|| {
        format!(
            "{} packets were captured more than once (on several devices, or duplicated by the network) and count once",
            seen.copies
        )
    }));
    notes.extend((seen.early_packets > 0).then(|| {
        format!(
            "{} packets are earlier than packets before them in the file, so round-trip times and rates are wrong: sort the file by time \
             (reordercap) and import it again",
            seen.early_packets
        )
    }));
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
    Ok(writer.finish(&summary, &rows, &[], &seen.events)?)
}

/// Finds the limits of each flow from its own rows, and merges the rows of all flows in the order of time.
fn judge_each<F>(
    rows: Vec<FlowSample>,
    flows: &[F],
    name: impl Fn(&F) -> &str,
    judge: impl Fn(&F, &mut [FlowSample]) -> FlowSummary,
) -> (Vec<FlowSummary>, Vec<FlowSample>) {
    let mut by_flow: BTreeMap<String, Vec<FlowSample>> = BTreeMap::new();
    for row in rows {
        by_flow.entry(row.flow.clone()).or_default().push(row);
    }
    let mut judged = Vec::new();
    let summaries = flows.iter().map(|flow| {
        let mut own = by_flow.remove(name(flow)).unwrap_or_default();
        let summary = judge(flow, &mut own);
        judged.append(&mut own);
        summary
    });
    let summaries = summaries.collect();
    judged.sort_by_key(|row| row.time_us);
    (summaries, judged)
}

/// Labels the rows of a captured flow, and summarizes them.
fn judge_captured(flow: &CapturedFlow, rows: &mut [FlowSample]) -> FlowSummary {
    let (from, to) = (flow.from.ip().to_string(), flow.to.ip().to_string());
    let name = flow.name.clone();
    let mut context = FlowContext { name, from, to, unknown_path: true, ..FlowContext::default() };
    let min_rtt_us = rows.iter().filter_map(|row| row.min_rtt_us).min();
    if is_far(flow, min_rtt_us.unwrap_or(0) as f64) == Some(false) {
        // A capture at the sender shows the outstanding data and round-trip times of the sender.
        context.device.dropped_segs = flow.lost_before_capture_segs;
        verdict::decide(rows, &verdict::LinkRows::default(), &context);
    }
    let times = FlowTimes {
        kind: FlowKind::Tcp,
        cc: None,
        started_us: Some(flow.span_us.0),
        ended_us: Some(flow.span_us.1),
        bytes: flow.bytes,
    };
    let mut summary = verdict::summarize(rows, &[], &times, &context);
    if summary.verdict.is_some_and(|verdict| !is_main_limit(verdict, rows)) {
        // A capture does not show the congestion window and the send buffer: they may have been the main
        // limit.
        remove_verdict(&mut summary);
    }
    if is_at_receiver(flow, min_rtt_us) {
        summary.receiver_verdict = verdict::judge_receiver(rows, &flow.name);
    }
    summary
}

/// Notes on the part of the path that the round-trip times do not cover, for captures not taken at the
/// sender.
fn distance_notes(seen: &[CapturedFlow], flows: &[FlowSummary]) -> Vec<String> {
    let named = |is_selected: &dyn Fn(&CapturedFlow, &FlowSummary) -> bool| {
        let selected: Vec<&CapturedFlow> = seen
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
    let is_unknown = |seen: &CapturedFlow, _: &FlowSummary| seen.sender_side_rtt_us.is_none();
    let is_far_unfollowed = |seen: &CapturedFlow, flow: &FlowSummary| {
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
            "the handshake alone shows how far the sender is (no timestamps, or a sender that was mostly idle): round-trip times \
             of {names} lack the queues between the sender and the capture point"
        )
    });
    unknown.into_iter().chain(far_note).collect()
}

/// Whether the capture was taken at the receiver: nearly the whole round trip is on the sender's side.
fn is_at_receiver(flow: &CapturedFlow, min_rtt_us: Option<i64>) -> bool {
    let share =
        flow.sender_side_rtt_us.zip(min_rtt_us).map(|(beyond, all)| beyond as f64 / all.max(1) as f64);
    share.is_some_and(|share| share >= 1.0 - MAX_DISTANCE)
}

/// Whether the capture point is not at the sender; `None` where its distance is unknown.
fn is_far(flow: &CapturedFlow, min_rtt_us: f64) -> Option<bool> {
    flow.sender_side_rtt_us.map(|us| us as f64 > MAX_DISTANCE * min_rtt_us)
}

/// Whether at least half of a flow's samples, the unlabelled ones included, have this label.
fn is_main_limit(verdict: Cause, rows: &[FlowSample]) -> bool {
    is_true_of_half(rows, |row| row.limited_by == Some(verdict))
}

/// Whether at least half of the sender's samples have a property.
fn is_true_of_half(rows: &[FlowSample], has_property: impl Fn(&FlowSample) -> bool) -> bool {
    let sampled = || rows.iter().filter(|row| row.unacked_segs.is_some());
    sampled().filter(|row| has_property(row)).count() * 2 >= sampled().count()
}

fn remove_verdict(summary: &mut FlowSummary) {
    (summary.verdict, summary.verdict_also) = (None, None);
    (summary.evidence, summary.remedy, summary.fixes) = (Vec::new(), None, Vec::new());
}

/// Makes a record of a log of `ss -tin` in a loop and returns its directory. `every` is the time between
/// samples if the log has no times.
///
/// # Errors
/// If it is not such a log, or the record cannot be written.
pub fn ss(file: ForeignFile<'_>, every: Time, runs_dir: &Path) -> Result<PathBuf> {
    let every_us = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
    let log = parse(&String::from_utf8_lossy(file.bytes), every_us)
        .map_err(|e| Error::BadInput(format!("{}: {e}", file.path.display())))?;
    let SsLog { flows, rows, start_s, has_times } = log;
    let mut notes = vec![format!("imported from {}", file.path.display())];
    if !has_times {
        notes.push(format!("the log has no times: samples are assumed to be {every} apart (--every)"));
    }
    let (flows, rows) = judge_each(rows, &flows, |flow| flow.name.as_str(), judge_sampled);
    let seconds = rows.last().map_or(0.0, |row| row.time_us as f64 * 1e-6);
    let run = RunSummary {
        duration_s: seconds,
        wall_s: seconds,
        hosts: Vec::new(),
        fairness_jain: record::fairness(&flows),
        flows,
        quality: Quality { reliability: Reliability::Reliable, notes, ..Quality::default() },
        ..RunSummary::begun(EngineName::Ss, started(start_s.unwrap_or(0.0)))
    };
    let writer = create(runs_dir, file, "ss's samples of", &run)?;
    let run = RunSummary { id: writer.id().to_string(), ..run };
    Ok(writer.finish(&summary(file, "ss's samples of", run), &rows, &[], &[])?)
}

/// Labels the rows of a flow in a log of ss, and summarizes them.
fn judge_sampled(flow: &SsFlow, rows: &mut [FlowSample]) -> FlowSummary {
    let context = FlowContext {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        unknown_path: true,
        ..FlowContext::default()
    };
    verdict::decide(rows, &verdict::LinkRows::default(), &context);
    let times = FlowTimes {
        kind: FlowKind::Tcp,
        cc: flow.cc.clone(),
        started_us: rows.first().map(|row| row.time_us),
        ended_us: rows.last().map(|row| row.time_us),
        bytes: transferred(rows),
    };
    let mut summary = verdict::summarize(rows, &[], &times, &context);
    // Without -m most samples may have no label; then the labelled ones do not show the main limit.
    if !is_true_of_half(rows, |row| row.limited_by.is_some()) {
        remove_verdict(&mut summary);
    }
    summary
}

/// Payload that a flow carried between its first sample and its last, bytes: by its receiver if that is in
/// the log. A decreasing count belongs to a new connection between the same addresses.
fn transferred(rows: &[FlowSample]) -> u64 {
    let growth = |count: fn(&FlowSample) -> Option<i64>| {
        let mut counts = rows.iter().filter_map(count);
        let (mut before, mut sum) = (counts.next()?, 0u64);
        for now in counts {
            let more = if now >= before { now.saturating_sub(before) } else { now };
            (before, sum) = (now, sum.saturating_add(u64::try_from(more).unwrap_or(0)));
        }
        Some(sum)
    };
    growth(|row| row.bytes_received).or_else(|| growth(|row| row.bytes_acked)).unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(log: &str) -> Vec<FlowSummary> {
        let SsLog { flows, rows, .. } = parse(log, 100_000).unwrap();
        judge_each(rows, &flows, |flow| flow.name.as_str(), judge_sampled).0
    }

    /// A log of 40 samples of `ss -tinm`, each with `details` and 125,000 more acknowledged bytes, 0.1 s
    /// apart. As in ss's output, the first sample of a passively opened socket has no such count.
    fn log_of(details: &str) -> String {
        let line = |i: i64| {
            let acked = if i > 0 { format!("bytes_acked:{}", i * 125_000) } else { String::new() };
            format!(
                "ESTAB 0 7240 10.0.0.1:1 10.0.0.2:2\n\t skmem:(r0,rb131072,t0,tb1000000,f0,w20000,o0,bl0,d0) ts sack cubic \
                 wscale:7,7 rto:220 rtt:20/1 mss:1448 cwnd:100 bytes_sent:{} {acked} bytes_received:100 {details} minrtt:20 \
                 rcv_space:14480 snd_wnd:4000000\n",
                i * 125_000 + 7240
            )
        };
        (0..40).map(line).collect()
    }

    #[test]
    fn a_writer_that_pauses_is_recognized_without_a_count_of_unsent_bytes() {
        for details in ["unacked:5", "unacked:5 notsent:0"] {
            let flow = &judged(&log_of(details))[0];
            assert_eq!(flow.verdict, Some(Cause::Application), "{details}: {flow:?}");
        }
        // The buffer is full although the writer keeps writing.
        let full = log_of("unacked:5").replace(",w20000,", ",w990000,");
        assert_eq!(judged(&full)[0].verdict, Some(Cause::SendBuffer));
    }

    #[test]
    fn in_a_log_without_buffers_a_writer_that_pauses_gets_no_verdict() {
        let details = log_of("unacked:5 notsent:0");
        let without = details.replace("skmem:(r0,rb131072,t0,tb1000000,f0,w20000,o0,bl0,d0) ", "");
        let flow = &judged(&without)[0];
        assert_eq!((flow.verdict, flow.limited.host_cpu), (None, 0.0), "{flow:?}");
        assert!(flow.evidence.is_empty(), "{flow:?}");
    }

    #[test]
    fn bytes_in_a_log_are_summed_over_consecutive_connections() {
        let line = |acked: i64| {
            format!(
                "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2 cubic rto:220 rtt:20/1 mss:1448 cwnd:10 bytes_acked:{acked}\n"
            )
        };
        // 9000 bytes of the first connection after its first sample, and 3000 of the second.
        let log: String = [1000, 10_000, 1000, 3000].into_iter().map(line).collect();
        assert_eq!(judged(&log)[0].bytes, Some(12_000));
    }

    #[test]
    fn a_log_that_begins_without_acknowledged_bytes_gives_bytes_and_goodput() {
        let flow = &judged(&log_of("unacked:5"))[0];
        assert_eq!(flow.bytes, Some(39 * 125_000));
        assert!((flow.goodput_bps.unwrap() / 10e6 - 1.0).abs() < 0.001, "{flow:?}");
        assert!((flow.steady_goodput_bps.unwrap() / 10e6 - 1.0).abs() < 0.001, "{flow:?}");
        // The 100 bytes of a request do not count as goodput, and the socket's receive buffer is not that of
        // the flow's receiver.
        assert_eq!(flow.window_share, None);
    }

    #[test]
    fn a_log_of_the_receiver_gets_the_verdict_of_the_receiving_end() {
        let line = |i: i64| {
            format!(
                "ESTAB 0 0 10.0.0.2:2 10.0.0.1:1 cubic wscale:7,7 rto:220 rtt:20/1 mss:1448 cwnd:10 bytes_received:{} \
                 rcv_rtt:20 rcv_space:60000 rcv_wnd:30000\n",
                i * 125_000
            )
        };
        let flows = judged(&(0..100).map(line).collect::<String>());
        assert_eq!((flows.len(), flows[0].name.as_str()), (1, "10.0.0.1:1-10.0.0.2:2"));
        assert_eq!((flows[0].bytes, flows[0].verdict), (Some(99 * 125_000), None));
        // 25 kB in each round trip fill the window.
        let finding = flows[0].receiver_verdict.as_ref().map(|verdict| verdict.finding);
        assert_eq!(finding, Some(schema::ReceiverFinding::ReceiveBuffer), "{flows:?}");
    }

    #[test]
    fn each_flow_is_labelled_from_its_own_rows_only() {
        let names: Vec<String> = (0..2000).map(|i| format!("f{i}")).collect();
        let row =
            |time_us: i64, flow: &String| FlowSample { time_us, flow: flow.clone(), ..FlowSample::default() };
        let rows: Vec<FlowSample> =
            (0..3).flat_map(|time_us| names.iter().map(move |name| row(time_us, name))).collect();
        let (summaries, judged) = judge_each(
            rows.clone(),
            &names,
            |name| name.as_str(),
            |name, own| {
                assert!(own.len() == 3 && own.iter().all(|row| row.flow == *name), "{name}: {own:?}");
                FlowSummary { name: name.clone(), ..FlowSummary::default() }
            },
        );
        assert_eq!(judged, rows);
        assert!(summaries.iter().map(|summary| &summary.name).eq(&names));
    }
}
