//! `longfat serve`: a server for `longfat test` and any iperf3 client.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use hosts::HostService;
use iperf3::{
    Authority, Observer, Padding, SampleBuffer, Server, ServerObserver, ServerOptions, TIME_SKEW, TokenGate,
    document::{self, RateUnit, TextFormat},
    flow_name,
    report::{Interval, Report, ServerOutput, Start},
    reverse::ReverseTarget,
};
use probe_transport::ProbeService;
use scenario::{Address, HostLocation};
use schema::{FlowSample, ReceiverVerdict};
use serde_json::json;
use stamp::{ControlProtocol, ControlServer, Reflector};
use transfer::stream::StreamService;
use units::BitRate;
use verdict::judge_receiver;

use super::test::{
    args,
    unattended::{self, UnattendedArgs},
};
use crate::{
    commands,
    exit::Exit,
    interrupt,
    ip_version::IpVersionArgs,
    iperf3_values,
    output::{self, Finish},
};

/// Interval at which the sockets are sampled for the verdict of the receiving end.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Default averaging time of a rate limit (as in iperf3).
const DEFAULT_RATE_LIMIT_TIME: Duration = Duration::from_secs(5);
/// Maximum time from a signal to the end of the server.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Port to listen on
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// Address to listen on, or address%device
    #[arg(short = 'B', long, value_name = "ADDRESS", value_parser = iperf3_values::bind)]
    bind: Option<(IpAddr, Option<String>)>,
    /// Device to listen on
    #[arg(long, value_name = "DEVICE")]
    bind_dev: Option<String>,
    #[command(flatten)]
    ip_version: IpVersionArgs,
    /// Exit after one test
    #[arg(short = '1', long)]
    one_off: bool,
    /// With --one-off: exit if no client connects in this time
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, requires = "one_off")]
    idle_timeout: Option<Duration>,

    /// Maximum number of simultaneous tests; further clients are queued
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Clients")]
    clients: u16,
    /// Maximum number of queued clients
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Clients")]
    queue: u16,
    /// Timeout of a queued client
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "60", help_heading = "Clients")]
    queue_timeout: Duration,
    /// Timeout of each step of a test's set-up and end
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "10", help_heading = "Clients")]
    phase_timeout: Duration,
    /// Timeout without any received data, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", value_parser = iperf3_values::milliseconds, default_value = "120000", help_heading = "Clients")]
    rcv_timeout: Duration,
    /// Timeout without acknowledgement of sent data, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", value_parser = iperf3_values::milliseconds, help_heading = "Clients")]
    snd_timeout: Option<Duration>,
    /// Maximum total rate of the streams of a test, averaged over SECONDS [default: 5]
    #[arg(long, value_name = "RATE[/SECONDS]", value_parser = rate_limit, help_heading = "Clients")]
    server_bitrate_limit: Option<(BitRate, Duration)>,
    /// Maximum duration of a test
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, help_heading = "Clients")]
    server_max_duration: Option<Duration>,

    /// Authorized users: lines of user,sha256 of {user}password
    #[arg(long, value_name = "FILE", requires = "rsa_private_key_path", help_heading = "Authentication")]
    authorized_users_path: Option<PathBuf>,
    /// The server's private key (PEM, without a passphrase)
    #[arg(long, value_name = "FILE", requires = "authorized_users_path", help_heading = "Authentication")]
    rsa_private_key_path: Option<PathBuf>,
    /// Serve only longfat clients that have the secret in this file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "authorized_users_path",
        help_heading = "Authentication"
    )]
    token: Option<PathBuf>,
    /// Let clients change network settings of this machine for the duration of a run
    /// (`longfat run --engine hosts`); they are restored when it ends. Needs root; without --token anyone who
    /// reaches the port may do so
    #[arg(long, help_heading = "Real hosts")]
    allow_tune: bool,
    /// Also serve a client that cannot connect to this machine (NAT, a firewall) and listens instead, as in
    /// `longfat test listen -p PORT`: connect to it (repeatable)
    #[arg(long, value_name = "CLIENT[:PORT]", value_delimiter = ',', value_parser = reverse_target, help_heading = "Clients")]
    reverse_connect: Vec<ReverseTarget>,
    /// Maximum difference between client's and server's clocks
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, help_heading = "Authentication")]
    time_skew_threshold: Option<Duration>,
    /// Use the PKCS#1 padding of iperf3 before 3.17
    #[arg(long, help_heading = "Authentication")]
    use_pkcs1_padding: bool,

    /// Report interval, in seconds or as in 10ms; 0 for none
    #[arg(short, long, value_name = "TIME", value_parser = iperf3_values::interval, default_value = "1", help_heading = "Reports")]
    interval: Duration,
    /// Unit of rates: k, m, g, t for bits, K, M, G, T for bytes
    #[arg(short, long, value_name = "UNIT", help_heading = "Reports")]
    format: Option<RateUnit>,
    /// Print more details
    #[arg(short = 'V', long, help_heading = "Reports")]
    verbose: bool,
    /// Print each test as iperf3's JSON
    #[arg(short = 'J', long, help_heading = "Reports")]
    iperf3_json: bool,
    /// Also reflect packets of STAMP (RFC 8762) and TWAMP Light, on this UDP port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "862", help_heading = "Delay")]
    stamp: Option<u16>,
    /// Reply only to STAMP packets authenticated with the key in this file (its bytes without a final
    /// newline)
    #[arg(long, value_name = "FILE", requires = "stamp", help_heading = "Delay")]
    stamp_key: Option<PathBuf>,
    /// Also serve clients of TWAMP (RFC 5357), unauthenticated, on this TCP port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "862", help_heading = "Delay")]
    twamp: Option<u16>,
    /// Also serve clients of OWAMP (RFC 4656), unauthenticated, on this TCP port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "861", help_heading = "Delay")]
    owamp: Option<u16>,
    /// CPUs for the streams, assigned in turn, as in 2,3
    #[arg(
        short = 'A',
        long,
        visible_alias = "pin",
        value_name = "CPU,CPU...",
        value_delimiter = ',',
        help_heading = "Clients"
    )]
    affinity: Vec<usize>,
    /// Also serve clients of iperf 2 (`iperf -c`), TCP and UDP, on this port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "5001", conflicts_with_all = ["one_off", "token", "authorized_users_path"], help_heading = "iperf 2")]
    iperf2: Option<u16>,
    /// Run in the background
    #[arg(short = 'D', long)]
    daemon: bool,
    #[command(flatten)]
    unattended: UnattendedArgs,
    /// Write data received by TCP tests to this file; with -R, send this file
    #[arg(short = 'F', long, value_name = "FILE", help_heading = "Clients")]
    file: Option<PathBuf>,
}

