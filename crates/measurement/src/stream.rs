//! The record of a real-time stream between real hosts: samples of both ends, the play-out, and why packets
//! missed their deadline.

use std::path::{Path, PathBuf};

use ::record::Writer;
use bulk::stream::Parameters;
use engine_common::{bulk_events, bulk_row, micros, stream_summary, time_us};
use schema::{EngineName, Event, FlowKind, FlowSample, FlowSummary, RunSummary, SUMMARY_SCHEMA, Summary};
use transfer::stream::StreamSample;
use units::BitRate;
use verdict::{FlowContext, FlowTimes};

use crate::{Result, record::create};

/// The flow's name in the record.
const FLOW: &str = "stream";
/// The option that requests the rate.
const RATE_OPTION: &str = "--rate";

/// The stream, for the record.
#[derive(Debug, Clone)]
pub struct StreamTest {
    /// The record's name, instead of a scenario's name.
    pub name: String,
    /// The title.
    pub title: String,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Its rate.
    pub rate: BitRate,
    /// Share of packets that may miss their deadline, 0 to 1.
    pub tolerate_loss: f64,
}

/// Why packets of a stream missed their deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissedPackets {
    /// All packets that missed it.
    pub all: u64,
    /// Not sent, because the sender was stalled when they were due.
    pub skipped: u64,
    /// Dropped because the buffer of the receiver's socket was full.
    pub dropped_at_socket: u64,
    /// Arrived after their deadline.
    pub late: u64,
    /// The others: lost on the path.
    pub lost: u64,
}

/// A stream that was recorded.
#[derive(Debug)]
pub struct RecordedStream {
    /// The run's summary.
    pub run: RunSummary,
    /// The record's directory, if there is one.
    pub path: Option<PathBuf>,
    /// Why packets missed their deadline.
    pub missed: MissedPackets,
}

impl RecordedStream {
    /// Whether the receiver could play the stream.
    pub fn is_sustainable(&self) -> bool {
        self.run.flows.iter().filter_map(|flow| flow.stream).all(|stream| stream.is_sustainable)
    }
}

/// The highest rate at which one of these streams was sustainable, bit/s of payload.
pub fn max_sustainable_rate(streams: &[RecordedStream]) -> Option<f64> {
    let flows = streams.iter().filter(|one| one.is_sustainable()).flat_map(|one| &one.run.flows);
    flows.filter_map(|flow| flow.stream?.sustainable_up_to_bps).reduce(f64::max)
}

/// Collects the samples of a running stream, and writes them to a record if there is one.
pub struct StreamRecorder {
    test: StreamTest,
    summary: Summary,
    writer: Option<Writer>,
    rows: Vec<FlowSample>,
    events: Vec<Event>,
    last: Option<StreamSample>,
}

