//! The client: it connects, asks for a test, decides when it is over, and puts both ends' results together.

use std::{
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use schema::FlowSample;

use crate::{
    error::Attempted,
    iperf3::{
        Credentials, Error, Observer,
        account::{self, Local},
        control::{self, Control},
        drive::{Bounds, Drive, Ended},
        latency::Probing,
        running::Running,
        settle::settle,
        socket::{self, End},
        stream::Stream,
        token::{Seal, Token},
        udp_stream,
        wire::{self, Cookie, Params, Results, Samples, State},
    },
    report::{Direction, Protocol, Report, Role, Start, StreamEnd, TestSpec},
    sys,
};

/// Results are read up to this many bytes: a server's own report may be in them.
const RESULTS_LIMIT: usize = 64 << 20;
/// Who waits for longer than this for a server's turn is told why.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whom to test with, and how.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// A name or an address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// IPv4 or IPv6 alone.
    pub ip: Option<IpVersion>,
    /// The address to come from.
    pub bind: Option<IpAddr>,
    /// The device to come from.
    pub device: Option<String>,
    /// The port to come from; further streams take the next ones.
    pub client_port: Option<u16>,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the server may let us wait for our turn.
    pub queue_timeout: Duration,
    /// How long each step of the control connection may take.
    pub phase_timeout: Duration,
    /// The test fails when no data has moved for so long.
    pub idle_timeout: Option<Duration>,
    /// The round-trip time of small datagrams beside a TCP test's data is wanted, where the server is a longfat.
    pub latency: bool,
    /// For servers that want to know who tests.
    pub credentials: Option<Credentials>,
    /// For a longfat that serves only those who know it.
    pub token: Option<Token>,
    /// The kernel's name of the congestion control here, where it is another than `spec.congestion`.
    pub congestion: Option<String>,
    /// The size of blocks is what fits the path, not that of `spec`.
    pub fit_block: bool,
    /// Data that the server has not acknowledged for so long ends the test (TCP_USER_TIMEOUT); `None`: as the system has it.
    pub send_timeout: Option<Duration>,
    /// Processors that stream threads are pinned to, in turn; none: wherever the kernel likes.
    pub pin: Vec<usize>,
    /// The other end is asked about its host, see [`Tested::peer_host`].
    pub ask_host: bool,
    /// The test.
    pub spec: TestSpec,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// 32-bit addresses.
    V4,
    /// 128-bit addresses.
    V6,
}

/// What came of a test.
#[derive(Debug, Default)]
pub struct Tested {
    /// All that is known; of a test that failed the parts that it came to.
    pub report: Report,
    /// Why it failed.
    pub error: Option<Error>,
    /// Samples of the other end's sockets, where it is longfat too: times since the data began there.
    pub peer_samples: Vec<FlowSample>,
    /// The other end's host, where it was asked for and that end is longfat too: what its [`super::ServerObserver::host`] told.
    pub peer_host: Option<serde_json::Value>,
    /// How much of the time this end's busiest stream ran or waited for a processor, 0 to 1.
    pub busy: Option<f64>,
    /// The same of the other end.
    pub peer_busy: Option<f64>,
}

/// Tests with a server, on this thread and one more for each stream.
pub fn test(options: &ClientOptions, stop: &AtomicBool, observer: &mut dyn Observer) -> Tested {
    let mut tested = Tested::default();
    if let Err(error) = conduct(options, stop, observer, &mut tested) {
        tested.report.error = Some(error.to_string());
        tested.error = Some(error);
    }
    tested
}