/// Runs the command: serves until interrupted, or one client with `--one-off`.
pub fn run(args: &ServeArgs, json: bool) -> anyhow::Result<()> {
    if args.daemon && unattended::to_background()? {
        return Ok(());
    }
    let _pidfile = args.unattended.apply(!json && !args.iperf3_json)?;
    let token = args.token.as_deref().map(args::token).transpose()?;
    let service = HostService { allows_tune: args.allow_tune, token };
    let streams = StreamService {
        max_rate: args.server_bitrate_limit.map(|(rate, _)| rate),
        max_duration: args.server_max_duration,
    };
    let server = Server::bind(args.options()?)?
        .with_service(Box::new(ProbeService { secret: None }))
        .with_service(Box::new(service))
        .with_service(Box::new(streams));
    let console = Console {
        // One document per test, in iperf3's form: the tests of a server have no common document.
        json: json || args.iperf3_json,
        format: TextFormat { verbose: args.verbose, unit: args.format.unwrap_or_default() },
        sampled: Mutex::default(),
    };
    let stop = interrupt::flag()?;
    output::queue(Finish::AtOnce)?;
    end_within_deadline(stop.clone(), args.unattended.pidfile().map(Path::to_path_buf))?;
    if let Some(note) = hosts::restore_left_settings_with_note() {
        console.note(&note);
    }
    console.note(&format!("listening on {}", server.address()));
    let reflector = match args.stamp {
        Some(port) => {
            let key = args.stamp_key.as_deref().map(commands::probe::stamp_key).transpose()?;
            let reflector = Reflector::bind(server.address().ip(), port, key)?;
            console
                .note(&format!("reflecting STAMP packets on UDP port {}", reflector.port().unwrap_or(port)));
            Some(reflector)
        }
        None => None,
    };
    let mut control_servers = Vec::new();
    for (protocol, port) in [(ControlProtocol::Twamp, args.twamp), (ControlProtocol::Owamp, args.owamp)] {
        let Some(port) = port else { continue };
        let control = ControlServer::bind(protocol, server.address().ip(), port)?;
        let port = control.port().unwrap_or(port);
        console.note(&format!("serving {} clients on TCP port {port}", protocol.name()));
        control_servers.push(control);
    }
    let iperf2 = args.iperf2.map(|port| iperf2::Server::bind(args.iperf2_options(port))).transpose()?;
    if let Some(iperf2) = &iperf2 {
        console.note(&format!("listening on {} for iperf 2", iperf2.address()?));
    }
    unattended::is_serving();
    let ended = &AtomicBool::new(false);
    let note = &|text: &str| console.note(text);
    std::thread::scope(|scope| {
        // A failed additional service (STAMP, TWAMP, OWAMP) does not stop the server.
        let noted = |ran: Result<(), traffic::Error>| ran.inspect_err(|error| note(&error.to_string()));
        let reflecting = reflector.as_ref().map(|reflector| scope.spawn(move || noted(reflector.run(ended))));
        let controlling: Vec<_> = control_servers
            .iter()
            .map(|control| scope.spawn(move || noted(control.run(ended, note))))
            .collect();
        let serving = iperf2.as_ref().map(|iperf2| scope.spawn(|| iperf2.run(ended, &console)));
        let served = server.run(&stop, &console);
        ended.store(true, Ordering::Release);
        let reflected = reflecting.map(joined);
        let controlled: Vec<_> = controlling.into_iter().map(joined).collect();
        let served_iperf2 = serving.map(joined);
        served?;
        served_iperf2.transpose()?;
        controlled.into_iter().collect::<Result<(), _>>()?;
        Ok(reflected.transpose().map(drop)?)
    })
}

