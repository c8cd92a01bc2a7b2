//! The record of a file transfer between real hosts: samples of both ends, and what limited the transfer.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use ::record::Writer;
use iperf3::{flow_name, join_samples};
use os::TxCounters;
use schema::{
    Cause, EngineName, Event, FlowKind, FlowSample, FlowSummary, Limited, RunSummary, SUMMARY_SCHEMA, Summary,
};
use serde::Serialize;
use transfer::{ActivitySample, EndEvidence, Session, Transport};
use verdict::{
    Buffer, FileWait, FileWaits, FlowContext, FlowTimes, Generator, HostLoad, LoadKind, busiest_load,
    main_file_wait, retransmitted_segs,
};

use crate::{
    Result,
    error::chain,
    record,
    test::{RecordedTest, sending_device, share_of, tuned_buffer},
};

/// The option that requests a rate.
const RATE_OPTION: &str = "--rate";
/// The busiest thread explains a limit of the hosts' processors if it was busy for at least this share of the time.
const MIN_BUSY_SHARE: f64 = 0.5;

/// What limited a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferLimit {
    /// The sender waited for its files.
    SenderDisk,
    /// The receiver waited until its files were written.
    ReceiverDisk,
    /// The sender waited for replies about many files.
    Replies,
    /// A thread of the sender was busy all the time.
    SenderProcessor,
    /// A thread of the receiver was busy all the time.
    ReceiverProcessor,
    /// The processors of one end or both.
    Processors,
    /// The path was full.
    PathRate,
    /// Losses, and the rate control's reaction to them.
    Losses,
    /// Congestion marks.
    EcnMarks,
    /// The sending host's own device dropped packets.
    SenderDevice,
    /// The receiver's buffer.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// `--rate`.
    RequestedRate,
    /// The transport's rate control had not yet reached the rate of the path.
    RateControl,
}

impl fmt::Display for TransferLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransferLimit::SenderDisk => "the sender's disk",
            TransferLimit::ReceiverDisk => "the receiver's disk",
            TransferLimit::Replies => "the receiver's replies about many files",
            TransferLimit::SenderProcessor => "the sender's processor",
            TransferLimit::ReceiverProcessor => "the receiver's processor",
            TransferLimit::Processors => "the hosts' processors",
            TransferLimit::PathRate => "the path's rate",
            TransferLimit::Losses => "losses",
            TransferLimit::EcnMarks => "congestion marks (ECN)",
            TransferLimit::SenderDevice => "drops at the sender's own device",
            TransferLimit::ReceiveWindow => "the receiver's window",
            TransferLimit::SendBuffer => "the sender's socket buffer",
            TransferLimit::RequestedRate => "the requested rate (--rate)",
            TransferLimit::RateControl => "the start of the transport's rate control",
        })
    }
}

/// A transfer with its verdict.
pub struct RecordedTransfer {
    /// The run, its rows, and the record.
    pub test: RecordedTest,
    /// What limited it for most of the time; `None` where unknown.
    pub limit: Option<TransferLimit>,
}

/// Writes the record of a session.
pub struct TransferRecorder {
    runs_dir: Option<PathBuf>,
    /// The other end, as the user knows it.
    peer: String,
    writer: Option<Writer>,
    /// Transmit counters of this end's device when the data began.
    before: Option<TxCounters>,
}

impl TransferRecorder {
    /// A recorder of a session with `peer`; without `runs_dir` no record is written.
    pub fn new(runs_dir: Option<&Path>, peer: &str) -> Self {
        TransferRecorder {
            runs_dir: runs_dir.map(Path::to_path_buf),
            peer: peer.into(),
            writer: None,
            before: None,
        }
    }

    /// Creates the record when the data connection is open: from now on a killed transfer leaves a partial record.
    ///
    /// # Errors
    /// A note for the user if the record cannot be written; the transfer continues without one.
    pub fn begin(&mut self, session: &Session) -> std::result::Result<(), String> {
        self.before = tune::read_tx_counters(session.local.ip());
        let Some(runs_dir) = &self.runs_dir else { return Ok(()) };
        let summary = self.summary(session, RunSummary::begun(EngineName::Test, started(session)));
        let created = record::create(runs_dir, "A file transfer between real hosts", &summary);
        self.writer = Some(created.map_err(|error| no_record(&error))?);
        Ok(())
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As for [`TransferRecorder::begin`].
    pub fn append(&mut self, rows: &[FlowSample]) -> std::result::Result<(), String> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.append(rows, &[], &[]).map_err(|error| {
            self.writer = None;
            no_record(&error)
        })
    }

