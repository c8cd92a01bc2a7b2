//! One client's test at the server. Each step has a deadline.

use std::{
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use traffic::Attempted;

use super::{
    ServerObserver, ServerOptions,
    admission::Admitted,
    sampling::SamplingObserver,
    turn::{Stage, Turn},
};
use crate::{
    Error, Observer,
    arrival::Arrival,
    control::Control,
    data_phase::{DataBounds, DataPhase, DataPhaseEnd, amount_bytes, closed_by_peer},
    report::{Amount, Direction, Protocol, Report, Role, ServerOutput, Start, TestSpec},
    report_builder::{self, LocalResults},
    service::{Service, ServiceClient},
    socket::{self, End},
    stream::Stream,
    stream_threads::StreamThreads,
    udp_stream,
    wire::{Code, Cookie, QueueNotice, Results, State},
};

/// Maximum size of a client's results, bytes: those of 256 streams have about 64 KiB.
const RESULTS_LIMIT: usize = 1 << 20;
/// Interval at which the control connection and a stop are checked while the session waits.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A client whose streams are connected gets a queue notice if its turn does not come within this time.
const QUEUE_NOTICE_AFTER: Duration = Duration::from_millis(200);
/// Interval at which the received bytes are checked while the last data of a test arrives.
const DRAIN_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time of a step of another protocol's set-up while other clients wait.
pub(super) const SERVICE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum duration of any test (iperf3's MAX_TIME and MAX_OMIT_TIME).
const MAX_TEST_DURATION: Duration = Duration::from_secs(86_400 + 600);

/// A client to be served.
pub(super) struct Client {
    pub(super) control: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) cookie: Cookie,
    pub(super) arrivals: Receiver<Arrival>,
    /// Set while the session waits for UDP streams.
    pub(super) expects_datagrams: Arc<AtomicBool>,
    pub(super) turn: Arc<Turn>,
    /// The requested test.
    pub(super) admitted: Admitted,
}

/// Runs the test; true if its data began.
pub(super) fn serve(
    client: Client,
    port: u16,
    options: &ServerOptions,
    stop: &AtomicBool,
    observer: &dyn ServerObserver,
) -> bool {
    let peer = SocketAddr::new(client.peer.ip().to_canonical(), client.peer.port());
    let mut report = Report::default();
    let result = run_test(Client { peer, ..client }, port, options, stop, observer, &mut report);
    if let Err(error) = &result {
        report.error = Some(error.to_string());
    }
    observer.end(peer, &report, result.as_ref().err());
    report.start.is_some()
}

/// Serves a client of another protocol.
pub(super) fn serve_other(
    service: &dyn Service,
    client: ServiceClient<'_>,
    options: &ServerOptions,
    stop: &AtomicBool,
    observer: &dyn ServerObserver,
) {
    let peer = client.peer;
    let is_authenticated = service.checks_token() || service.authenticates_by_cookie();
    if options.authority.is_some() || (options.gate.is_some() && !is_authenticated) {
        // Its connection is closed: a service's client sends no user name, and to most services no token.
        let name = service.name();
        return observer.note(&format!("{peer}: {name} rejected: this server requires authentication"));
    }
    observer.note(&format!("{peer}: {} started", service.name()));
    if let Err(error) = service.serve(client, stop) {
        observer.note(&format!("{peer}: {error}"));
    }
}

fn run_test(
    client: Client,
    port: u16,
    options: &ServerOptions,
    stop: &AtomicBool,
    observers: &dyn ServerObserver,
    report: &mut Report,
) -> Result<(), Error> {
    let phase = options.phase_timeout;
    let mut control = Control::new(client.control, stop)?;
    let mut session = Session {
        peer: client.peer,
        cookie: client.cookie,
        port,
        options,
        stop,
        own: os::thread_usage(),
        observers,
        expects_datagrams: &client.expects_datagrams,
        turn: &client.turn,
    };
    let result = session.run(&mut control, client.admitted, client.arrivals, report);
    session.turn.set(Stage::Over);
    if let Err(error) = &result {
        // No reason is sent to a client that has disconnected or has ended the test.
        match error {
            Error::Closed { .. } | Error::ClientTerminated => {}
            Error::Interrupted => drop(control.send_state(State::ServerTerminate, phase.min(CHECK_INTERVAL))),
            other => drop(control.send_error(other.code(), other.errno(), phase)),
        }
    }
    result
}

/// Whether the client sends a known amount by TCP: then the server receives all of it, including data that is
/// still in flight when the client ends the test. iperf3's server drops that data.
fn has_known_end(spec: &TestSpec) -> bool {
    let is_amount = matches!(spec.amount, Amount::Bytes(_) | Amount::Blocks(_));
    spec.protocol == Protocol::Tcp
        && spec.direction == Direction::Forward
        && spec.omit.is_zero()
        && (is_amount || spec.file.is_some())
}

struct Session<'a> {
    peer: SocketAddr,
    cookie: Cookie,
    port: u16,
    options: &'a ServerOptions,
    stop: &'a AtomicBool,
    /// Processor time that this thread had used before the test.
    own: (Duration, Duration),
    observers: &'a dyn ServerObserver,
    expects_datagrams: &'a AtomicBool,
    turn: &'a Turn,
}