/// The result of a thread, whose panic continues here.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the program [`STOP_TIMEOUT`] after `stop` is set, even if threads are blocked (a file on a stalled
/// disk).
fn end_within_deadline(stop: Arc<AtomicBool>, pidfile: Option<PathBuf>) -> anyhow::Result<()> {
    let body = move || {
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(STOP_CHECK_INTERVAL);
        }
        std::thread::sleep(STOP_TIMEOUT);
        output::note("longfat: some tests did not end in time; the server exits without them");
        let _ = output::finish();
        if let Some(path) = pidfile {
            let _ = fs::remove_file(path);
        }
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("stop".into());
    thread.spawn(body).map(drop).context("cannot start the thread that stops the server")
}

impl ServeArgs {
    /// The server of iperf 2's protocol, at the same address.
    fn iperf2_options(&self, port: u16) -> iperf2::ServerOptions {
        let defaults = iperf2::ServerOptions::new(port);
        let (bind, device) = match &self.bind {
            Some((address, device)) => (Some(*address), device.clone().or_else(|| self.bind_dev.clone())),
            None => (None, self.bind_dev.clone()),
        };
        iperf2::ServerOptions {
            bind,
            device,
            ip: self.ip_version.required(),
            interval: self.interval,
            header_timeout: self.phase_timeout,
            idle_timeout: self.rcv_timeout.min(defaults.idle_timeout),
            max_duration: self.server_max_duration.unwrap_or(defaults.max_duration),
            pin: self.affinity.clone(),
            ..defaults
        }
    }

    fn options(&self) -> anyhow::Result<ServerOptions> {
        let (bind, device) = match &self.bind {
            Some((address, device)) => (Some(*address), device.clone().or_else(|| self.bind_dev.clone())),
            None => (None, self.bind_dev.clone()),
        };
        let padding = if self.use_pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep };
        let skew = self.time_skew_threshold.unwrap_or(TIME_SKEW);
        let gate = match &self.token {
            Some(path) => Some(Arc::new(TokenGate::new(args::token(path)?, skew))),
            None => None,
        };
        let authority = match (&self.rsa_private_key_path, &self.authorized_users_path) {
            (Some(key), Some(users)) => {
                let authority = Authority::new(key, users, skew, padding);
                Some(authority.map_err(|error| Exit::BadInput(error.to_string()))?)
            }
            _ => None,
        };
        Ok(ServerOptions {
            bind,
            device,
            port: self.port,
            ip: self.ip_version.required(),
            clients: usize::from(self.clients),
            queue: usize::from(self.queue),
            queue_timeout: self.queue_timeout,
            phase_timeout: self.phase_timeout,
            data_timeout: self.rcv_timeout,
            one_off: self.one_off,
            idle_timeout: self.idle_timeout,
            rate_limit: self.server_bitrate_limit,
            max_duration: self.server_max_duration,
            authority,
            gate,
            interval: self.interval,
            send_timeout: self.snd_timeout,
            pin: self.affinity.clone(),
            file: self.file.clone(),
            reverse: self.reverse_connect.clone(),
        })
    }
}

/// Parses the address of a client that listens.
fn reverse_target(text: &str) -> Result<ReverseTarget, String> {
    match text.parse()? {
        HostLocation::At(Address { host, port }) => Ok(ReverseTarget { host, port }),
        other => Err(format!("\"{other}\" is not the address of another machine")),
    }
}