fn conduct(
    options: &ClientOptions,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    tested: &mut Tested,
) -> Result<(), Error> {
    let phase = options.phase_timeout;
    let own = sys::thread_time();
    let stream = connect(options)?;
    let mut control = Control::new(stream, stop)?;
    let cookie = control::new_cookie()?;
    control.send_cookie(&cookie, phase)?;
    if !control.wait(PATIENCE)? {
        observer.note("the server has other tests to do first; waiting for our turn");
    }
    control.expect(State::ParamExchange, options.queue_timeout)?;
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
        Error::Closed { .. } => {
            Error::Unwanted { authenticated: options.credentials.is_some() || options.token.is_some() }
        }
        other => other,
    })?;
    // Before the streams, so that the way is idle.
    let probing = if options.latency { begin_probing(options, &control, cookie, observer)? } else { None };
    let streams = connect_streams(options, &spec, control.peer()?, &cookie, observer)?;
    let mut running = Running::prepare(streams, &spec, &options.pin, observer.sample_interval())?;
    control.expect_in_turn(State::TestStart, phase, turn, |notice| observer.note(&notice.text()))?;
    control.expect(State::TestRunning, phase)?;

    let start = start(options, &control, &cookie, &spec, &running)?;
    observer.start(&start);
    tested.report.start = Some(start);
    let bounds = Bounds { conducts: true, idle: options.idle_timeout, ..Bounds::default() };
    let mut drive = Drive::new(&mut running, &control, &spec, bounds, observer, stop);
    let ended = drive.run();
    let (end, looks) = (drive.now(), drive.running.look());
    let Drive { tally, intervals, begin, .. } = drive;
    running.end_sending();
    probing.iter().for_each(Probing::stop);
    tested.report.intervals = intervals;
    // A server that receives datagrams sends nothing meanwhile: one that has stopped is noticed only now.
    let phase = options.idle_timeout.map_or(phase, |idle| idle.min(phase));
    let sends_file = spec.file.is_some() && spec.direction == Direction::Forward;
    let mut settled = Duration::ZERO;
    match ended {
        Ok(Ended::Done) => {
            if sends_file {
                settled = settle(&running, &control, end, stop)?;
            }
            control.send_state(State::TestEnd, phase)?;
        }
        Ok(Ended::Message) => {
            let got = control.read_state(State::ExchangeResults.name(), phase)?;
            return Err(Error::UnexpectedState { got, expected: "the end of the data" });
        }
        Err(error) => {
            // It may be the reason why this fails as well.
            let _ = control.send_state(State::ClientTerminate, phase);
            return Err(error);
        }
    }
    // Until then receivers read on, so that the server gets to see that it is over.
    control.expect(State::ExchangeResults, phase)?;
    running.end();
    let local = Local::of(Role::Client, &running, tally, own, end, looks);
    control.send_json(&account::results(&local, running.streams()), phase)?;
    let mut remote: Results = control.read_json("server's results", RESULTS_LIMIT, phase)?;
    control.expect(State::DisplayResults, phase)?;
    // The server answers until it is told that all is done.
    tested.report.latency = probing.map(|probing| probing.end(begin));
    control.send_state(State::IperfDone, phase)?;
    (tested.busy, tested.peer_busy) = (local.busy, remote.longfat_busy);
    tested.peer_host = remote.longfat_host.take();
    tested.peer_samples = remote.longfat_samples.take().map(Samples::rows).unwrap_or_default();
    for told in &mut remote.streams {
        told.end_time = told.end_time.map(|told| without_wait(told, end, settled));
    }
    let end = account::end(Role::Client, &spec, &local, running.streams(), remote)?;
    let count = |of: fn(&StreamEnd) -> u64| end.streams.iter().map(of).sum();
    let (sent, received): (u64, u64) = (count(|s| s.sent.bytes), count(|s| s.received.bytes));
    tested.report.end = Some(end);
    match sends_file && received < sent {
        true => Err(Error::FileIncomplete { sent, received }),
        false => Ok(()),
    }
}

/// When the data ended by the server's clock, without the time in which we waited before we ended the test; a longfat server does
/// not count that.
fn without_wait(told_s: f64, own_end: Duration, settled: Duration) -> f64 {
    let (own_s, settled_s) = (own_end.as_secs_f64(), settled.as_secs_f64());
    if told_s > own_s + settled_s / 2.0 { (told_s - settled_s).max(own_s) } else { told_s }
}

/// Connects to the first of the host's addresses that answers.
fn connect(options: &ClientOptions) -> Result<TcpStream, Error> {
    let no_address = |reason: String| Error::NoAddress { host: options.host.clone(), reason };
    let found =
        (options.host.as_str(), options.port).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let of_version = |address: &SocketAddr| match options.ip {
        Some(IpVersion::V4) => address.is_ipv4(),
        Some(IpVersion::V6) => address.is_ipv6(),
        None => options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4()),
    };
    let mut failed = None;
    for to in found.filter(of_version) {
        let from = options.bind.map(|ip| SocketAddr::new(ip, 0));
        match control::connect(to, from, options.device.as_deref(), options.connect_timeout) {
            Ok(socket) => return Ok(socket.into()),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| no_address("it has none of the version asked for".into())))
}