    /// Completes the record, and finds what limited the transfer. `peer` is what the other end measured, `error` why the transfer is
    /// incomplete.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn finish(
        mut self,
        session: &Session,
        own: EndEvidence,
        peer: Option<EndEvidence>,
        error: Option<String>,
    ) -> Result<RecordedTransfer> {
        let mut run = RunSummary::begun(EngineName::Test, started(session));
        run.partial = error.is_some();
        run.quality.notes.extend(error);
        if peer.is_none() && !run.partial {
            run.quality.notes.push(format!("{} does not measure: its version is older", self.peer));
        }
        let peer = peer.unwrap_or_default();
        let activity = if session.is_sender {
            [own.activity.as_slice(), peer.activity.as_slice()]
        } else {
            [peer.activity.as_slice(), own.activity.as_slice()]
        };
        let mut rows = join_samples(own.rows, &peer.rows);
        run.duration_s = rows.last().map_or(0.0, |row| row.time_us as f64 * 1e-6);
        run.wall_s = run.duration_s;
        let dropped = self.dropped(session, &rows);
        let counts = names(session).map(|name| retransmitted_segs(&rows, &name));
        let all_retransmitted = counts.fold(0, u64::saturating_add);
        let mut contexts = Vec::new();
        let mut events = Vec::new();
        for name in names(session) {
            let dropped_segs = share_of(dropped, retransmitted_segs(&rows, &name), all_retransmitted);
            let context = self.context(session, &name, &rows, activity, dropped_segs);
            verdict::decide(&mut rows, &verdict::LinkRows::default(), &context);
            let times = times(session, &rows, &name);
            let mut flow = verdict::summarize(&rows, &[], &times, &context);
            flow.evidence.extend(describe_waits(activity, &context));
            run.flows.push(flow);
            events.extend(events_of(&rows, &name));
            contexts.push(context);
        }
        events.sort_by_key(|event| event.time_us);
        run.fairness_jain = record::fairness(&run.flows);
        let limit = limit(&run.flows, &contexts, &rows);
        let path = match self.writer.take() {
            Some(writer) => {
                run.id = writer.id().to_string();
                Some(writer.finish(&self.summary(session, run.clone()), &rows, &[], &events)?)
            }
            None => None,
        };
        let test = RecordedTest { run, path, steady: None, rows, dropped_here: dropped };
        Ok(RecordedTransfer { test, limit })
    }

    fn summary(&self, session: &Session, run: RunSummary) -> Summary {
        let (verb, preposition) = if session.is_sender { ("send", "to") } else { ("receive", "from") };
        let streams =
            if session.streams > 1 { format!(", {} streams", session.streams) } else { String::new() };
        Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: format!("{verb}-{}", self.peer),
            title: format!(
                "Files by {} {preposition} {}{streams}",
                protocol_name(session.transport),
                self.peer
            ),
            host: lab::host_info(),
            runs: vec![run],
            published: Vec::new(),
        }
    }

    /// Approximate number of packets that this end's device dropped, if it sends.
    fn dropped(&self, session: &Session, rows: &[FlowSample]) -> u64 {
        let now = tune::read_tx_counters(session.local.ip()).filter(|_| session.is_sender);
        let mss = rows.iter().filter_map(|row| u64::try_from(row.snd_mss_bytes?).ok()).max();
        let counted = self.before.zip(now).map(|(before, now)| now.since(before));
        counted.zip(mss).map_or(0, |(counted, mss)| counted.segments_dropped(mss.max(1)))
    }

    fn context(
        &self,
        session: &Session,
        name: &str,
        rows: &[FlowSample],
        activity: [&[ActivitySample]; 2],
        dropped_segs: u64,
    ) -> FlowContext {
        let is_tcp = session.transport == Transport::Tcp;
        let this_host = session.local.ip().to_canonical().to_string();
        let (from, to) =
            if session.is_sender { (this_host, self.peer.clone()) } else { (self.peer.clone(), this_host) };
        let buffer = |is_here: bool, sysctl| match is_tcp && is_here {
            true => tuned_buffer(sysctl),
            false => Buffer::Unknown,
        };
        let queue = tune::read_transmit_queue(session.local.ip()).filter(|_| session.is_sender);
        FlowContext {
            name: name.into(),
            send_buffer: buffer(session.is_sender, "net.ipv4.tcp_wmem"),
            receive_buffer: buffer(!session.is_sender, "net.ipv4.tcp_rmem"),
            is_rate_controlled: matches!(
                session.transport,
                Transport::Udt | Transport::Sabul | Transport::Tsunami
            ),
            unknown_path: true,
            is_one_host: session.local.ip().to_canonical() == session.peer.ip().to_canonical(),
            pacing_bps: requested_payload_bps(session, rows),
            pacing_option: RATE_OPTION.into(),
            generator: Some(Generator {
                // Waits for files are measured directly.
                uses_file: false,
                size_bytes: last(rows, name).and_then(|row| u64::try_from(row.bytes_acked?).ok()),
                ..Generator::default()
            }),
            device: sending_device(queue, dropped_segs),
            host_loads: host_loads(&from, &to, activity),
            file_waits: Some(file_waits(activity)),
            from,
            to,
            ..FlowContext::default()
        }
    }
}

