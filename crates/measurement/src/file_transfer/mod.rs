//! The record of a file transfer between real hosts: samples of both ends, and what limited the transfer.
//!
//! `context.rs` describes the hosts and their threads to the verdict, `limit.rs` names the limit.

mod context;
mod limit;

use std::path::{Path, PathBuf};

use ::record::Writer;
use iperf3::{flow_name, join_samples};
use os::TxCounters;
use schema::{EngineName, Event, FlowKind, FlowSample, RunSummary, SUMMARY_SCHEMA, Summary};
use transfer::{EndEvidence, Session, Transport};
use verdict::{FlowTimes, retransmitted_segs};

use self::{context::describe_waits, limit::limit};
use crate::{
    Result,
    error::chain,
    record,
    test::{RecordedTest, share_of},
};

pub use self::limit::TransferLimit;

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

    /// Creates the record when the data connection is open: from now on a killed transfer leaves a partial
    /// record.
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

    /// Completes the record, and finds what limited the transfer. `peer` is what the other end measured,
    /// `error` why the transfer is incomplete.
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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use schema::Cause;
    use transfer::ActivitySample;

    use super::*;

    const SECONDS: i64 = 10;

    pub(super) fn session(is_sender: bool, transport: Transport, streams: u16) -> Session {
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

    /// The rows of a sender at 20 ms over a path of 10 ms: 10 MB a second, with data always waiting to be
    /// sent; `set` changes each row.
    pub(super) fn sender_rows(streams: u32, set: impl Fn(&mut FlowSample)) -> Vec<FlowSample> {
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

    /// The activity of an end: shares of the time that it waits for its files and for replies, and that its
    /// file thread is busy.
    pub(super) fn activity(files: f64, replies: f64, busy: f64) -> Vec<ActivitySample> {
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

    pub(super) fn receiver_rows() -> Vec<FlowSample> {
        let row = |i: i64| FlowSample {
            time_us: i * 20_000,
            flow: flow_name(1),
            bytes_received: Some(i * 200_000),
            ..FlowSample::default()
        };
        (0..SECONDS * 50).map(row).collect()
    }

    /// The limit that the sender and the receiver of this session find, and the sender's summary.
    pub(super) fn judged(
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
