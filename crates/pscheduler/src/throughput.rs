//! The test `throughput`: participant 0 is an iperf3 client, participant 1 opens a server for it alone. A
//! single-ended test has participant 0 only, and any iperf3 server at the destination.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use iperf3::{
    ClientOptions, Error as TestError, IpVersion, Observer, Server, ServerObserver, ServerOptions, TIME_SKEW,
    Token, TokenGate, document,
    report::{Amount, Direction, Protocol, Report, ServerOutput, StreamEnd, StreamInterval, TestSpec},
    wire::{Params, default_udp_rate},
};
use measurement::unattended::{self, SamplingObserver, UnattendedTest};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use units::{BitRate, Bytes};

use crate::{
    Error, Settings,
    documents::{RunInput, read},
    duration::IsoDuration,
    server_data::ServerData,
    slot, verdict_text,
};

/// The name of the test.
pub const NAME: &str = "throughput";
/// The number of the participant that runs the server.
pub(crate) const SERVER: usize = 1;
/// The newest schema of specifications that is known.
const MAX_SCHEMA: u32 = 7;
/// iperf3's default.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Time for the server's start and the connections, at the start of the slot: the maximum difference between
/// the participants' clocks.
const START_ALLOWANCE: Duration = Duration::from_secs(5);
/// Time for the exchange of results, at the end of the slot.
const END_ALLOWANCE: Duration = Duration::from_secs(5);
/// Round trips of connections and messages before and after the data.
const SETUP_ROUND_TRIPS: u32 = 20;
/// Interval of attempts to connect to a server that is not yet open.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout of each step of a test before and after its data.
const PHASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Integers below 2^53 are exact in JSON's floating-point numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The parameters of the test.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Spec {
    schema: Option<u32>,
    source: Option<String>,
    #[serde(rename = "source-node")]
    _source_node: Option<String>,
    dest: String,
    #[serde(rename = "dest-node")]
    _dest_node: Option<String>,
    duration: Option<IsoDuration>,
    interval: Option<IsoDuration>,
    link_rtt: Option<IsoDuration>,
    omit: Option<IsoDuration>,
    parallel: Option<u32>,
    udp: bool,
    bandwidth: Option<u64>,
    fq_rate: Option<u64>,
    window_size: Option<u64>,
    mss: Option<u32>,
    buffer_length: Option<u64>,
    ip_tos: u8,
    ip_version: Option<u8>,
    local_address: Option<String>,
    no_delay: bool,
    congestion: Option<String>,
    zero_copy: bool,
    flow_label: Option<u32>,
    client_cpu_affinity: Option<usize>,
    server_cpu_affinity: Option<u32>,
    reverse: bool,
    single_ended: bool,
    single_ended_port: Option<u16>,
}

/// The options of [`Spec`].
const OPTIONS: [&str; 29] = [
    "schema",
    "source",
    "source-node",
    "dest",
    "dest-node",
    "duration",
    "interval",
    "link-rtt",
    "omit",
    "parallel",
    "udp",
    "bandwidth",
    "fq-rate",
    "window-size",
    "mss",
    "buffer-length",
    "ip-tos",
    "ip-version",
    "local-address",
    "no-delay",
    "congestion",
    "zero-copy",
    "flow-label",
    "client-cpu-affinity",
    "server-cpu-affinity",
    "reverse",
    "single-ended",
    "single-ended-port",
    "loopback",
];

/// A whole number as an integer, as JSON Schema defines integers: pScheduler writes `1500000000.0` for
/// `--bandwidth 1.5G`.
fn without_fraction(value: &Value) -> Value {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number) => {
            (number as u64).into()
        }
        _ => value.clone(),
    }
}

impl Spec {
    pub fn read(spec: &Map<String, Value>) -> Result<Spec, String> {
        let unknown = spec.keys().find(|key| !OPTIONS.contains(&key.as_str()));
        if let Some(option) = unknown {
            return Err(format!("longfat does not support the option {option}"));
        }
        if spec.get("loopback").and_then(Value::as_bool) == Some(true) {
            return Err("longfat does not support loopback tests".into());
        }
        let options = spec.iter().map(|(key, value)| (key.clone(), without_fraction(value)));
        let options = Value::Object(options.collect());
        let spec: Spec = serde_json::from_value(options).map_err(|error| error.to_string())?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), String> {
        let schema = self.schema.unwrap_or(1);
        if schema > MAX_SCHEMA {
            return Err(format!(
                "schema {schema} is newer than {MAX_SCHEMA}, which this version of longfat knows"
            ));
        }
        if self.dest.is_empty() {
            return Err("dest is missing".into());
        }
        if self.bandwidth.is_some() && self.fq_rate.is_some() {
            return Err("bandwidth and fq-rate exclude each other".into());
        }
        if !matches!(self.ip_version, None | Some(4 | 6)) {
            return Err("ip-version must be 4 or 6".into());
        }
        // Refuses parameters that the protocol of iperf3 cannot express.
        Params::of(&self.test()).spec().map(drop).map_err(|refusal| refusal.to_string())
    }

