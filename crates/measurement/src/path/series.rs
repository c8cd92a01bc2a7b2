//! A series of tests of one path, each with its record.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use iperf3::{
    ClientOptions, Credentials, Observer, Token,
    report::{Amount, Interval, Protocol, Report, Start, TestSpec},
};
use schema::FlowSample;
use tune::HostFacts;
use units::{BitRate, Bytes};

use super::{Error, Progress};
use crate::test::{self, RecordedTest, Recording, SampleCollector};

/// Sample interval of the sockets.
const SAMPLE: Duration = Duration::from_millis(10);

/// Evenly sent datagrams more than this behind schedule are skipped.
const MAX_LATE: Duration = Duration::from_micros(500);

/// The other end of the tests.
pub struct Peer {
    /// A name or an address.
    pub host: String,
    /// Its server's port.
    pub port: u16,
    /// User and password, for servers that require them.
    pub credentials: Option<Credentials>,
    /// The shared secret of a `longfat serve --token`.
    pub token: Option<Token>,
}

/// Tests with one peer, one after another.
pub struct TestSeries<'a> {
    /// The other end.
    pub peer: Peer,
    /// The directory of records.
    pub runs_dir: &'a Path,
    /// A flag that ends the measurements early.
    pub stop: Arc<AtomicBool>,
    /// Receives notes and intervals.
    pub progress: &'a mut dyn Progress,
    /// The beginning of the records' titles.
    pub title: Option<String>,
    /// Records of all tests so far, also of those that failed.
    pub records: Vec<PathBuf>,
    /// The record of the last TCP test with one connection, which is not a part of another measurement.
    pub main_record: Option<PathBuf>,
}

/// A test.
pub struct PathTest {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Number of parallel streams.
    pub streams: u32,
    /// Duration of sending.
    pub amount: Amount,
    /// Payload rate; `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// Payload of a datagram.
    pub block: Option<Bytes>,
    /// Skips datagrams that are behind schedule: a burst of late ones would overflow short queues and look
    /// like loss on the path.
    pub is_even: bool,
    /// The sender's congestion control.
    pub congestion: Option<String>,
    /// The run summary's `part_of`.
    pub part_of: Option<&'static str>,
}

/// A completed test.
pub struct CompletedTest {
    /// Both ends' statistics.
    pub report: Report,
    /// The record, the summary and the samples.
    pub record: RecordedTest,
    /// The settings of the other host, if it reports them.
    pub peer_host: Option<HostFacts>,
    /// Share of the time that the sending thread was busy, 0 to 1.
    pub busy: Option<f64>,
    /// Share of the time that the receiving thread was busy.
    pub peer_busy: Option<f64>,
}

/// Collects a test's samples and passes its progress on.
struct TestObserver<'a> {
    collector: SampleCollector,
    progress: &'a mut dyn Progress,
}

impl Observer for TestObserver<'_> {
    fn note(&mut self, text: &str) {
        self.progress.note(text);
        self.collector.note(text);
    }

    fn start(&mut self, start: &Start) {
        if let Err(note) = self.collector.start(start) {
            self.note(&note);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.progress.interval(interval);
    }

    fn sample_interval(&self) -> Option<Duration> {
        Some(SAMPLE)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        if let Err(note) = self.collector.samples(rows) {
            self.note(&note);
        }
    }
}

impl TestSeries<'_> {
    /// Runs a test; `None` if no data flowed and nothing failed.
    ///
    /// # Errors
    /// If the test fails or is interrupted, or its record cannot be written.
    pub fn run(&mut self, test: &PathTest) -> Result<Option<CompletedTest>, Error> {
        let options = ClientOptions {
            port: self.peer.port,
            request_host_info: true,
            credentials: self.peer.credentials.clone(),
            token: self.peer.token.clone(),
            ..ClientOptions::new(&self.peer.host, TestSpec { title: self.title.clone(), ..spec(test) })
        };
        let recording = Recording::new(self.runs_dir, &options).part_of(test.part_of);
        let mut observer = TestObserver {
            collector: SampleCollector::new(SAMPLE, false, Some(recording)),
            progress: &mut *self.progress,
        };
        let tested = iperf3::test(&options, &self.stop, &mut observer);
        let samples = observer.collector.finish();
        let ends = test::Ends { busy: tested.busy, peer_busy: tested.peer_busy };
        let record = test::complete_record(samples, tested.peer_samples, &options, &tested.report, ends)?;
        let path = record.as_ref().and_then(|record| record.path.clone());
        if test.protocol == Protocol::Tcp && test.streams == 1 && test.part_of.is_none() && path.is_some() {
            self.main_record.clone_from(&path);
        }
        self.records.extend(path);
        match tested.error {
            None => {}
            Some(iperf3::Error::Interrupted) => return Err(Error::Interrupted),
            Some(source) => return Err(Error::Test { host: self.peer.host.clone(), source }),
        }
        let Some(record) = record else { return Ok(None) };
        // A peer of another version may report values that this one does not understand.
        let peer_host = tested.peer_host.and_then(|host| serde_json::from_value(host).ok());
        Ok(Some(CompletedTest {
            report: tested.report,
            record,
            peer_host,
            busy: tested.busy,
            peer_busy: tested.peer_busy,
        }))
    }
}

fn spec(test: &PathTest) -> TestSpec {
    let base = TestSpec::new(test.protocol, test.amount);
    TestSpec {
        streams: test.streams,
        block: test.block.unwrap_or(base.block),
        rate: test.rate,
        congestion: test.congestion.clone(),
        dont_fragment: test.protocol == Protocol::Udp,
        udp_counters_64bit: true,
        max_lateness: test.is_even.then_some(MAX_LATE),
        ..base
    }
}