impl Session<'_> {
    fn run(
        &mut self,
        control: &mut Control<'_>,
        Admitted { params, spec, seal }: Admitted,
        arrivals: Receiver<Arrival>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let phase = self.options.phase_timeout;
        if let Some(seal) = seal {
            control.seal(seal);
        }
        let spec = Arc::new(spec);
        let mut observer = SamplingObserver::new(self.observers.begin(self.peer), &params);

        control.send_state(State::CreateStreams, phase)?;
        let streams = self.accept_streams(control, &arrivals, &spec, &mut observer)?;
        self.expects_datagrams.store(false, Ordering::Release);
        // Further connections with this cookie are rejected.
        drop(arrivals);
        let pin = self.pin(&spec, &mut observer);
        let mut running = StreamThreads::prepare(streams, &spec, &pin, observer.sample_interval())?;
        let start = self.start(control, &spec, &running)?;
        self.wait_for_turn(control, params.longfat_queue > 0)?;
        control.send_state(State::TestStart, phase)?;
        control.send_state(State::TestRunning, phase)?;
        observer.start(&start);
        report.start = Some(start);

        let mut data_phase =
            DataPhase::new(&mut running, Some(control), &spec, self.bounds(&spec), &mut observer, self.stop);
        let ended = data_phase.run();
        let mut end = data_phase.now();
        let DataPhase { counter, intervals, .. } = data_phase;
        report.intervals = intervals;
        let mut snapshots = running.snapshots();
        let drains = ended.is_ok() && has_known_end(&spec);
        if !drains {
            running.end();
        }
        if !drains {
            self.turn.announce(Stage::Over);
        }
        if ended? == DataPhaseEnd::Message {
            let received = control.read_state(State::TestEnd.name(), phase)?;
            if received != State::TestEnd.code() {
                return Err(Error::UnexpectedState { received, expected: State::TestEnd.name() });
            }
        }
        control.send_state(State::ExchangeResults, phase)?;
        if drains && self.has_data_before_results(control, &running, &spec)? {
            self.turn.announce(Stage::Over);
        }
        let remote: Results = control.read_json("client's results", RESULTS_LIMIT, phase)?;
        if drains {
            self.drain(&running, &remote, &spec, end);
            self.turn.announce(Stage::Over);
            // The client may have waited before it ended the test: the time of the last byte's arrival
            // counts.
            let last = running.streams().iter().map(Stream::received_at).max();
            end = last.filter(|last| !last.is_zero()).unwrap_or(end);
            snapshots = running.snapshots();
            running.end();
            if let Some(error) = running.shared.take_failure().filter(|error| !closed_by_peer(error)) {
                return Err(error.into());
            }
        }
        let local = LocalResults::of(Role::Server, &running, counter, self.own, end, snapshots);
        report.end = Some(report_builder::end(Role::Server, &spec, &local, running.streams(), remote)?);
        let mut results = report_builder::results(&local, running.streams());
        if params.longfat_host > 0 {
            results.longfat_host = self.observers.host();
            results.longfat_busy = local.busy;
        }
        if spec.get_server_output {
            match self.observers.output(report) {
                ServerOutput::Text(text) => results.server_output_text = Some(text),
                ServerOutput::Json(json) => results.server_output_json = Some(json),
            }
        }
        results.longfat_samples = observer.take_samples();
        control.send_json(&results, phase)?;
        control.send_state(State::DisplayResults, phase)?;
        match control.expect(State::IperfDone, phase) {
            // The client has received all data.
            Err(Error::Closed { .. }) => Ok(()),
            other => other,
        }
    }

    /// With all streams connected, waits until other tests have ended. A client that understands it
    /// (`sends_notice`) gets a queue notice.
    fn wait_for_turn(&self, control: &mut Control<'_>, sends_notice: bool) -> Result<(), Error> {
        let begin = Instant::now();
        self.turn.announce(Stage::Ready);
        let mut is_notified = !sends_notice;
        loop {
            match self.turn.wait_while_ready(CHECK_INTERVAL) {
                Stage::Ready => {}
                Stage::Revoked => return Err(Error::Interrupted),
                _ => return Ok(()),
            }
            let waited = begin.elapsed();
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if control.wait(Duration::ZERO)? {
                return Err(Error::Closed { expected: "the end of other tests" });
            }
            if waited >= self.options.queue_timeout {
                return Err(Error::Timeout { what: "turn", after: waited });
            }
            if !is_notified && waited >= QUEUE_NOTICE_AFTER {
                is_notified = true;
                control.send_queue_notice(QueueNotice::default(), self.options.phase_timeout)?;
            }
        }
    }

    /// Waits for all streams. Their order is that of their connections, whichever cookie was complete first.
    fn accept_streams(
        &self,
        control: &Control<'_>,
        arrivals: &Receiver<Arrival>,
        spec: &TestSpec,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Stream>, Error> {
        // Each connection is a step: a client may take a round trip for each.
        let (mut last, phase) = (Instant::now(), self.options.phase_timeout);
        let stream_count = report_builder::stream_count(spec) as usize;
        let mut all: Vec<Arrival> = Vec::new();
        while all.len() < stream_count {
            match arrivals.recv_timeout(CHECK_INTERVAL) {
                Ok(arrival) => {
                    all.push(arrival);
                    last = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) => {
                    if self.stop.load(Ordering::Acquire) {
                        return Err(Error::Interrupted);
                    }
                    if self.turn.stage() == Stage::Revoked {
                        return Err(Error::Timeout { what: "stream", after: last.elapsed() });
                    }
                    if let Some(arrival) = all.last().filter(|_| spec.protocol == Protocol::Udp) {
                        udp_stream::repeat_reply(&arrival.socket)
                            .attempted(|| "reply to a UDP stream".into())?;
                    }
                    if control.wait(Duration::ZERO)? {
                        // The client should send nothing now, so it has disconnected or ends the test.
                        return Err(Error::Closed { expected: "streams" });
                    }
                    if last.elapsed() >= phase {
                        return Err(Error::Timeout { what: "stream", after: phase });
                    }
                }
            }
        }
        all.sort_by_key(|arrival| arrival.number);
        let mut streams = Vec::new();
        for (number, arrival) in (0u32..).zip(all) {
            let congestion = spec.congestion.as_deref();
            let (peer, sends) = (self.peer.ip(), report_builder::sends(spec, Role::Server, number));
            let notes = socket::set_up(&arrival.socket, peer, spec, sends, congestion, End::Server)?;
            if number == 0 {
                notes.iter().for_each(|note| observer.note(note));
            }
            if let Some(timeout) = self.options.send_timeout {
                socket::set_send_timeout(&arrival.socket, timeout, spec.protocol)?;
            }
            arrival.socket.set_nonblocking(false).attempted(|| "set up a stream".into())?;
            streams.push(Stream::new(number, sends, arrival.socket, spec));
        }
        Ok(streams)
    }

    /// The processors to which the streams are pinned: the one that the client requests, if it exists.
    fn pin(&self, spec: &TestSpec, observer: &mut dyn Observer) -> Vec<usize> {
        let Some(requested) = spec.server_affinity.map(|cpu| cpu as usize) else {
            return self.options.pin.clone();
        };
        if os::allowed_cpus().is_ok_and(|cpus| cpus.contains(&requested)) {
            return vec![requested];
        }
        observer.note(&format!("the client requests processor {requested}, which this server cannot use"));
        self.options.pin.clone()
    }

    fn start(&self, control: &Control<'_>, spec: &TestSpec, running: &StreamThreads) -> Result<Start, Error> {
        report_builder::start(Role::Server, self.peer, self.port, &self.cookie, control.mss(), spec, running)
    }

    /// Waits for the requested amount of data or the client's results, whichever comes first; true for the
    /// data. While much of it is in flight, the next test would share the path with it.
    fn has_data_before_results(
        &self,
        control: &Control<'_>,
        running: &StreamThreads,
        spec: &TestSpec,
    ) -> Result<bool, Error> {
        let requested = amount_bytes(spec).map_or(u64::MAX, |bytes| bytes.0);
        let begin = Instant::now();
        while running.bytes() < requested {
            if control.wait(DRAIN_INTERVAL)?
                || begin.elapsed() >= self.options.phase_timeout
                || self.stop.load(Ordering::Acquire)
            {
                return Ok(running.bytes() >= requested);
            }
        }
        Ok(true)
    }

    /// Receives data that the client has sent and that is still in flight, until all of it has arrived, the
    /// client's streams end, or nothing arrives for the phase timeout. The client reports how much it has
    /// sent: more than it requested is not awaited, and the limits of the data phase, which took `data_time`,
    /// apply.
    fn drain(&self, running: &StreamThreads, remote: &Results, spec: &TestSpec, data_time: Duration) {
        let requested = amount_bytes(spec).map_or(u64::MAX, |bytes| bytes.0.saturating_add(spec.block.0));
        let sent = |id: u32| remote.stream(id).map_or(0, |stream| stream.bytes).min(requested);
        let bounds = self.bounds(spec);
        let (begin, first) = (Instant::now(), running.bytes());
        let is_within_bounds = |bytes: u64| {
            let elapsed = begin.elapsed();
            let exceeds_rate = |(limit, over): (f64, Duration)| {
                elapsed >= over && (bytes - first) as f64 * 8.0 > limit * elapsed.as_secs_f64()
            };
            !bounds.rate.is_some_and(exceeds_rate)
                && bounds.max_duration.is_none_or(|(max, _)| data_time + elapsed < max)
        };
        let mut last = (first, begin);
        while !running.has_received(sent)
            && last.1.elapsed() < self.options.phase_timeout
            && is_within_bounds(last.0)
            && !self.stop.load(Ordering::Acquire)
        {
            std::thread::sleep(DRAIN_INTERVAL);
            let bytes = running.bytes();
            if bytes != last.0 {
                last = (bytes, Instant::now());
            }
        }
    }

    fn bounds(&self, spec: &TestSpec) -> DataBounds {
        let options = self.options;
        // The client ends a test; if it does not, the server ends it some time later.
        let requested = match spec.amount {
            Amount::Time(time) => time + spec.omit + options.phase_timeout,
            Amount::Bytes(_) | Amount::Blocks(_) => MAX_TEST_DURATION,
        };
        let allowed = options.max_duration.map_or(MAX_TEST_DURATION, |limit| limit + options.phase_timeout);
        let code = if requested <= allowed { Code::RECEIVE_MESSAGE } else { Code::EXPIRED };
        DataBounds {
            ends_with_streams: false,
            decides_end: false,
            idle: Some(options.data_timeout),
            max_duration: Some((requested.min(allowed), code)),
            rate: options.rate_limit.map(|(limit, over)| (limit.as_f64(), over)),
        }
    }
}
