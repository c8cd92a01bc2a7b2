//! One client's test at the server, step by step, each with its deadline.

use std::{
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use socket2::Socket;

use super::{
    ServerObserver, ServerOptions,
    admission::Admitted,
    sampling::Sampling,
    turn::{Stage, Turn},
};
use crate::{
    error::Attempted,
    iperf3::{
        Error, Observer,
        account::{self, Local},
        control::Control,
        drive::{Bounds, Drive, Ended, closed_by_peer},
        running::Running,
        socket::{self, End},
        stream::Stream,
        udp_stream,
        wire::{Code, Cookie, QueueNotice, Results, State},
    },
    probe,
    report::{Amount, Direction, Protocol, Report, Role, ServerOutput, Start, TestSpec},
    sys,
};

/// A client's results are not longer than this: 256 streams make about 64 KiB.
const RESULTS_LIMIT: usize = 1 << 20;
/// While streams are waited for, the control connection is looked at this often.
const NAP: Duration = Duration::from_millis(20);
/// A client whose streams are there is sent that it waits after this time.
const ANNOUNCED_AFTER: Duration = Duration::from_millis(200);
/// While the last data of a test arrives, its amount is checked this often.
const DRAIN_INTERVAL: Duration = Duration::from_millis(1);
/// A probe's datagrams must come within this time where others wait.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// No test lasts longer, whatever its amount (iperf3's MAX_TIME and MAX_OMIT_TIME).
const LONGEST: Duration = Duration::from_secs(86_400 + 600);

/// A stream's connection.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Its place in the order of all connections.
    pub(super) number: u64,
    pub(super) socket: Socket,
}

/// Who is served.
pub(super) struct Client {
    pub(super) control: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) cookie: Cookie,
    pub(super) arrivals: Receiver<Arrival>,
    /// Set while UDP streams are waited for.
    pub(super) wants_datagrams: Arc<AtomicBool>,
    pub(super) turn: Arc<Turn>,
    /// The test that it asks for.
    pub(super) admitted: Admitted,
}

/// Does the test; true where its data began.
pub(super) fn serve(
    client: Client,
    port: u16,
    options: &ServerOptions,
    stop: &AtomicBool,
    observer: &dyn ServerObserver,
) -> bool {
    let peer = SocketAddr::new(client.peer.ip().to_canonical(), client.peer.port());
    let mut report = Report::default();
    let result = conduct(client, port, options, stop, observer, &mut report);
    if let Err(error) = &result {
        report.error = Some(error.to_string());
    }
    observer.end(peer, &report, result.as_ref().err());
    report.start.is_some()
}

/// Serves a client that probes the path.
pub(super) fn serve_probe(
    control: TcpStream,
    peer: SocketAddr,
    arrivals: &Receiver<Arrival>,
    others_wait: bool,
    options: &ServerOptions,
    stop: &AtomicBool,
    observer: &dyn ServerObserver,
) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    if options.authority.is_some() || options.gate.is_some() {
        // Its connection is closed: a probe says no name and no password.
        return observer.note(&format!("{peer} may not probe: only those who are known may test here"));
    }
    observer.note(&format!("{peer} probes the path"));
    let datagrams = |wait| arrivals.recv_timeout(wait).ok().map(|arrival| arrival.socket);
    let timeout = if others_wait { PROBE_TIMEOUT.min(options.phase_timeout) } else { options.phase_timeout };
    if let Err(error) = probe::server::serve(control, datagrams, timeout, stop) {
        observer.note(&format!("{peer}: {error}"));
    }
}

fn conduct(
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
        own: sys::thread_time(),
        observers,
        wants_datagrams: &client.wants_datagrams,
        turn: &client.turn,
    };
    let result = session.run(&mut control, client.admitted, client.arrivals, report);
    session.turn.set(Stage::Over);
    if let Err(error) = &result {
        // Who is gone, or has told us that it ends, need not hear why.
        match error {
            Error::Closed { .. } | Error::ClientTerminated => {}
            Error::Interrupted => drop(control.send_state(State::ServerTerminate, phase.min(NAP))),
            other => drop(control.send_error(other.code(), other.errno(), phase)),
        }
    }
    result
}