fn no_record(error: &dyn std::error::Error) -> String {
    format!("no record is written: {}", chain(error))
}

fn started(session: &Session) -> String {
    experiment::rfc3339(jiff::Timestamp::try_from(session.started).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

fn names(session: &Session) -> impl Iterator<Item = String> {
    (1..=u32::from(session.streams)).map(flow_name)
}

/// The name of a transport in titles.
fn protocol_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Udt => "UDT",
        Transport::Tsunami => "Tsunami",
        Transport::Quic => "QUIC",
        Transport::Sabul => "SABUL",
    }
}

fn last<'a>(rows: &'a [FlowSample], name: &str) -> Option<&'a FlowSample> {
    rows.iter().rev().find(|row| row.flow == name)
}

/// The requested rate of a connection, bit/s of what its rows count.
fn requested_payload_bps(session: &Session, rows: &[FlowSample]) -> Option<f64> {
    let rate = session.rate?.as_f64();
    match session.transport {
        Transport::Tcp => Some(rate / f64::from(session.streams.max(1))),
        Transport::Tsunami | Transport::Quic => Some(rate),
        // The rate includes the headers of UDT, UDP and IP.
        Transport::Udt | Transport::Sabul => {
            let payload = rows.iter().filter_map(|row| row.snd_mss_bytes).max()?;
            Some(rate * payload as f64 / f64::from(session.mss.max(1)))
        }
    }
}

/// The threads of the sender, then those of the receiver.
fn host_loads(from: &str, to: &str, [sender, receiver]: [&[ActivitySample]; 2]) -> Vec<HostLoad> {
    type Busy = fn(&ActivitySample) -> Option<i64>;
    let load = |activity: &[ActivitySample], name: String, busy: Busy| HostLoad {
        name,
        kind: LoadKind::Thread,
        busy_us: activity.iter().filter_map(|sample| Some((sample.time_us, busy(sample)? as f64))).collect(),
    };
    vec![
        load(sender, format!("thread that sends on {from}"), |sample| sample.transport_busy_us),
        load(sender, format!("thread that reads and hashes files on {from}"), |sample| sample.file_busy_us),
        load(sender, format!("thread that hashes files on {from}"), |sample| sample.hash_busy_us),
        load(receiver, format!("thread that receives on {to}"), |sample| sample.transport_busy_us),
        load(receiver, format!("thread that writes and hashes files on {to}"), |sample| sample.file_busy_us),
        load(receiver, format!("thread that hashes files on {to}"), |sample| sample.hash_busy_us),
    ]
}

/// Number of the sender's loads in [`host_loads`].
const SENDER_LOADS: usize = 3;

fn file_waits([sender, receiver]: [&[ActivitySample]; 2]) -> FileWaits {
    let series = |activity: &[ActivitySample], waited: fn(&ActivitySample) -> i64| {
        activity.iter().map(|sample| (sample.time_us, waited(sample) as f64)).collect()
    };
    FileWaits {
        reading_us: series(sender, |sample| sample.file_wait_us),
        writing_us: series(receiver, |sample| sample.file_wait_us),
        replies_us: series(sender, |sample| sample.reply_wait_us),
    }
}