/// Parses `100M` or `100M/2`, the rate and its averaging time in seconds.
fn rate_limit(text: &str) -> Result<(BitRate, Duration), String> {
    let parts = text.rsplit_once('/').and_then(|(rate, time)| Some((rate, time.parse::<f64>().ok()?)));
    let (rate, over) = match parts {
        Some((rate, seconds)) if seconds > 0.0 && seconds <= 1000.0 => {
            (rate, Duration::from_secs_f64(seconds))
        }
        Some(_) => return Err("the averaging time of a rate limit must be 0 to 1000 seconds".into()),
        None => (text, DEFAULT_RATE_LIMIT_TIME),
    };
    Ok((iperf3_values::rate(rate)?, over))
}

/// Output for the operator. Texts are queued, so that no session waits for a reader.
struct Console {
    json: bool,
    format: TextFormat,
    /// The samples of tests that have ended, by peer, until their verdict is printed.
    sampled: Mutex<BTreeMap<SocketAddr, Vec<FlowSample>>>,
}

impl Console {
    fn print(&self, text: &str) {
        // A closed standard output does not stop the server.
        let _ = output::text(text);
    }
}

impl Console {
    /// The limits of the streams that this end received, measured at this end alone.
    fn receiver_verdicts(&self, peer: SocketAddr, report: &Report) -> BTreeMap<String, ReceiverVerdict> {
        let rows = self.lock_sampled().remove(&peer).unwrap_or_default();
        let connections = report.start.iter().flat_map(|start| &start.connections);
        let received = connections.filter(|connection| !connection.sender).map(|c| flow_name(c.id));
        received.filter_map(|flow| Some((flow.clone(), judge_receiver(&rows, &flow)?))).collect()
    }

    fn lock_sampled(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Vec<FlowSample>>> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerObserver for Console {
    fn note(&self, text: &str) {
        output::note(&format!("longfat: {text}"));
    }

    fn begin(&self, peer: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(TestConsole {
            console: self,
            peer,
            start: None,
            samples: Some(SampleBuffer::new(SAMPLE_INTERVAL)),
        })
    }

    fn end(&self, peer: SocketAddr, report: &Report, error: Option<&iperf3::Error>) {
        if let Some(error) = error {
            self.note(&format!("{peer}: {error}"));
        }
        let verdicts = self.receiver_verdicts(peer, report);
        match (self.json, &report.start, &report.end) {
            (true, Some(_), _) => {
                let mut document = document::to_json(report);
                if !verdicts.is_empty() {
                    document["longfat_receiver_verdicts"] = json!(verdicts);
                }
                self.print(&document.to_string());
            }
            (false, Some(start), Some(end)) => {
                self.print(&document::end_text(start, end, self.format));
                for (flow, verdict) in &verdicts {
                    self.print(&view::table::receiver_verdict(flow, verdict));
                }
            }
            _ => {}
        }
    }

    fn host(&self) -> Option<serde_json::Value> {
        serde_json::to_value(tune::inspect()).ok()
    }

    fn output(&self, report: &Report) -> ServerOutput {
        match self.json {
            true => ServerOutput::Json(document::to_json(report)),
            false => ServerOutput::Text(document::to_text(report, self.format)),
        }
    }
}

/// Output of one test.
struct TestConsole<'a> {
    console: &'a Console,
    peer: SocketAddr,
    start: Option<Start>,
    /// Taken when the test is over.
    samples: Option<SampleBuffer>,
}

impl Drop for TestConsole<'_> {
    fn drop(&mut self) {
        let rows = self.samples.take().map(SampleBuffer::into_rows).unwrap_or_default();
        // The end of a test that could not begin is not reported, so its entry would remain forever.
        if !rows.is_empty() {
            self.console.lock_sampled().insert(self.peer, rows);
        }
    }
}

impl Observer for TestConsole<'_> {
    fn note(&mut self, text: &str) {
        self.console.note(&format!("{}: {text}", self.peer));
    }

    fn start(&mut self, start: &Start) {
        if !self.console.json {
            self.console.print(&document::start_text(start, self.console.format));
        }
        self.start = Some(start.clone());
    }

    fn sample_interval(&self) -> Option<Duration> {
        Some(SAMPLE_INTERVAL)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        if let Some(samples) = &mut self.samples {
            samples.add(rows);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if let (false, Some(start)) = (self.console.json, &self.start) {
            self.console.print(&document::interval_text(start, interval, self.console.format));
        }
    }
}
