//! The client: connects, requests a test, decides when it is over, and combines both ends' results.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use schema::FlowSample;
use socket2::Socket;
use traffic::Attempted;

use crate::{
    ClientOptions, Error, Observer,
    client_options::connect,
    control::{self, Control},
    data_phase::{DataBounds, DataPhase, DataPhaseEnd},
    latency::LatencyProber,
    report::{Report, Start, StreamEnd},
    report_builder::{self, LocalResults},
    reverse::{self, LISTEN},
    server_read_wait::wait_for_server_to_read,
    socket::{self, End},
    spec::{Direction, Protocol, Role, TestSpec},
    stream::Stream,
    stream_threads::StreamThreads,
    token::Seal,
    udp_stream,
    wire::{self, Cookie, Params, Results, Samples, State},
};

/// Maximum size of the server's results, bytes: they may contain the server's own report.
const RESULTS_LIMIT: usize = 64 << 20;
/// The default port of iperf 2's servers.
const IPERF2_PORT: u16 = 5001;
/// The user is notified if the server makes the client wait for longer than this.
const QUEUE_NOTE_AFTER: Duration = Duration::from_secs(1);

/// The outcome of a test.
#[derive(Debug, Default)]
pub struct TestOutcome {
    /// The report; if the test failed, the parts that it reached.
    pub report: Report,
    /// Why it failed.
    pub error: Option<Error>,
    /// Samples of the other end's sockets, if it is longfat: times since the data began there.
    pub peer_samples: Vec<FlowSample>,
    /// The other end's host, if requested and that end is longfat: the result of its
    /// [`super::ServerObserver::host`].
    pub peer_host: Option<serde_json::Value>,
    /// The fraction of the time in which this end's busiest stream ran or waited for a processor, 0 to 1.
    pub busy: Option<f64>,
    /// The fraction of the time in which the other end's busiest stream ran or waited for a processor, 0
    /// to 1.
    pub peer_busy: Option<f64>,
}

/// Runs a test with a server, on this thread and one more for each stream. Ends early when `stop` is set.
pub fn test(options: &ClientOptions, stop: &AtomicBool, observer: &mut dyn Observer) -> TestOutcome {
    let mut tested = TestOutcome::default();
    if let Err(error) = run_test(options, stop, observer, &mut tested) {
        tested.report.error = Some(error.to_string());
        tested.error = Some(error);
    }
    tested
}

