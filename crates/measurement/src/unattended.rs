//! Tests that no user watches: those of measurement points and of schedulers. Both ends sample their sockets;
//! errors of the record are logged.

use std::{path::Path, sync::atomic::AtomicBool, time::Duration};

use iperf3::{
    ClientOptions, Observer,
    report::{Report, Start},
};
use schema::FlowSample;

use crate::{
    Result,
    test::{Ends, RecordedTest, Recording, SampleCollector, complete_record},
};

/// Interval at which both ends sample their sockets.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// A test that has ended.
pub struct UnattendedTest {
    /// The report; if the test failed, the parts that it reached.
    pub report: Report,
    /// Why the test failed.
    pub error: Option<iperf3::Error>,
    /// The test with its verdict; `None` if no data flowed.
    pub recorded: Result<Option<RecordedTest>>,
}

/// Runs the client of a test, and writes its record to `runs_dir`. The test ends early when `stop` is set.
pub fn run_test(options: &ClientOptions, runs_dir: Option<&Path>, stop: &AtomicBool) -> UnattendedTest {
    let recording = runs_dir.map(|runs_dir| Recording::new(runs_dir, options));
    let mut collector = LoggingCollector(SampleCollector::new(SAMPLE_INTERVAL, false, recording));
    let tested = iperf3::test(options, stop, &mut collector);
    let ends = Ends { busy: tested.busy, peer_busy: tested.peer_busy };
    let samples = collector.0.finish();
    let recorded = complete_record(samples, tested.peer_samples, options, &tested.report, ends);
    UnattendedTest { report: tested.report, error: tested.error, recorded }
}

/// The server's role in a test: samples the server's sockets. The server sends the samples to the client.
pub struct SamplingObserver;

impl Observer for SamplingObserver {
    fn sample_interval(&self) -> Option<Duration> {
        Some(SAMPLE_INTERVAL)
    }
}

/// Collects the samples of the client.
struct LoggingCollector(SampleCollector);

impl Observer for LoggingCollector {
    fn note(&mut self, text: &str) {
        self.0.note(text);
    }

    fn start(&mut self, start: &Start) {
        if let Err(note) = self.0.start(start) {
            tracing::warn!("{note}");
        }
    }

    fn sample_interval(&self) -> Option<Duration> {
        Some(SAMPLE_INTERVAL)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        if let Err(note) = self.0.samples(rows) {
            tracing::warn!("{note}");
        }
    }
}
