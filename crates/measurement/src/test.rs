//! The record of a test: both ends' samples on one time axis, the summary with its verdict, and iperf3's
//! JSON.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use ::record::Writer;
use diagnosis::Change;
use iperf3::{
    ClientOptions, SampleBuffer, flow_name,
    report::{Protocol, Report, Start, StreamEnd, TestSpec},
};
use os::{TransmitQueue, TxCounters};
use schema::{EngineName, FlowKind, FlowSample, RunSummary, Summary};
use serde_json::{Value, json};
use verdict::{Buffer, FlowContext, FlowTimes, Generator, SendingDevice, retransmitted_segs};

use crate::{
    Result,
    error::chain,
    latency,
    record::{self, set_totals, started},
    steadiness::{Estimate, Steadiness},
};

/// The engine's name in a record of a test between hosts.
const ENGINE: EngineName = EngineName::Test;
/// Segment size if unknown, bytes.
const DEFAULT_MSS: u64 = 1448;

/// CPU use of both ends of a test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    /// Share of the time that this end's busiest stream ran or waited for a CPU, 0 to 1.
    pub busy: Option<f64>,
    /// Share of the time that the other end's busiest stream ran or waited for a CPU, 0 to 1.
    pub peer_busy: Option<f64>,
}

/// The samples that a client collected during a test.
pub struct TestSamples {
    /// Samples of this end's sockets.
    pub rows: Vec<FlowSample>,
    /// Notes that were shown during the test.
    pub notes: Vec<String>,
    /// The record being written.
    pub recording: Option<Recording>,
    /// With `-t auto`: the estimate of the goodput; the inner `None` if there was no steady state.
    pub steady: Option<Option<Estimate>>,
}

/// A record being written.
pub struct Recording {
    runs_dir: PathBuf,
    name: String,
    part_of: Option<String>,
    writer: Option<Writer>,
    /// Transmit counters of this end's device when the data began.
    before: Option<TxCounters>,
}

/// Collects the samples of a running test, in memory and in the record being written.
pub struct SampleCollector {
    samples: SampleBuffer,
    notes: Vec<String>,
    recording: Option<Recording>,
    steadiness: Option<Steadiness>,
}

impl SampleCollector {
    /// A collector of samples taken every `interval`; `is_auto`: the test ends when its goodput is known.
    pub fn new(interval: Duration, is_auto: bool, recording: Option<Recording>) -> Self {
        SampleCollector {
            samples: SampleBuffer::new(interval),
            notes: Vec::new(),
            recording,
            steadiness: is_auto.then(Steadiness::default),
        }
    }

    /// Adds a note to the record.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.into());
    }

    /// Data begins to flow.
    ///
    /// # Errors
    /// A note for the user if the record cannot be written; the test continues without one.
    pub fn start(&mut self, start: &Start) -> std::result::Result<(), String> {
        let begun = self.recording.as_mut().map_or(Ok(()), |recording| recording.begin(start));
        self.keep_recording(begun)
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As [`SampleCollector::start`].
    pub fn samples(&mut self, rows: &[FlowSample]) -> std::result::Result<(), String> {
        self.samples.add(rows);
        if let Some(steadiness) = &mut self.steadiness {
            steadiness.add(rows);
        }
        let appended = self.recording.as_mut().map_or(Ok(()), |recording| recording.append(rows));
        self.keep_recording(appended)
    }

    /// Whether a test of automatic length may end.
    pub fn is_enough(&mut self) -> bool {
        self.steadiness.as_mut().is_some_and(Steadiness::is_enough)
    }

    /// Whether the test ends by itself once its goodput is known.
    pub fn has_automatic_length(&self) -> bool {
        self.steadiness.is_some()
    }

    /// With a test of automatic length: the estimate of its goodput so far.
    pub fn estimate(&self) -> Option<Estimate> {
        self.steadiness.as_ref()?.estimate()
    }

    /// All samples and notes.
    pub fn finish(self) -> TestSamples {
        TestSamples {
            rows: self.samples.into_rows(),
            notes: self.notes,
            recording: self.recording,
            steady: self.steadiness.map(|steadiness| steadiness.estimate()),
        }
    }

    fn keep_recording(&mut self, written: Result<()>) -> std::result::Result<(), String> {
        written.map_err(|error| {
            self.recording = None;
            format!("no record is written: {}", chain(&error))
        })
    }
}

/// A test with its verdict.
pub struct RecordedTest {
    /// The run's summary.
    pub run: RunSummary,
    /// The record's directory, if there is one.
    pub path: Option<PathBuf>,
    /// With `-t auto`: the estimate of the goodput; the inner `None` if there was no steady state.
    pub steady: Option<Option<Estimate>>,
    /// Both ends' samples.
    pub rows: Vec<FlowSample>,
    /// Approximate number of segments that this end's device dropped.
    pub dropped_here: u64,
}