/// The waiting time of each end and the load of its busiest thread, in words.
fn describe_waits([sender, receiver]: [&[ActivitySample]; 2], context: &FlowContext) -> Vec<String> {
    let end = |what: &str, host: &str, waited: &str, activity: &[ActivitySample]| {
        let last = activity.last().filter(|last| last.time_us > 0)?;
        let percent = |us: i64| us as f64 / last.time_us as f64 * 100.0;
        let busy = [last.transport_busy_us, last.file_busy_us, last.hash_busy_us].into_iter().flatten().max();
        let busy = busy.map_or(String::new(), |us| {
            format!(", and its busiest thread ran, or waited for a CPU, {:.0} %", percent(us))
        });
        let waits = percent(last.file_wait_us);
        Some(format!(
            "the {what} on {host} waited {waits:.0} % of the time until its files were {waited}{busy}"
        ))
    };
    // All streams of a session share the same files.
    if context.name != flow_name(1) {
        return Vec::new();
    }
    let sentences =
        [end("sender", &context.from, "read", sender), end("receiver", &context.to, "written", receiver)];
    sentences.into_iter().flatten().collect()
}

fn times(session: &Session, rows: &[FlowSample], name: &str) -> FlowTimes {
    let last = last(rows, name);
    let bytes = last.and_then(|row| row.bytes_received.or(row.bytes_acked).or(row.bytes_sent));
    FlowTimes {
        kind: match session.transport {
            Transport::Tcp => FlowKind::Tcp,
            Transport::Udt | Transport::Sabul => FlowKind::Udt,
            Transport::Tsunami => FlowKind::Tsunami,
            Transport::Quic => FlowKind::Quic,
        },
        cc: session.congestion.clone(),
        started_us: rows.iter().find(|row| row.flow == name).map(|row| row.time_us),
        ended_us: last.map(|row| row.time_us),
        bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
    }
}

fn events_of(rows: &[FlowSample], name: &str) -> Vec<Event> {
    let own: Vec<&FlowSample> = rows.iter().filter(|row| row.flow == name).collect();
    let mut events = Vec::new();
    own.windows(2).for_each(|pair| watch::detect_events(pair[0], pair[1], &mut events));
    events
}

/// What limited most of the streams.
fn limit(flows: &[FlowSummary], contexts: &[FlowContext], rows: &[FlowSample]) -> Option<TransferLimit> {
    let verdicts: Vec<Limited> = flows
        .iter()
        .map(|flow| {
            let mut limited = Limited::default();
            if let Some(cause) = flow.verdict {
                *limited.share_mut(cause) = 1.0;
            }
            limited
        })
        .collect();
    let cause = Limited::mean(&verdicts).largest()?;
    let index = flows.iter().position(|flow| flow.verdict == Some(cause))?;
    let context = &contexts[index];
    Some(match cause {
        Cause::Application => match main_file_wait(rows, context) {
            Some(FileWait::Writing) => TransferLimit::ReceiverDisk,
            Some(FileWait::Replies) => TransferLimit::Replies,
            Some(FileWait::Reading) | None => TransferLimit::SenderDisk,
        },
        Cause::HostCpu => busiest_processor(context, rows),
        Cause::PathRate => TransferLimit::PathRate,
        Cause::Loss => TransferLimit::Losses,
        Cause::EcnMarks => TransferLimit::EcnMarks,
        Cause::LocalQueue => TransferLimit::SenderDevice,
        Cause::ReceiveWindow => TransferLimit::ReceiveWindow,
        Cause::SendBuffer => TransferLimit::SendBuffer,
        Cause::Pacing => TransferLimit::RequestedRate,
        Cause::SlowStart => TransferLimit::RateControl,
    })
}