    /// Why a test cannot be run.
    pub fn reasons_against(spec: &Map<String, Value>) -> Vec<String> {
        Spec::read(spec).err().into_iter().collect()
    }

    fn length(&self) -> Duration {
        self.duration.map_or(DEFAULT_DURATION, |duration| duration.0)
    }

    fn omitted(&self) -> Duration {
        self.omit.map_or(Duration::ZERO, |omit| omit.0)
    }

    fn allowance_of_rtt(&self) -> Duration {
        self.link_rtt.map_or(Duration::ZERO, |rtt| rtt.0 * SETUP_ROUND_TRIPS)
    }

    /// The length of the slot.
    pub fn slot(&self) -> Duration {
        START_ALLOWANCE + self.allowance_of_rtt() + self.omitted() + self.length() + END_ALLOWANCE
    }

    fn ip(&self) -> Option<IpVersion> {
        self.ip_version.map(|version| if version == 4 { IpVersion::V4 } else { IpVersion::V6 })
    }

    fn test(&self) -> TestSpec {
        let protocol = if self.udp { Protocol::Udp } else { Protocol::Tcp };
        let plain = TestSpec::new(protocol, Amount::Time(self.length()));
        TestSpec {
            direction: if self.reverse { Direction::Reverse } else { Direction::Forward },
            streams: self.parallel.unwrap_or(1),
            omit: self.omitted(),
            block: self.buffer_length.map_or(plain.block, Bytes),
            interval: self.interval.map_or(plain.interval, |interval| interval.0),
            rate: self.bandwidth.map(BitRate).or(self.udp.then(default_udp_rate)),
            fq_rate: self.fq_rate.map(BitRate),
            window: self.window_size.map(Bytes),
            mss: self.mss,
            nodelay: self.no_delay,
            congestion: self.congestion.clone(),
            tos: self.ip_tos,
            flow_label: self.flow_label,
            zerocopy: self.zero_copy,
            server_affinity: self.server_cpu_affinity,
            ..plain
        }
    }

    fn client(&self, port: u16, token: Option<Token>) -> Result<ClientOptions, String> {
        let address = |host: &String| {
            let resolved = probe_transport::resolve(host, self.ip());
            resolved.map(|at| at.ip()).map_err(|error| format!("the address {host}: {error}"))
        };
        let bind: Option<IpAddr> =
            self.local_address.as_ref().or(self.source.as_ref()).map(address).transpose()?;
        // The destination must have an address of the same version as the source.
        let ip = self.ip().or(bind.map(|bind| if bind.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }));
        Ok(ClientOptions {
            port,
            ip,
            bind,
            token,
            connect_timeout: PHASE_TIMEOUT,
            queue_timeout: PHASE_TIMEOUT,
            phase_timeout: PHASE_TIMEOUT + self.allowance_of_rtt(),
            idle_timeout: Some(PHASE_TIMEOUT + self.allowance_of_rtt()),
            fit_block: self.udp && self.buffer_length.is_none(),
            pin: self.client_cpu_affinity.into_iter().collect(),
            ..ClientOptions::new(&self.dest, self.test())
        })
    }
}

/// Runs one participant's role.
pub(crate) fn run(input: &RunInput, settings: &Settings) -> Result<Value, Error> {
    let spec = Spec::read(&input.test.spec).map_err(Error::Input)?;
    let participants = input.participant_data.len();
    let (expected, form) = if spec.single_ended { (1, "single-ended ") } else { (2, "") };
    if participants != expected || input.participant >= expected {
        let number = input.participant;
        return Err(Error::Input(format!(
            "a {form}throughput test has {expected} participants; this is participant {number} of {participants}"
        )));
    }
    let peer = input
        .participant_data
        .get(SERVER)
        .map(|data| read::<ServerData>("participant-data", &data.to_string()));
    let peer = peer.transpose()?;
    Ok(match (input.participant, peer) {
        (SERVER, Some(own)) => serve(&spec, own, input, settings),
        (_, peer) => measure(&spec, peer, input, settings),
    })
}

