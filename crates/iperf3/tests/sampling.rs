//! Samples of a test's sockets at 1 kHz: a row each millisecond at both ends, with far fewer wake-ups.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use iperf3::{
    ClientOptions, Error, Observer, Server, ServerObserver, ServerOptions, TestOutcome,
    report::{Amount, Direction, Protocol, Report, ServerOutput, TestSpec},
    test,
    wire::Params,
};
use schema::FlowSample;
use units::{BitRate, Bytes};

const EVERY: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Samples(Vec<FlowSample>);

impl Observer for Samples {
    fn sample_interval(&self) -> Option<Duration> {
        Some(EVERY)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        self.0.extend_from_slice(rows);
    }
}

struct IgnoreOutput;

impl Observer for IgnoreOutput {}

impl ServerObserver for IgnoreOutput {
    fn note(&self, _: &str) {}

    fn begin(&self, _: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(IgnoreOutput)
    }

    fn end(&self, _: SocketAddr, _: &Report, _: Option<&Error>) {}

    fn output(&self, _: &Report) -> ServerOutput {
        ServerOutput::Text(String::new())
    }
}

/// Number of times that this thread has slept (voluntary context switches).
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Runs 20 Mb/s in each of two streams for a second. Returns this end's rows, the outcome, and how often the
/// control thread slept.
fn sampled(protocol: Protocol, direction: Direction) -> (Vec<FlowSample>, TestOutcome, u64) {
    let options = ServerOptions {
        bind: Some([127, 0, 0, 1].into()),
        port: 0,
        one_off: true,
        ..ServerOptions::default()
    };
    let server = Server::bind(options).unwrap();
    let block = if protocol == Protocol::Udp { Bytes(1448) } else { Bytes(128 << 10) };
    let spec = TestSpec {
        protocol,
        direction,
        block,
        streams: 2,
        amount: Amount::Time(Duration::from_secs(1)),
        rate: Some(BitRate(20_000_000)),
        ..Params::default().spec().unwrap()
    };
    let options = ClientOptions { port: server.address().port(), ..ClientOptions::new("127.0.0.1", spec) };
    let (stop, mut samples) = (AtomicBool::new(false), Samples::default());
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, &IgnoreOutput));
        let before = waits();
        let tested = test(&options, &stop, &mut samples);
        let waits = waits() - before;
        stop.store(true, Ordering::Release);
        assert!(tested.error.is_none(), "{:?}", tested.error);
        (samples.0, tested, waits)
    })
}

/// Checks that each stream has nearly all of its rows, at most one a millisecond, and that their goodput adds
/// up to `payload`.
fn check(rows: &[FlowSample], payload: u64, what: &str) {
    assert!(rows.is_sorted_by_key(|row| row.time_us), "{what}");
    let mut bytes = 0.0;
    for flow in ["stream-1", "stream-3"] {
        let own: Vec<&FlowSample> = rows.iter().filter(|row| row.flow == flow).collect();
        // A thread that waits for a processor misses some samples.
        assert!((400..=1010).contains(&own.len()), "{what}: {} rows of {flow}", own.len());
        for pair in own.windows(2) {
            assert!(pair[0].time_us / 1000 < pair[1].time_us / 1000, "{what}: {pair:?}");
            let span_us = (pair[1].time_us - pair[0].time_us) as f64;
            bytes += pair[1].goodput_bps.unwrap() as f64 * span_us * 1e-6 / 8.0;
        }
    }
    // The last rows are a little before the end, and each row's rate is truncated to whole bits.
    assert!((bytes / payload as f64 - 1.0).abs() < 0.15, "{what}: {bytes} of {payload}");
}

#[test]
fn rows_every_millisecond_need_few_wake_ups() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let what = format!("{protocol:?} {direction:?}");
            let (rows, tested, waits) = sampled(protocol, direction);
            let end = tested.report.end.unwrap();
            let payload = end.streams.iter().map(|stream| stream.received.bytes).sum();
            check(&rows, payload, &format!("{what}, here"));
            check(&tested.peer_samples, payload, &format!("{what}, there"));
            assert!(waits < 500, "{what}: it waited {waits} times");
        }
    }
}