fn run_test(
    options: &ClientOptions,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    tested: &mut TestOutcome,
) -> Result<(), Error> {
    let phase = options.phase_timeout;
    let own = os::thread_usage();
    if options.host == LISTEN && reverse::listener(options.port)?.server(QUEUE_NOTE_AFTER, stop).is_err() {
        observer.note(&format!(
            "waiting until the server connects to port {} of this machine (longfat serve --reverse-connect)",
            options.port
        ));
    }
    let stream = connect(options, stop)?;
    let mut control = Control::new(stream, stop)?;
    let cookie = control::new_cookie()?;
    control.send_cookie(&cookie, phase)?;
    if !control.wait(QUEUE_NOTE_AFTER)? {
        observer.note(match options.port {
            IPERF2_PORT => {
                "no reply yet; this is the port of iperf 2, for whose servers the test needs --iperf2"
            }
            _ => {
                "the server is busy with other tests (waiting in its queue), or it is an iperf 2 server (--iperf2)"
            }
        });
    }
    let requested = control.expect(State::ParamExchange, options.queue_timeout);
    requested.map_err(|error| match (error, options.port) {
        (Error::Denied | Error::UnexpectedState { .. } | Error::Closed { .. }, IPERF2_PORT) => Error::Iperf2(
            "the server does not speak iperf3; this is the port of iperf 2, for whose servers the test needs --iperf2"
                .into(),
        ),
        (error, _) => error,
    })?;
    if let Some(token) = &options.token {
        control.seal(Seal::new(token.clone(), cookie, Role::Client));
    }
    let mut spec = options.spec.clone();
    if options.fit_block {
        spec.block = wire::default_block(spec.protocol, control.mss());
    }
    let spec = Arc::new(spec);
    control.send_json(&params(options, &spec, observer)?, phase)?;
    let turn = options.queue_timeout;
    let created =
        control.expect_in_turn(State::CreateStreams, phase, turn, |notice| observer.note(&notice.text()));
    created.map_err(|error| match error {
        Error::Closed { .. } => Error::ClosedAfterParams {
            authenticated: options.credentials.is_some() || options.token.is_some(),
        },
        other => other,
    })?;
    // Before the streams, while the path is idle.
    let can_probe = options.latency && options.host != LISTEN;
    let prober = if can_probe { start_prober(options, &control, cookie, observer)? } else { None };
    let streams = connect_streams(options, &spec, &control, &cookie, observer, stop)?;
    let mut running = StreamThreads::prepare(streams, &spec, &options.pin, observer.sample_interval())?;
    control.expect_in_turn(State::TestStart, phase, turn, |notice| observer.note(&notice.text()))?;
    control.expect(State::TestRunning, phase)?;

    let start = start(options, &control, &cookie, &spec, &running)?;
    observer.start(&start);
    tested.report.start = Some(start);
    let bounds = DataBounds { decides_end: true, idle: options.idle_timeout, ..DataBounds::default() };
    let mut data_phase = DataPhase::new(&mut running, Some(&control), &spec, bounds, observer, stop);
    let ended = data_phase.run();
    let (end, snapshots) = (data_phase.now(), data_phase.running.snapshots());
    let DataPhase { counter, intervals, begin, .. } = data_phase;
    running.end_sending();
    prober.iter().for_each(LatencyProber::stop);
    tested.report.intervals = intervals;
    // A server that receives datagrams sends nothing during the data phase: only now can this end detect
    // that the server has stopped.
    let phase = options.idle_timeout.map_or(phase, |idle| idle.min(phase));
    let sends_file = spec.file.is_some() && spec.direction == Direction::Forward;
    let mut waited = Duration::ZERO;
    match ended {
        Ok(DataPhaseEnd::Done) => {
            if sends_file {
                waited = wait_for_server_to_read(&running, &control, end, stop)?;
            }
            control.send_state(State::TestEnd, phase)?;
        }
        Ok(DataPhaseEnd::Message) => {
            let received = control.read_state(State::ExchangeResults.name(), phase)?;
            return Err(Error::UnexpectedState { received, expected: "the end of the data" });
        }
        Err(error) => {
            // Sending may fail for the same reason.
            let _ = control.send_state(State::ClientTerminate, phase);
            return Err(error);
        }
    }
    // Receivers continue to read until then, so that the server can read the end of the test.
    control.expect(State::ExchangeResults, phase)?;
    running.end();
    let local = LocalResults::of(Role::Client, &running, counter, own, end, snapshots);
    control.send_json(&report_builder::results(&local, running.streams()), phase)?;
    let mut remote: Results = control.read_json("server's results", RESULTS_LIMIT, phase)?;
    control.expect(State::DisplayResults, phase)?;
    // The server replies to probes until it receives IPERF_DONE.
    tested.report.latency = prober.map(|prober| prober.end(begin));
    control.send_state(State::IperfDone, phase)?;
    (tested.busy, tested.peer_busy) = (local.busy, remote.longfat_busy);
    tested.peer_host = remote.longfat_host.take();
    tested.peer_samples = remote.longfat_samples.take().map(Samples::rows).unwrap_or_default();
    for stream in &mut remote.streams {
        stream.end_time = stream.end_time.map(|end_s| without_wait(end_s, end, waited));
    }
    let end = report_builder::end(Role::Client, &spec, &local, running.streams(), remote)?;
    let count = |of: fn(&StreamEnd) -> u64| end.streams.iter().map(of).sum();
    let (sent, received): (u64, u64) = (count(|s| s.sent.bytes), count(|s| s.received.bytes));
    tested.report.end = Some(end);
    match sends_file && received < sent {
        true => Err(Error::FileIncomplete { sent, received }),
        false => Ok(()),
    }
}

/// When the data ended by the server's clock, without this end's wait before TEST_END; a longfat server does
/// not count that wait.
fn without_wait(end_s: f64, own_end: Duration, waited: Duration) -> f64 {
    let (own_s, waited_s) = (own_end.as_secs_f64(), waited.as_secs_f64());
    if end_s > own_s + waited_s / 2.0 { (end_s - waited_s).max(own_s) } else { end_s }
}