impl Recording {
    /// The record of a test that has not begun.
    pub fn new(runs_dir: &Path, options: &ClientOptions) -> Self {
        let name = format!("test-{}", options.host);
        Recording { runs_dir: runs_dir.into(), name, part_of: None, writer: None, before: None }
    }

    /// Marks the run as an auxiliary part of a larger measurement ([`RunSummary::part_of`]).
    pub fn part_of(self, whole: Option<&str>) -> Self {
        Recording { part_of: whole.map(str::to_owned), ..self }
    }

    /// Creates the record when the data begins: from now on a killed test leaves a partial record.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn begin(&mut self, start: &Start) -> Result<()> {
        self.before = outgoing(start);
        let run = RunSummary { part_of: self.part_of.clone(), ..RunSummary::begun(ENGINE, started(start)) };
        let summary = summary(&self.name, start, run);
        self.writer = Some(record::create(&self.runs_dir, &record::test_comment(), &summary)?);
        Ok(())
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn append(&mut self, rows: &[FlowSample]) -> Result<()> {
        match &mut self.writer {
            Some(writer) => Ok(writer.append(rows, &[], &[])?),
            None => Ok(()),
        }
    }
}

/// Completes the record and finds the test's limits; `None` if no data ever flowed.
///
/// # Errors
/// If the record cannot be written.
pub fn complete_record(
    seen: TestSamples,
    peer: Vec<FlowSample>,
    options: &ClientOptions,
    report: &Report,
    ends: Ends,
) -> Result<Option<RecordedTest>> {
    let Some(start) = &report.start else { return Ok(None) };
    let mut rows = iperf3::join_samples(seen.rows, &peer);
    rows.sort_by_key(|row| row.time_us);
    let mut run = RunSummary::begun(ENGINE, started(start));
    run.duration_s = rows.last().map_or(0.0, |row| row.time_us as f64 * 1e-6);
    run.wall_s = run.duration_s;
    run.partial = report.end.is_none();
    run.part_of = seen.recording.as_ref().and_then(|recording| recording.part_of.clone());
    run.quality.notes = seen.notes;
    run.quality.notes.extend(report.error.clone());
    let before = seen.recording.as_ref().and_then(|recording| recording.before);
    let mss = rows.iter().filter_map(|row| row.snd_mss_bytes).max().and_then(|mss| u64::try_from(mss).ok());
    let counted = before.zip(outgoing(start)).map(|(before, now)| now.since(before));
    let dropped = counted.map_or(0, |counted| counted.segments_dropped(mss.unwrap_or(DEFAULT_MSS)));
    let queue = start.connections.first().and_then(|first| tune::read_transmit_queue(first.local.ip()));
    let retransmitted = |id| retransmitted_segs(&rows, &flow_name(id));
    let retransmissions: BTreeMap<_, _> =
        start.connections.iter().map(|c| (c.id, retransmitted(c.id))).collect();
    // For streams that the other end sent, these are its own figures, which may have any value.
    let all_retransmissions: u64 = retransmissions.values().copied().fold(0, u64::saturating_add);
    for connection in &start.connections {
        let name = flow_name(connection.id);
        let this_host = connection.local.ip().to_string();
        let end = report.end.as_ref();
        let stream = end.and_then(|end| end.streams.iter().find(|stream| stream.id == connection.id));
        // The device does not count per stream.
        let dropped_segs =
            share_of(dropped, *retransmissions.get(&connection.id).unwrap_or(&0), all_retransmissions);
        let mut context = FlowContext {
            unknown_path: true,
            device: if connection.sender {
                sending_device(queue.clone(), dropped_segs)
            } else {
                SendingDevice::default()
            },
            is_one_host: connection.local.ip() == connection.remote.ip(),
            ..context(start, &options.spec, &name, connection.sender, this_host)
        };
        let busy = if connection.sender { [ends.busy, ends.peer_busy] } else { [ends.peer_busy, ends.busy] };
        context.host_use = experiment::flow_context::describe_host_use(&context.from, &context.to, busy);
        context.generator = Some(Generator {
            uses_file: options.spec.file.is_some(),
            // After all data is written the application is not a limit.
            size_bytes: stream.map(|stream| stream.sent.bytes).filter(|bytes| *bytes > 0),
            ..Generator::default()
        });
        verdict::decide(&mut rows, &verdict::LinkRows::default(), &context);
        let mut flow = verdict::summarize(&rows, &[], &times(start, report, stream, &rows, &name), &context);
        flow.cc_kernel_name = options.congestion.clone();
        let own: Vec<FlowSample> = rows.iter().filter(|row| row.flow == name).cloned().collect();
        // The rates of streams that share a path vary.
        let change = Change::of(&own).filter(|_| start.connections.len() == 1);
        flow.evidence.extend(change.map(|change| change.sentence(change.at.as_secs_f64())));
        if let Some(stream) = stream {
            set_totals(&mut flow, stream);
        }
        run.flows.push(flow);
    }
    let mut events = Vec::new();
    if let Some(latency) = &report.latency {
        let (echoes, lost) = latency::rows(latency);
        let this_host = start.connections.first().map_or(String::new(), |c| c.local.ip().to_string());
        run.flows.push(latency::summary(&echoes, &lost, start, this_host));
        rows.extend(echoes);
        rows.sort_by_key(|row| row.time_us);
        events = lost;
    }
    run.fairness_jain = record::fairness(&run.flows);
    let path = match seen.recording {
        Some(Recording { writer: Some(writer), name, .. }) => {
            run.id = writer.id().to_string();
            Some(record::write(writer, &summary(&name, start, run.clone()), report, &rows, &events)?)
        }
        _ => None,
    };
    Ok(Some(RecordedTest { run, path, steady: seen.steady, rows, dropped_here: dropped }))
}