fn measure(spec: &Spec, peer: Option<ServerData>, input: &RunInput, settings: &Settings) -> Value {
    let is_over = slot::begin(&input.schedule, &settings.stop);
    let (port, token) = match peer {
        Some(server) => (server.port, Some(Token::new(server.secret.into_bytes()))),
        None => (spec.single_ended_port.unwrap_or(Settings::default().port), None),
    };
    let options = match spec.client(port, token) {
        Ok(options) => options,
        Err(error) => return failed(&error, ""),
    };
    let begun = Instant::now();
    let UnattendedTest { report, error, recorded } = loop {
        let tested = unattended::run_test(&options, settings.runs_dir.as_deref(), &is_over);
        // The other participant opens its server at the same time, by its clock.
        let is_early =
            !spec.single_ended && tested.report.start.is_none() && is_refused(tested.error.as_ref());
        if !is_early || begun.elapsed() > START_ALLOWANCE || is_over.load(Ordering::Acquire) {
            break tested;
        }
        thread::sleep(ATTEMPT_INTERVAL);
    };
    let verdict = match recorded {
        Ok(Some(recorded)) => verdict_text::text(&recorded),
        Ok(None) => String::new(),
        Err(error) => format!("no record: {}", measurement::error::chain(&error)),
    };
    let text = document::to_text(&report, document::TextFormat::default());
    let diags = format!("{verdict}\n\n{text}").trim().to_owned();
    match error {
        Some(TestError::Interrupted) => failed("the test did not end within its slot", &diags),
        Some(error) => failed(&error.to_string(), &diags),
        None => {
            json!({ "schema": 1, "succeeded": true, "error": null, "diags": diags, "result": result(&report) })
        }
    }
}

fn is_refused(error: Option<&TestError>) -> bool {
    let Some(TestError::System(error)) = error else { return false };
    error.source.kind() == std::io::ErrorKind::ConnectionRefused
}

fn serve(spec: &Spec, own: ServerData, input: &RunInput, settings: &Settings) -> Value {
    let is_over = slot::begin(&input.schedule, &settings.stop);
    let options = ServerOptions {
        ip: spec.ip(),
        port: own.port,
        one_off: true,
        phase_timeout: PHASE_TIMEOUT + spec.allowance_of_rtt(),
        data_timeout: PHASE_TIMEOUT + spec.allowance_of_rtt(),
        max_duration: Some(spec.omitted() + spec.length()),
        gate: Some(Arc::new(TokenGate::new(Token::new(own.secret.into_bytes()), TIME_SKEW))),
        ..ServerOptions::default()
    };
    let observer = ServedTest::default();
    let served = Server::bind(options).and_then(|server| server.run(&is_over, &observer));
    let ended = observer.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let diags = observer.notes.into_inner().unwrap_or_else(PoisonError::into_inner).join("\n");
    match (served, ended) {
        (Err(error), _) => failed(&error.to_string(), &diags),
        (Ok(()), None) => failed("no client came within the slot", &diags),
        (Ok(()), Some(Some(error))) => failed(&error, &diags),
        (Ok(()), Some(None)) => {
            json!({ "schema": 1, "succeeded": true, "error": null, "diags": diags, "result": {} })
        }
    }
}

/// The result of a participant whose test failed.
fn failed(error: &str, diags: &str) -> Value {
    json!({ "schema": 1, "succeeded": false, "error": error, "diags": diags, "result": null })
}

/// The report in the form of the test's results. Those of a participant become those of the run by
/// `merged-results`, which adds `diags`.
fn result(report: &Report) -> Value {
    let intervals: Vec<Value> = report
        .intervals
        .iter()
        .map(|interval| {
            let streams: Vec<Map<String, Value>> = interval.streams.iter().map(interval_data).collect();
            let summary = sum(&streams, interval.start_s, interval.end_s);
            json!({ "streams": streams, "summary": summary })
        })
        .collect();
    let ends = report.end.as_ref().map_or(&[][..], |end| &end.streams);
    let streams: Vec<Map<String, Value>> = ends.iter().map(stream_data).collect();
    let start_s = ends.iter().map(|stream| stream.sent.start_s).reduce(f64::min).unwrap_or(0.0);
    let end_s = ends.iter().map(|stream| stream.sent.end_s).reduce(f64::max).unwrap_or(0.0);
    let summary = sum(&streams, start_s, end_s);
    let mut result = json!({
        "schema": 1, "succeeded": true, "diags": "", "intervals": intervals,
        "summary": { "streams": streams, "summary": summary },
    });
    if let Some(start) = &report.start {
        if start.spec.protocol == Protocol::Tcp && start.mss > 0 {
            result["mss"] = start.mss.into();
        }
        if let Some(window) = start.spec.window {
            result["requested-tcp-window-size"] = window.0.into();
        }
    }
    let states =
        report.intervals.iter().flat_map(|interval| &interval.streams).filter_map(|stream| stream.tcp);
    if let Some(mtu) = states.map(|tcp| tcp.pmtu_bytes).rfind(|bytes| *bytes > 0) {
        result["mtu"] = mtu.into();
    }
    result
}