/// `None`, and the user told, where nobody answers.
fn begin_probing(
    options: &ClientOptions,
    control: &Control<'_>,
    cookie: Cookie,
    observer: &mut dyn Observer,
) -> Result<Option<Probing>, Error> {
    let from = options.bind.map(|ip| SocketAddr::new(ip, 0));
    let probing = Probing::begin(control.peer()?, from, options.device.as_deref(), cookie)?;
    if probing.is_none() {
        observer.note(
            "nobody answers latency probes: the server is no longfat, or UDP does not get through to its port",
        );
    }
    Ok(probing)
}

fn params(options: &ClientOptions, spec: &TestSpec, observer: &dyn Observer) -> Result<Params, Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let token =
        options.credentials.as_ref().map(|credentials| credentials.token(now.as_secs())).transpose()?;
    Ok(Params {
        authtoken: token,
        longfat_time_s: if options.token.is_some() { now.as_secs() } else { 0 },
        client_version: Some(account::version()),
        longfat_host: u64::from(options.ask_host),
        longfat_queue: 1,
        longfat_sample_us: observer.sample_interval().map_or(0, |every| every.as_micros() as u64),
        ..Params::of(spec)
    })
}

/// Connects the streams one after another, in the order of their numbers: those that we send on come first.
fn connect_streams(
    options: &ClientOptions,
    spec: &TestSpec,
    to: SocketAddr,
    cookie: &Cookie,
    observer: &mut dyn Observer,
) -> Result<Vec<Stream>, Error> {
    let congestion = options.congestion.as_deref().or(spec.congestion.as_deref());
    let mut streams = Vec::new();
    for number in 0..account::stream_count(spec) {
        let port = options.client_port.map_or(0, |port| port.wrapping_add(number as u16));
        let any = || if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let from = (options.bind.is_some() || port > 0)
            .then(|| SocketAddr::new(options.bind.unwrap_or_else(any), port));
        let socket = control::new_socket(to, from, options.device.as_deref(), spec.protocol)?;
        let notes = socket::set_up(&socket, to.ip(), spec, congestion, End::Client)?;
        if number == 0 {
            notes.iter().for_each(|note| observer.note(note));
        }
        if let Some(timeout) = options.send_timeout {
            socket::set_send_timeout(&socket, timeout, spec.protocol)?;
        }
        let to = socket::labelled(&socket, to, spec.flow_label)?;
        socket
            .connect_timeout(&to.into(), options.connect_timeout)
            .attempted(|| format!("cannot connect stream {} to {to}", number + 1))?;
        socket.set_nonblocking(false).attempted(|| "cannot set up a stream".into())?;
        match spec.protocol {
            // The buffer of a new socket holds 37 bytes.
            Protocol::Tcp => {
                socket
                    .send(cookie.as_bytes())
                    .attempted(|| "cannot send the cookie on a stream".into())
                    .map(drop)?;
            }
            Protocol::Udp => udp_stream::greet(&socket, options.phase_timeout)?,
        }
        streams.push(Stream::new(number, account::sends(spec, Role::Client, number), socket, spec));
    }
    Ok(streams)
}

fn start(
    options: &ClientOptions,
    control: &Control<'_>,
    cookie: &Cookie,
    spec: &TestSpec,
    running: &Running,
) -> Result<Start, Error> {
    let peer = control.peer()?;
    Ok(Start {
        peer_name: options.host.clone(),
        ..account::start(Role::Client, peer, options.port, cookie, control.mss(), spec, running)?
    })
}

impl ClientOptions {
    /// A test with `host` as iperf3 does it where nothing else is said.
    pub fn new(host: &str, spec: TestSpec) -> ClientOptions {
        ClientOptions {
            host: host.into(),
            port: 5201,
            ip: None,
            bind: None,
            device: None,
            client_port: None,
            connect_timeout: Duration::from_secs(10),
            queue_timeout: Duration::from_secs(600),
            phase_timeout: Duration::from_secs(30),
            idle_timeout: Some(Duration::from_secs(120)),
            latency: false,
            credentials: None,
            token: None,
            congestion: None,
            fit_block: false,
            send_timeout: None,
            pin: Vec::new(),
            ask_host: false,
            spec,
        }
    }
}