/// The share of `all` that corresponds to `part` of `whole`.
pub(crate) fn share_of(all: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(all) * u128::from(part) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// The sending device, in the form that the verdict needs.
pub(crate) fn sending_device(queue: Option<TransmitQueue>, dropped_segs: u64) -> SendingDevice {
    let (name, packets) = queue.as_ref().map(|queue| (queue.device.clone(), queue.packets)).unzip();
    let qdisc = queue.and_then(|queue| queue.qdisc);
    SendingDevice { name, qdisc, dropped_segs, queue_packets: packets, ..SendingDevice::default() }
}

/// A socket buffer that this machine's kernel tunes.
pub(crate) fn tuned_buffer(sysctl: &str) -> Buffer {
    let values = experiment::machine::setting(None, sysctl)
        .map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<u64>>());
    values.and_then(|values| values.try_into().ok()).map_or(Buffer::Unknown, Buffer::Tuned)
}

/// Transmit counters of this end's device.
fn outgoing(start: &Start) -> Option<TxCounters> {
    tune::read_tx_counters(start.connections.first()?.local.ip())
}

fn summary(name: &str, start: &Start, run: RunSummary) -> Summary {
    record::summary(name, start, lab::host_info(), run)
}

/// The context of a stream for its verdict. The other host's settings are known only if they were requested.
fn context(start: &Start, spec: &TestSpec, name: &str, sends: bool, this_host: String) -> FlowContext {
    let peer = start.peer_name.clone();
    let (from, to) = if sends { (this_host, peer) } else { (peer, this_host) };
    let buffer = |is_here: bool, sysctl: &str| match (spec.window, is_here) {
        (Some(requested), _) => Buffer::Fixed(requested.0),
        (None, true) => tuned_buffer(sysctl),
        (None, false) => Buffer::Unknown,
    };
    let requested = [("-b", spec.rate), ("--fq-rate", spec.fq_rate)];
    let rate = requested.into_iter().filter_map(|(option, rate)| Some((rate?, option))).min();
    FlowContext {
        name: name.into(),
        from,
        to,
        send_buffer: buffer(sends, "net.ipv4.tcp_wmem"),
        receive_buffer: buffer(!sends, "net.ipv4.tcp_rmem"),
        pacing_bps: rate.map(|(rate, _)| rate.as_f64()),
        pacing_option: rate.map_or("", |(_, option)| option).into(),
        ..FlowContext::default()
    }
}

fn times(
    start: &Start,
    report: &Report,
    stream: Option<&StreamEnd>,
    rows: &[FlowSample],
    name: &str,
) -> FlowTimes {
    let tcp = start.spec.protocol == Protocol::Tcp;
    let last = rows.iter().rev().find(|row| row.flow == name);
    let omit_us = start.spec.omit.as_micros() as i64;
    let seconds = |time_s: f64| ((time_s * 1e6) as i64).saturating_add(omit_us);
    FlowTimes {
        kind: if tcp { FlowKind::Tcp } else { FlowKind::Udp },
        cc: report.end.as_ref().and_then(|end| end.sender_congestion.clone()).filter(|_| tcp),
        started_us: Some(stream.map_or(0, |stream| seconds(stream.received.start_s))),
        ended_us: stream.map(|stream| seconds(stream.received.end_s)).or(last.map(|row| row.time_us)),
        bytes: match stream {
            Some(stream) => stream.received.bytes,
            None => {
                last.and_then(|row| row.bytes_received.or(row.bytes_acked)).map_or(0, |n| n.max(0) as u64)
            }
        },
    }
}

/// The result of `-t auto` as JSON.
pub fn steady_json(steady: &Option<Estimate>) -> Value {
    match steady {
        None => json!({ "known": false }),
        Some(estimate) => json!({
            "known": true, "goodput_bps": estimate.goodput_bps, "precision": estimate.precision,
            "from_s": estimate.from_s, "epochs": estimate.epochs, "is_precise": estimate.is_precise(),
            "needed_s": estimate.needed_s(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_divided_in_proportion_for_arbitrary_counts() {
        assert_eq!(share_of(10, 3, 6), 5);
        assert_eq!(share_of(10, 0, 0), 0);
        assert_eq!(share_of(10, i64::MAX as u64, i64::MAX as u64), 10);
    }
}