impl StreamRecorder {
    /// Begins now. With `runs_dir` a record is written; if this program is killed, the record is partial.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn new(runs_dir: Option<&Path>, test: StreamTest) -> Result<Self> {
        let started = jiff::Timestamp::from_nanosecond(i128::from(os::realtime_ns())).unwrap_or_default();
        let mut summary = Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: test.name.clone(),
            title: test.title.clone(),
            host: lab::host_info(),
            runs: vec![RunSummary::begun(EngineName::Test, experiment::rfc3339(started))],
            published: Vec::new(),
        };
        summary.runs[0].sweep.insert("rate".into(), test.rate.to_string());
        let writer = runs_dir
            .map(|runs_dir| create(runs_dir, "A real-time stream between real hosts", &summary))
            .transpose()?;
        if let Some(writer) = &writer {
            summary.runs[0].id = writer.id().to_string();
        }
        Ok(StreamRecorder { test, summary, writer, rows: Vec::new(), events: Vec::new(), last: None })
    }

    /// Adds the counts of both ends.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn add(&mut self, sample: &StreamSample) -> Result<()> {
        let mut row = bulk_row(FLOW, sample.time, &sample.sender, &sample.receiver);
        let mut events = Vec::new();
        if let Some(last) = &self.last {
            let span_s = sample.time.saturating_since(last.time).as_secs_f64();
            let bytes = sample.receiver.received_bytes.saturating_sub(last.receiver.received_bytes);
            row.goodput_bps = (span_s > 0.0).then(|| (bytes as f64 * 8.0 / span_s) as i64);
            events.extend(bulk_events(FLOW, sample.time, &last.sender, &sample.sender));
        }
        if let Some(writer) = &mut self.writer {
            writer.append(std::slice::from_ref(&row), &[], &events)?;
        }
        self.last = Some(*sample);
        self.rows.push(row);
        self.events.extend(events);
        Ok(())
    }

    /// Completes the record; `parameters` are those of the stream.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn finish(self, parameters: &Parameters) -> Result<RecordedStream> {
        self.complete(Some(parameters))
    }

    /// Completes the record of a stream that has failed, as a partial one; `None` without a sample.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn finish_partial(mut self) -> Result<Option<RecordedStream>> {
        if self.last.is_none() {
            if let Some(writer) = self.writer.take() {
                writer.abort();
            }
            return Ok(None);
        }
        self.summary.runs[0].partial = true;
        self.complete(None).map(Some)
    }

    fn complete(mut self, parameters: Option<&Parameters>) -> Result<RecordedStream> {
        let last = self.last.unwrap_or_default();
        let missed = MissedPackets::of(&last);
        let context = FlowContext {
            name: FLOW.into(),
            from: self.test.from.clone(),
            to: self.test.to.clone(),
            is_rate_controlled: true,
            unknown_path: true,
            pacing_bps: Some(self.test.rate.as_f64()),
            pacing_option: RATE_OPTION.into(),
            ..FlowContext::default()
        };
        verdict::decide(&mut self.rows, &verdict::LinkRows::default(), &context);
        let times = FlowTimes {
            kind: FlowKind::Stream,
            started_us: Some(0),
            ended_us: Some(time_us(last.time)),
            bytes: last.receiver.received_bytes,
            ..FlowTimes::default()
        };
        let mut flow = verdict::summarize(&self.rows, &self.events, &times, &context);
        if let Some(parameters) = parameters {
            self.set_play_out(parameters, &last, missed, &mut flow);
        }
        let run = &mut self.summary.runs[0];
        run.duration_s = last.time.as_secs_f64();
        run.wall_s = run.duration_s;
        run.flows = vec![flow];
        let path = match self.writer.take() {
            Some(writer) => Some(writer.finish(&self.summary, &self.rows, &[], &self.events)?),
            None => None,
        };
        Ok(RecordedStream { run: self.summary.runs.remove(0), path, missed })
    }

    fn set_play_out(
        &self,
        parameters: &Parameters,
        last: &StreamSample,
        missed: MissedPackets,
        flow: &mut FlowSummary,
    ) {
        let Some(playout) = last.receiver.playout else { return };
        // The remaining rate of the path is unknown.
        let stream = stream_summary(&playout, parameters.rate, self.test.tolerate_loss, || Some(0.0));
        flow.loss_share = Some(1.0 - stream.in_time_share);
        flow.stream = Some(stream);
        flow.evidence.extend(missed.sentence(playout.due));
        flow.evidence.extend(self.buffer_sentence(parameters));
    }

    /// The occupancy of the play-out buffer, from the deadline's end on.
    fn buffer_sentence(&self, parameters: &Parameters) -> Option<String> {
        let (begin, end) = (micros(parameters.deadline), micros(parameters.time_of(parameters.packets?)));
        let filled = self.rows.iter().filter(|row| (begin..end).contains(&row.time_us));
        let queued: Vec<i64> = filled.filter_map(|row| row.rcv_queue_bytes).collect();
        let (min, max) = (queued.iter().min()?, queued.iter().max()?);
        let mean = queued.iter().sum::<i64>() as f64 / queued.len() as f64;
        let ms = |bytes: f64| bytes * 8e3 / parameters.rate.as_f64();
        Some(format!(
            "The play-out buffer held {:.0} ms of data on average ({:.0} to {:.0} ms; the deadline is {}).",
            ms(mean),
            ms(*min as f64),
            ms(*max as f64),
            parameters.deadline
        ))
    }
}

impl MissedPackets {
    fn of(last: &StreamSample) -> Self {
        let playout = last.receiver.playout.unwrap_or_default();
        let all = playout.due.saturating_sub(playout.in_time);
        // Each cause counts only packets that the previous causes do not explain: a repair may have replaced
        // a dropped packet.
        let skipped = last.sender.skipped_packets.min(all);
        let late = playout.late.min(all - skipped);
        let dropped_at_socket = last.dropped_at_socket.min(all - skipped - late);
        MissedPackets {
            all,
            skipped,
            dropped_at_socket,
            late,
            lost: all - skipped - late - dropped_at_socket,
        }
    }

