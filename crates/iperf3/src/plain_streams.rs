//! A test on connected TCP sockets without iperf3's control connection, for other protocols with the same
//! kind of streams. A sender sends the requested amount and ends its stream; a receiver reads until the end
//! of the stream.

use std::{
    io::Read,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use socket2::Socket;

use crate::{
    Error, Observer, TestOutcome,
    data_phase::{DataBounds, DataPhase},
    report::{Role, TestSpec},
    report_builder::{self, LocalResults},
    stream::Stream,
    stream_threads::StreamThreads,
    wire::{Code, Results},
};
pub use crate::{control::new_socket, report_builder::start_of, socket::End, socket::set_up};

/// Maximum time for which a sender waits until the other end has read everything and closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A test whose streams are connected.
#[derive(Debug)]
pub struct PlainTest {
    /// Whether this end requested the test.
    pub role: Role,
    /// The other end.
    pub peer: SocketAddr,
    /// Its name, as given by the user; `None`: its address.
    pub peer_name: Option<String>,
    /// The server's port.
    pub port: u16,
    /// The test.
    pub spec: TestSpec,
    /// The connected sockets; true: this end sends. A socket on which both ends send is given twice.
    pub streams: Vec<(Socket, bool)>,
    /// Processors to which stream threads are pinned, in turn; empty: not pinned.
    pub pin: Vec<usize>,
    /// The test fails if no data is transferred for this time.
    pub idle_timeout: Option<Duration>,
    /// The test fails if it lasts longer.
    pub max_duration: Option<Duration>,
}

/// Runs the test on this thread and one more for each stream. Ends early when `stop` is set.
pub fn run(test: PlainTest, stop: &AtomicBool, observer: &mut dyn Observer) -> TestOutcome {
    let mut outcome = TestOutcome::default();
    if let Err(error) = run_test(test, stop, observer, &mut outcome) {
        outcome.report.error = Some(error.to_string());
        outcome.error = Some(error);
    }
    outcome
}

fn run_test(
    test: PlainTest,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    outcome: &mut TestOutcome,
) -> Result<(), Error> {
    let own = os::thread_usage();
    let spec = Arc::new(test.spec);
    let numbered = (0..).zip(test.streams);
    let streams =
        numbered.map(|(number, (socket, sends))| Stream::new(number, sends, socket, &spec)).collect();
    let mut running = StreamThreads::prepare(streams, &spec, &test.pin, observer.sample_interval())?;
    let sockets: Vec<_> = running.streams().iter().map(|stream| (&stream.socket, stream.sends)).collect();
    let mut start = start_of(test.role, test.peer, test.port, &spec, &sockets)?;
    start.peer_name = test.peer_name.unwrap_or(start.peer_name);
    observer.start(&start);
    outcome.report.start = Some(start);
    let bounds = DataBounds {
        decides_end: true,
        ends_with_streams: true,
        idle: test.idle_timeout,
        max_duration: test.max_duration.map(|most| (most, Code::NO_DATA)),
        ..DataBounds::default()
    };
    let mut data_phase = DataPhase::new(&mut running, None, &spec, bounds, observer, stop);
    let ended = data_phase.run();
    let (end, snapshots) = (data_phase.now(), data_phase.running.snapshots());
    let DataPhase { counter, intervals, .. } = data_phase;
    outcome.report.intervals = intervals;
    ended?;
    running.end();
    wait_for_close(&running, stop);
    let local = LocalResults::of(test.role, &running, counter, own, end, snapshots);
    outcome.busy = local.busy;
    // All sent data was acknowledged, and all received data was sent: the other end's totals are this end's.
    let mirrored = report_builder::results(&local, running.streams());
    let remote = Results {
        cpu_util_total: 0.0,
        cpu_util_user: 0.0,
        cpu_util_system: 0.0,
        congestion_used: None,
        ..mirrored
    };
    outcome.report.end = Some(report_builder::end(test.role, &spec, &local, running.streams(), remote)?);
    Ok(())
}

/// Waits until the other ends of all sent streams are closed: closing a socket earlier would reset the
/// connection, and the other end could lose data that it has not read.
fn wait_for_close(running: &StreamThreads, stop: &AtomicBool) {
    let deadline = Instant::now() + CLOSE_TIMEOUT;
    let mut bytes = [0; 4096];
    for stream in running.streams().iter().filter(|stream| stream.sends) {
        while let Some(left) = deadline.checked_duration_since(Instant::now())
            && !stop.load(std::sync::atomic::Ordering::Acquire)
        {
            match os::wait_readable(&stream.socket, left.min(Duration::from_millis(100))) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(_) => break,
            }
            // Some servers send an acknowledgement of the header, which is not needed.
            if !matches!((&stream.socket).read(&mut bytes), Ok(1..)) {
                break;
            }
        }
    }
}