fn busiest_processor(context: &FlowContext, rows: &[FlowSample]) -> TransferLimit {
    let span = rows.first().zip(rows.last());
    let busiest = span.and_then(|(first, last)| busiest_load(context, first.time_us, last.time_us));
    match busiest.filter(|(_, share)| *share >= MIN_BUSY_SHARE) {
        Some((load, _)) => {
            let index = context.host_loads.iter().position(|one| std::ptr::eq(one, load));
            match index.is_some_and(|index| index < SENDER_LOADS) {
                true => TransferLimit::SenderProcessor,
                false => TransferLimit::ReceiverProcessor,
            }
        }
        None => TransferLimit::Processors,
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use units::BitRate;

    use super::*;

    const SECONDS: i64 = 10;

    fn session(is_sender: bool, transport: Transport, streams: u16) -> Session {
        Session {
            is_sender,
            transport,
            streams,
            local: "192.0.2.1:5".parse().unwrap(),
            peer: "192.0.2.2:46225".parse().unwrap(),
            started: UNIX_EPOCH,
            rate: None,
            congestion: (transport == Transport::Tcp).then(|| "cubic".into()),
            mss: 1500,
        }
    }

    /// The rows of a sender at 20 ms over a path of 10 ms: 10 MB a second, with data always waiting to be sent; `set` changes each
    /// row.
    fn sender_rows(streams: u32, set: impl Fn(&mut FlowSample)) -> Vec<FlowSample> {
        let row = |i: i64, id: u32| {
            let mut row = FlowSample {
                time_us: i * 20_000,
                flow: flow_name(id),
                snd_mss_bytes: Some(1448),
                snd_cwnd_segs: Some(1000),
                unacked_segs: Some(100),
                snd_wnd_bytes: Some(4_000_000),
                notsent_bytes: Some(1_000_000),
                wmem_queued_bytes: Some(2_000_000),
                sndbuf_bytes: Some(2_500_000),
                srtt_us: Some(10_000),
                min_rtt_us: Some(10_000),
                total_retrans_segs: Some(0),
                bytes_acked: Some(i * 200_000),
                ..FlowSample::default()
            };
            set(&mut row);
            row
        };
        (0..SECONDS * 50)
            .flat_map(|i| (1..=streams).map(move |id| (i, id)))
            .map(|(i, id)| row(i, id))
            .collect()
    }

    /// The activity of an end: shares of the time that it waits for its files and for replies, and that its file thread is busy.
    fn activity(files: f64, replies: f64, busy: f64) -> Vec<ActivitySample> {
        let sample = |i: i64| {
            let share = |share: f64| (share * i as f64 * 100_000.0) as i64;
            ActivitySample {
                time_us: i * 100_000,
                file_wait_us: share(files),
                reply_wait_us: share(replies),
                transport_busy_us: Some(share(0.1)),
                file_busy_us: Some(share(busy)),
                hash_busy_us: None,
            }
        };
        (0..=SECONDS * 10).map(sample).collect()
    }

    fn receiver_rows() -> Vec<FlowSample> {
        let row = |i: i64| FlowSample {
            time_us: i * 20_000,
            flow: flow_name(1),
            bytes_received: Some(i * 200_000),
            ..FlowSample::default()
        };
        (0..SECONDS * 50).map(row).collect()
    }

    /// The limit that the sender and the receiver of this session find, and the sender's summary.
    fn judged(
        session: &Session,
        rows: &[FlowSample],
        ends: [Vec<ActivitySample>; 2],
    ) -> (TransferLimit, RunSummary) {
        let [sending, receiving] = ends;
        let sender = EndEvidence { rows: rows.to_vec(), activity: sending };
        let receiver = EndEvidence { rows: receiver_rows(), activity: receiving };
        let at = |is_sender: bool, own: &EndEvidence, peer: &EndEvidence| {
            let session = Session { is_sender, ..session.clone() };
            let recorder = TransferRecorder::new(None, "far");
            recorder.finish(&session, own.clone(), Some(peer.clone()), None).unwrap()
        };
        let (here, there) = (at(true, &sender, &receiver), at(false, &receiver, &sender));
        assert_eq!(here.limit, there.limit, "{:?} {:?}", here.test.run.flows, there.test.run.flows);
        (here.limit.unwrap(), here.test.run)
    }

    #[test]
    fn the_disk_or_processor_of_either_end_is_named_at_both_ends() {
        let tcp = session(true, Transport::Tcp, 1);
        let quiet = || activity(0.0, 0.0, 0.1);
        let found = |ends| judged(&tcp, &sender_rows(1, |_| {}), ends);
        let (limit, run) = found([activity(0.9, 0.0, 0.3), quiet()]);
        assert_eq!(limit, TransferLimit::SenderDisk);
        let flow = &run.flows[0];
        assert_eq!((flow.verdict, flow.to.as_str()), (Some(Cause::Application), "far"));
        assert!(flow.evidence[0].contains("until its file was read from the disk of 192.0.2.1"), "{flow:?}");
        assert!(flow.evidence.iter().any(|text| text.contains("waited 90 % of the time")), "{flow:?}");
        assert_eq!(found([activity(0.0, 0.0, 0.1), activity(0.8, 0.0, 0.3)]).0, TransferLimit::ReceiverDisk);
        // A wait for a reply is a limit only if no data is in flight.
        let waiting = [activity(0.0, 0.9, 0.1), quiet()];
        assert_ne!(found(waiting.clone()).0, TransferLimit::Replies);
        let without_data = sender_rows(1, |row| row.unacked_segs = Some(0));
        assert_eq!(judged(&tcp, &without_data, waiting).0, TransferLimit::Replies);
        assert_eq!(found([activity(0.9, 0.0, 0.99), quiet()]).0, TransferLimit::SenderProcessor);
        let (limit, run) = found([quiet(), activity(0.9, 0.0, 0.99)]);
        assert_eq!(limit, TransferLimit::ReceiverProcessor);
        assert!(
            run.flows[0].evidence[0].contains("writes and hashes files on far"),
            "{:?}",
            run.flows[0].evidence
        );
    }

    #[test]
    fn limits_of_the_transport_are_named_as_in_a_test() {
        let quiet = || [activity(0.0, 0.0, 0.1), activity(0.0, 0.0, 0.1)];
        let tcp = session(true, Transport::Tcp, 1);
        let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(100 * 1448);
        assert_eq!(judged(&tcp, &sender_rows(1, window), quiet()).0, TransferLimit::ReceiveWindow);
        let lost = |row: &mut FlowSample| {
            row.snd_cwnd_segs = Some(100);
            row.total_retrans_segs = Some(row.time_us / 100_000);
        };
        assert_eq!(judged(&tcp, &sender_rows(1, lost), quiet()).0, TransferLimit::Losses);
        // UDT at 100 Mb/s with its headers has 96.5 Mb/s of payload.
        let udt = Session { rate: Some(BitRate(100_000_000)), ..session(true, Transport::Udt, 1) };
        let paced = |row: &mut FlowSample| row.pacing_rate_bps = Some(96_500_000);
        let (limit, run) = judged(&udt, &sender_rows(1, paced), quiet());
        assert_eq!((limit, &run.flows[0].kind), (TransferLimit::RequestedRate, &FlowKind::Udt));
        let slow = |row: &mut FlowSample| {
            row.pacing_rate_bps = Some(20_000_000);
            row.total_retrans_segs = Some(row.time_us / 100_000);
        };
        let (limit, run) = judged(&udt, &sender_rows(1, slow), quiet());
        assert_eq!(limit, TransferLimit::Losses);
        assert!(
            run.flows[0].remedy.as_ref().unwrap().contains("--tolerate-loss"),
            "{:?}",
            run.flows[0].remedy
        );
    }

    #[test]
    fn a_record_has_rows_of_each_stream_at_both_ends() {
        let directory = std::env::temp_dir().join(format!("longfat-transfer-{}", std::process::id()));
        let session = session(true, Transport::Tcp, 2);
        let mut recorder = TransferRecorder::new(Some(&directory), "far");
        recorder.begin(&session).unwrap();
        let rows = sender_rows(2, |_| {});
        recorder.append(&rows[..100]).unwrap();
        let own = EndEvidence { rows, activity: activity(0.9, 0.0, 0.1) };
        let peer = EndEvidence { rows: receiver_rows(), activity: activity(0.0, 0.0, 0.1) };
        let recorded = recorder.finish(&session, own, Some(peer), None).unwrap();
        let run = &recorded.test.run;
        assert_eq!(
            run.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(),
            ["stream-1", "stream-2"]
        );
        assert!(!run.partial && run.quality.notes.is_empty(), "{:?}", run.quality.notes);
        assert!(recorded.test.rows.iter().any(|row| row.flow == "stream-1" && row.bytes_received > Some(0)));
        let path = recorded.test.path.unwrap();
        assert!(
            path.join("flows.parquet").exists() && path.parent().unwrap().ends_with("send-far"),
            "{path:?}"
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_older_peer_or_an_interruption_adds_a_note() {
        let session = session(true, Transport::Tcp, 1);
        let own = EndEvidence { rows: sender_rows(1, |_| {}), activity: activity(0.9, 0.0, 0.1) };
        let finish = |error: Option<&str>| {
            let recorder = TransferRecorder::new(None, "far");
            recorder.finish(&session, own.clone(), None, error.map(str::to_string)).unwrap().test.run
        };
        let old = finish(None);
        assert!(!old.partial && old.quality.notes[0].contains("far does not measure"), "{:?}", old.quality);
        assert_eq!(old.flows[0].verdict, Some(Cause::Application));
        let interrupted = finish(Some("interrupted"));
        assert_eq!((interrupted.partial, interrupted.quality.notes.len()), (true, 1));
        // Neither end has a sample.
        let recorder = TransferRecorder::new(None, "far");
        let nothing = recorder.finish(&session, EndEvidence::default(), None, Some("reset".into())).unwrap();
        assert_eq!(nothing.limit, None);
    }
}