/// Starts the latency probes. If there is no reply, notifies the user and returns `None`.
fn start_prober(
    options: &ClientOptions,
    control: &Control<'_>,
    cookie: Cookie,
    observer: &mut dyn Observer,
) -> Result<Option<LatencyProber>, Error> {
    let from = options.bind.map(|ip| SocketAddr::new(ip, 0));
    let prober = LatencyProber::begin(control.peer()?, from, options.device.as_deref(), cookie)?;
    if prober.is_none() {
        observer.note(
            "no reply to latency probes: the server is not longfat, or UDP packets do not reach its port",
        );
    }
    Ok(prober)
}

fn params(options: &ClientOptions, spec: &TestSpec, observer: &dyn Observer) -> Result<Params, Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let token =
        options.credentials.as_ref().map(|credentials| credentials.token(now.as_secs())).transpose()?;
    Ok(Params {
        authtoken: token,
        longfat_time_s: if options.token.is_some() { now.as_secs() } else { 0 },
        client_version: Some(report_builder::version()),
        longfat_host: u64::from(options.request_host_info),
        longfat_queue: 1,
        longfat_session: options.session.map(|cookie| cookie.as_str().into()),
        longfat_sample_us: observer.sample_interval().map_or(0, |every| every.as_micros() as u64),
        ..Params::of(spec)
    })
}

/// Connects the streams one after another, in the order of their numbers: streams on which this end sends
/// come first.
fn connect_streams(
    options: &ClientOptions,
    spec: &TestSpec,
    control: &Control<'_>,
    cookie: &Cookie,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Vec<Stream>, Error> {
    let to = control.peer()?;
    let stream_count = report_builder::stream_count(spec);
    let congestion = options.congestion.as_deref().or(spec.congestion.as_deref());
    let mut streams = Vec::new();
    for number in 0..stream_count {
        let port = options.client_port.map_or(0, |port| port.wrapping_add(number as u16));
        let any = || if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let from = (options.bind.is_some() || port > 0)
            .then(|| SocketAddr::new(options.bind.unwrap_or_else(any), port));
        let sends = report_builder::sends(spec, Role::Client, number);
        let set_up = |socket: &Socket, end| socket::set_up(socket, to.ip(), spec, sends, congestion, end);
        let (socket, notes) = if options.host == LISTEN {
            let is_udp = spec.protocol == Protocol::Udp;
            let socket = reverse::listener(options.port)?.open(is_udp, options.connect_timeout, stop)?;
            let notes = set_up(&socket, End::Server)?;
            (socket, notes)
        } else {
            let socket = control::new_socket(to, from, options.device.as_deref(), spec.protocol)?;
            let notes = set_up(&socket, End::Client)?;
            let to = socket::labelled(&socket, to, spec.flow_label)?;
            socket
                .connect_timeout(&to.into(), options.connect_timeout)
                .attempted(|| format!("connect stream {} to {to}", number + 1))?;
            (socket, notes)
        };
        if number == 0 {
            notes.iter().for_each(|note| observer.note(note));
        }
        if let Some(timeout) = options.send_timeout {
            socket::set_send_timeout(&socket, timeout, spec.protocol)?;
        }
        socket.set_nonblocking(false).attempted(|| "set up a stream".into())?;
        match spec.protocol {
            // Cannot block: the buffer of a new socket holds 37 bytes.
            Protocol::Tcp => {
                socket
                    .send(cookie.as_bytes())
                    .attempted(|| "send the cookie on a stream".into())
                    .map(drop)?;
            }
            // The server's next message shows that it has all streams, so that a lost reply to the last hello
            // does not matter.
            Protocol::Udp => udp_stream::greet_unless(&socket, options.phase_timeout, || {
                if stop.load(Ordering::Acquire) {
                    return Err(Error::Interrupted);
                }
                Ok(number + 1 == stream_count && control.wait(Duration::ZERO)?)
            })?,
        }
        streams.push(Stream::new(number, sends, socket, spec));
    }
    Ok(streams)
}

fn start(
    options: &ClientOptions,
    control: &Control<'_>,
    cookie: &Cookie,
    spec: &TestSpec,
    running: &StreamThreads,
) -> Result<Start, Error> {
    let peer = control.peer()?;
    Ok(Start {
        peer_name: options.host.clone(),
        ..report_builder::start(Role::Client, peer, options.port, cookie, control.mss(), spec, running)?
    })
}