/// A TCP test in which the client sends a certain amount: all of it is received, also what is on its way when the client says
/// that the test is over. iperf3's server drops that.
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
    /// Processor time of this thread before.
    own: (Duration, Duration),
    observers: &'a dyn ServerObserver,
    wants_datagrams: &'a AtomicBool,
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
        let mut observer = Sampling::new(self.observers.begin(self.peer), &params);

        self.wants_datagrams.store(spec.protocol == Protocol::Udp, Ordering::Release);
        control.send_state(State::CreateStreams, phase)?;
        let streams = self.accept_streams(control, &arrivals, &spec, &mut observer)?;
        self.wants_datagrams.store(false, Ordering::Release);
        // Whoever comes now with this cookie is turned away.
        drop(arrivals);
        let pin = self.pin(&spec, &mut observer);
        let mut running = Running::prepare(streams, &spec, &pin, observer.sample_interval())?;
        let start = self.start(control, &spec, &running)?;
        self.wait_for_turn(control, params.longfat_queue > 0)?;
        control.send_state(State::TestStart, phase)?;
        control.send_state(State::TestRunning, phase)?;
        observer.start(&start);
        report.start = Some(start);

        let mut drive =
            Drive::new(&mut running, control, &spec, self.bounds(&spec), &mut observer, self.stop);
        let ended = drive.run();
        let mut end = drive.now();
        let Drive { tally, intervals, .. } = drive;
        report.intervals = intervals;
        let mut looks = running.look();
        let drains = ended.is_ok() && has_known_end(&spec);
        if !drains {
            running.end();
        }
        self.turn.announce(Stage::Over);
        if ended? == Ended::Message {
            let got = control.read_state(State::TestEnd.name(), phase)?;
            if got != State::TestEnd.code() {
                return Err(Error::UnexpectedState { got, expected: State::TestEnd.name() });
            }
        }
        control.send_state(State::ExchangeResults, phase)?;
        let remote: Results = control.read_json("client's results", RESULTS_LIMIT, phase)?;
        if drains {
            self.drain(&running, &remote);
            // The client may have waited before it ended the test: the last byte's arrival counts.
            let last = running.streams().iter().map(Stream::received_at).max();
            end = last.filter(|last| !last.is_zero()).unwrap_or(end);
            looks = running.look();
            running.end();
            if let Some(error) = running.shared.take_failure().filter(|error| !closed_by_peer(error)) {
                return Err(error.into());
            }
        }
        let local = Local::of(Role::Server, &running, tally, self.own, end, looks);
        report.end = Some(account::end(Role::Server, &spec, &local, running.streams(), remote)?);
        let mut results = account::results(&local, running.streams());
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
            // It has all it wanted.
            Err(Error::Closed { .. }) => Ok(()),
            other => other,
        }
    }

    /// The streams are there: waits until other tests have ended. A client that understands it (`announces`) is sent that it waits.
    fn wait_for_turn(&self, control: &mut Control<'_>, announces: bool) -> Result<(), Error> {
        let begin = Instant::now();
        self.turn.announce(Stage::Ready);
        let mut is_announced = !announces;
        loop {
            match self.turn.wait_while_ready(NAP) {
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
            if !is_announced && waited >= ANNOUNCED_AFTER {
                is_announced = true;
                control.send_queue_notice(QueueNotice::default(), self.options.phase_timeout)?;
            }
        }
    }

    /// Waits for all streams. Their order is that of their connecting, whichever cookie was complete first.
    fn accept_streams(
        &self,
        control: &Control<'_>,
        arrivals: &Receiver<Arrival>,
        spec: &TestSpec,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Stream>, Error> {
        let (begin, phase) = (Instant::now(), self.options.phase_timeout);
        let wanted = account::stream_count(spec) as usize;
        let mut all: Vec<Arrival> = Vec::new();
        while all.len() < wanted {
            match arrivals.recv_timeout(NAP) {
                Ok(arrival) => all.push(arrival),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) => {
                    if self.stop.load(Ordering::Acquire) {
                        return Err(Error::Interrupted);
                    }
                    if self.turn.stage() == Stage::Revoked {
                        return Err(Error::Timeout { what: "stream", after: begin.elapsed() });
                    }
                    if let Some(arrival) = all.last().filter(|_| spec.protocol == Protocol::Udp) {
                        udp_stream::answer_again(&arrival.socket)
                            .attempted(|| "cannot answer a UDP stream".into())?;
                    }
                    if control.wait(Duration::ZERO)? {
                        // It should have nothing to say now: it is gone, or ends.
                        return Err(Error::Closed { expected: "streams" });
                    }
                    if begin.elapsed() >= phase {
                        return Err(Error::Timeout { what: "stream", after: phase });
                    }
                }
            }
        }
        all.sort_by_key(|arrival| arrival.number);
        let mut streams = Vec::new();
        for (number, arrival) in (0u32..).zip(all) {
            let congestion = spec.congestion.as_deref();
            let notes = socket::set_up(&arrival.socket, self.peer.ip(), spec, congestion, End::Server)?;
            if number == 0 {
                notes.iter().for_each(|note| observer.note(note));
            }
            if let Some(timeout) = self.options.send_timeout {
                socket::set_send_timeout(&arrival.socket, timeout, spec.protocol)?;
            }
            arrival.socket.set_nonblocking(false).attempted(|| "cannot set up a stream".into())?;
            streams.push(Stream::new(
                number,
                account::sends(spec, Role::Server, number),
                arrival.socket,
                spec,
            ));
        }
        Ok(streams)
    }

    /// The processors that the streams are pinned to: the one that the client asks for, if there is such a one.
    fn pin(&self, spec: &TestSpec, observer: &mut dyn Observer) -> Vec<usize> {
        let Some(asked) = spec.server_affinity.map(|cpu| cpu as usize) else {
            return self.options.pin.clone();
        };
        if sys::may_run_on(asked) {
            return vec![asked];
        }
        observer
            .note(&format!("the client asks for processor {asked}, which there is none of for this server"));
        self.options.pin.clone()
    }

    fn start(&self, control: &Control<'_>, spec: &TestSpec, running: &Running) -> Result<Start, Error> {
        account::start(Role::Server, self.peer, self.port, &self.cookie, control.mss(), spec, running)
    }

    /// Receives what the client counts as sent and is still on its way, until all of it has arrived, the client's streams end, or
    /// nothing more arrives in the time of a phase.
    fn drain(&self, running: &Running, remote: &Results) {
        let sent = |id: u32| remote.stream(id).map_or(0, |stream| stream.bytes);
        let mut last = (running.bytes(), Instant::now());
        while !running.has_received(sent)
            && last.1.elapsed() < self.options.phase_timeout
            && !self.stop.load(Ordering::Acquire)
        {
            std::thread::sleep(DRAIN_INTERVAL);
            let bytes = running.bytes();
            if bytes != last.0 {
                last = (bytes, Instant::now());
            }
        }
    }

    fn bounds(&self, spec: &TestSpec) -> Bounds {
        let options = self.options;
        // The client ends a test; one that does not is ended some time later.
        let asked = match spec.amount {
            Amount::Time(time) => time + spec.omit + options.phase_timeout,
            Amount::Bytes(_) | Amount::Blocks(_) => LONGEST,
        };
        let allowed = options.max_duration.map_or(LONGEST, |longest| longest + options.phase_timeout);
        let code = if asked <= allowed { Code::RECEIVE_MESSAGE } else { Code::EXPIRED };
        Bounds {
            conducts: false,
            idle: Some(options.data_timeout),
            longest: Some((asked.min(allowed), code)),
            rate: options.rate_limit.map(|(limit, over)| (limit.as_f64(), over)),
        }
    }
}