    /// The causes with their numbers of packets, as in `4 lost on the path, 3 arrived late`; `None` if no
    /// packet missed its deadline.
    pub fn causes(&self) -> Option<String> {
        let parts = [
            (self.lost, "lost on the path"),
            (self.late, "arrived late"),
            (self.dropped_at_socket, "dropped by the receiver's socket, whose buffer was full"),
            (self.skipped, "skipped by the sender, which was stalled"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, why)| format!("{count} {why}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// In words; `None` if no packet missed its deadline.
    fn sentence(&self, due: u64) -> Option<String> {
        Some(format!("{} of {due} packets missed their time: {}.", self.all, self.causes()?))
    }
}

#[cfg(test)]
mod tests {
    use bulk::{
        flow::{ReceiverCounts, SenderCounts},
        stream::PlayoutCounts,
    };
    use units::{Instant, Time};

    use super::*;

    fn sample(time: Instant, due: u64, in_time: u64) -> StreamSample {
        let sender = SenderCounts {
            is_connected: true,
            payload_bytes: 1000,
            sent_packets: due + 10,
            skipped_packets: 2,
            rate_bps: Some(8_000_000),
            ..SenderCounts::default()
        };
        let playout = PlayoutCounts {
            due,
            in_time,
            late: 3,
            buffered: 50,
            gaps: [1, 1, 0, 0],
            longest_gap: 9,
            ..Default::default()
        };
        let receiver = ReceiverCounts {
            received_bytes: in_time * 1000,
            playout: Some(playout),
            ..ReceiverCounts::default()
        };
        StreamSample { time, sender, receiver, dropped_at_socket: 1 }
    }

    #[test]
    fn a_record_has_the_play_out_and_the_reasons() {
        let directory = std::env::temp_dir().join(format!("longfat-stream-{}", std::process::id()));
        let test = StreamTest {
            name: "stream-b".into(),
            title: "stream".into(),
            from: "a".into(),
            to: "b".into(),
            rate: BitRate(8_000_000),
            tolerate_loss: 0.005,
        };
        let parameters = Parameters {
            rate: BitRate(8_000_000),
            payload_bytes: 1000,
            deadline: Time::from_millis(100),
            repairs: false,
            packets: Some(1000),
            vdif: None,
        };
        let mut failed = StreamRecorder::new(Some(&directory), test.clone()).unwrap();
        failed.add(&sample(Instant::from_millis(500), 400, 395)).unwrap();
        let partial = failed.finish_partial().unwrap().unwrap();
        let path = partial.path.unwrap();
        assert!(::record::Run::open(&path).unwrap().run().partial && partial.run.flows.len() == 1);
        let silent = StreamRecorder::new(Some(&directory), test.clone()).unwrap();
        assert!(silent.finish_partial().unwrap().is_none());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let mut recorder = StreamRecorder::new(Some(&directory), test).unwrap();
        recorder.add(&sample(Instant::from_millis(500), 400, 395)).unwrap();
        recorder.add(&sample(Instant::from_millis(1100), 1000, 990)).unwrap();
        let recorded = recorder.finish(&parameters).unwrap();
        let missed = MissedPackets { all: 10, skipped: 2, dropped_at_socket: 1, late: 3, lost: 4 };
        assert_eq!(recorded.missed, missed);
        let causes = missed.causes().unwrap();
        assert!(causes.starts_with("4 lost on the path, 3 arrived late, 1 dropped by"), "{causes}");
        assert!(causes.ends_with(", 2 skipped by the sender, which was stalled"), "{causes}");
        assert_eq!(MissedPackets::default().causes(), None);
        let flow = &recorded.run.flows[0];
        let stream = flow.stream.unwrap();
        assert_eq!((stream.in_time_share, stream.is_sustainable), (0.99, false));
        assert_eq!(stream.sustainable_up_to_bps, Some(7_920_000.0));
        assert!(
            flow.evidence.iter().any(|text| text.starts_with("10 of 1000 packets missed their time: 4 lost"))
        );
        assert!(flow.evidence.iter().any(|text| text.contains("held 50 ms")), "{:?}", flow.evidence);
        assert!(recorded.path.unwrap().join("flows.parquet").exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