fn interval_data(stream: &StreamInterval) -> Map<String, Value> {
    let mut data = rates(stream.bytes, stream.start_s, stream.end_s);
    data.insert("stream-id".into(), stream.id.into());
    data.insert("omitted".into(), stream.omitted.into());
    if let Some(tcp) = &stream.tcp {
        data.insert("retransmits".into(), tcp.retransmits.into());
        data.insert("tcp-window-size".into(), tcp.snd_cwnd_bytes.into());
        data.insert("rtt".into(), tcp.rtt_us.into());
    }
    if let Some(udp) = &stream.udp {
        data.insert("sent".into(), udp.packets.into());
        // A sender does not know these values.
        if !stream.sender {
            data.insert("lost".into(), udp.lost.max(0).into());
            data.insert("jitter".into(), (udp.jitter_s * 1e3).into());
        }
    }
    data
}

fn stream_data(stream: &StreamEnd) -> Map<String, Value> {
    let mut data = rates(stream.sent.bytes, stream.sent.start_s, stream.sent.end_s);
    data.insert("stream-id".into(), stream.id.into());
    data.insert("receiver-throughput-bits".into(), stream.received.goodput_bps().unwrap_or(0.0).into());
    if let Some(tcp) = &stream.tcp {
        data.insert("retransmits".into(), tcp.retransmits.into());
        if tcp.mean_rtt_us > 0 {
            data.insert("rtt".into(), tcp.mean_rtt_us.into());
        }
    }
    if let (Some(sent), Some(received)) = (&stream.sent.udp, &stream.received.udp) {
        data.insert("sent".into(), sent.packets.into());
        data.insert("lost".into(), received.lost.max(0).into());
        data.insert("jitter".into(), (received.jitter_s * 1e3).into());
    }
    data
}

fn rates(bytes: u64, start_s: f64, end_s: f64) -> Map<String, Value> {
    let bits = if end_s > start_s { bytes as f64 * 8.0 / (end_s - start_s) } else { 0.0 };
    let mut data = Map::new();
    data.insert("start".into(), start_s.into());
    data.insert("end".into(), end_s.into());
    data.insert("throughput-bytes".into(), bytes.into());
    data.insert("throughput-bits".into(), bits.into());
    data
}

/// The sum of streams. Jitter is the mean.
fn sum(streams: &[Map<String, Value>], start_s: f64, end_s: f64) -> Map<String, Value> {
    let values = |name: &str| -> Vec<f64> {
        streams.iter().filter_map(|stream| stream.get(name).and_then(Value::as_f64)).collect()
    };
    let mut data = rates(values("throughput-bytes").iter().sum::<f64>() as u64, start_s, end_s);
    for name in ["retransmits", "sent", "lost"] {
        let values = values(name);
        if !values.is_empty() {
            data.insert(name.into(), (values.iter().sum::<f64>() as u64).into());
        }
    }
    let received = values("receiver-throughput-bits");
    if !received.is_empty() {
        data.insert("receiver-throughput-bits".into(), received.iter().sum::<f64>().into());
    }
    let jitter = values("jitter");
    if !jitter.is_empty() {
        data.insert("jitter".into(), (jitter.iter().sum::<f64>() / jitter.len() as f64).into());
    }
    if let Some(omitted) = streams.first().and_then(|stream| stream.get("omitted")) {
        data.insert("omitted".into(), omitted.clone());
    }
    data
}

/// The events of a server's test.
#[derive(Default)]
struct ServedTest {
    notes: Mutex<Vec<String>>,
    /// Set when the test has ended: its error.
    ended: Mutex<Option<Option<String>>>,
}

impl ServerObserver for ServedTest {
    fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    fn begin(&self, _: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(SamplingObserver)
    }

    fn end(&self, peer: SocketAddr, _: &Report, error: Option<&TestError>) {
        let error = error.map(|error| format!("the test with {peer}: {error}"));
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn output(&self, report: &Report) -> ServerOutput {
        ServerOutput::Json(document::to_json(report))
    }
}
