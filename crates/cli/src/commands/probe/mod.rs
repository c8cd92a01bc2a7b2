//! `longfat probe`: properties of a path by trains of packets; each result has a confidence interval and a
//! validity.

mod text;
mod udpmon;
mod udpmon_pictures;
mod udpmon_text;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use probe::{AvailableBandwidth, BottleneckBuffer, Capacity, Chirps, Method, MtuResult, ProbeLoad, Validity};
use probe_transport::{Session, SessionOptions};
use serde::Serialize;
use serde_json::json;
use stamp::{ControlProtocol, Key, Protocol, SenderOptions, Spacing};
use units::{BitRate, Time};

use super::records::check_svg;
use crate::{exit::Exit, interrupt, ip_version::IpVersionArgs, iperf3_values, output};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.probe/1";
/// Maximum packet size, bytes of IP.
const MAX_MTU: u32 = 9216;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Capacity of the bottleneck link; needs `longfat serve` at the other end
    Capacity(PeerArgs),
    /// Available bandwidth; needs `longfat serve` at the other end
    Available(AvailableArgs),
    /// Size and kind of the bottleneck's queue; needs `longfat serve` at the other end
    Buffer(BufferArgs),
    /// Rate of each hop and the bottleneck among them; works with any host
    Hops(HostArgs),
    /// One-way and round-trip delay and their variation; needs a reflector of STAMP or TWAMP Light, or a
    /// server of TWAMP or OWAMP, such as `longfat serve --stamp`
    Delay(DelayArgs),
    /// Path MTU; works with any host
    Mtu(HostArgs),
    /// Throughput, loss, reordering and jitter over packet size and spacing, and latency by size; needs
    /// `longfat serve` at the other end
    Udpmon(udpmon::UdpmonArgs),
}

/// Options of `probe hops` and `probe mtu`.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The host
    host: String,
    #[command(flatten)]
    ip_version: IpVersionArgs,
}

/// Options of `probe delay`.
#[derive(Debug, Args)]
pub struct DelayArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Protocol of the other end
    #[arg(long, value_enum, default_value_t = DelayProtocol::Stamp)]
    protocol: DelayProtocol,
    /// UDP port of the reflector [default: 862], or TCP port of the server [default: 862 for TWAMP, 861 for
    /// OWAMP]
    #[arg(short, long)]
    port: Option<u16>,
    /// Number of packets to send; with OWAMP, in each direction
    #[arg(short = 'c', long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Mean interval between packets
    #[arg(short, long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "50ms")]
    interval: Duration,
    /// Distribution of the intervals
    #[arg(long, value_enum, default_value_t = DelaySpacing::Fixed)]
    spacing: DelaySpacing,
    /// Bytes of UDP payload
    #[arg(short, long, value_name = "BYTES", default_value_t = 44, value_parser = clap::value_parser!(u32).range(44..=9000))]
    length: u32,
    /// Authenticate packets of STAMP with the key in this file (its bytes without a final newline)
    #[arg(long, value_name = "FILE")]
    stamp_key: Option<PathBuf>,
    /// STAMP session identifier, SSID (RFC 8972)
    #[arg(long, value_name = "N", default_value_t = 0)]
    ssid: u16,
}

/// Protocols of `probe delay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DelayProtocol {
    /// STAMP or TWAMP Light: no control connection
    Stamp,
    /// TWAMP: a control connection starts the reflector
    Twamp,
    /// OWAMP: each direction has its own packets
    Owamp,
}

/// Distributions of the intervals of `probe delay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DelaySpacing {
    /// All intervals are equal
    Fixed,
    /// Exponential: a Poisson process
    Exponential,
}

/// Options of probes with a `longfat serve`.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Host that runs `longfat serve`
    host: String,
    /// Port of the server
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// Maximum rate, averaged over any second; single trains are faster than the path
    #[arg(long, value_name = "RATE", value_parser = iperf3_values::rate, default_value = "100M")]
    max_rate: BitRate,
    /// Maximum packet size, IP header included [default: the path MTU, which is measured first and is never
    /// exceeded]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(128..=9000))]
    mtu: Option<u32>,
    #[command(flatten)]
    ip_version: IpVersionArgs,
    /// Maximum time to wait for the server and in its queue
    #[arg(long, alias = "patience", value_name = "TIME", value_parser = iperf3_values::time, default_value = "60")]
    timeout: Duration,
}

/// Options of `probe available`.
#[derive(Debug, Args)]
pub struct AvailableArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Method: streams of one rate each, or chirps through all rates, which send a tenth of the load
    #[arg(long, value_enum, default_value_t = AvailableMethod::Streams)]
    method: AvailableMethod,
}

/// Methods of `probe available`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AvailableMethod {
    /// As pathload
    Streams,
    /// As pathChirp
    Chirps,
}

/// Options of `probe buffer`.
#[derive(Debug, Args)]
pub struct BufferArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Plot the last train's queueing delay by packet number as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: &ProbeCommand, json: bool) -> anyhow::Result<()> {
    match command {
        ProbeCommand::Capacity(args) => {
            let measured = measure("capacity", args, Capacity::new)?;
            measured.print(json, &text::capacity(&measured.result), &measured.result.validity)
        }
        ProbeCommand::Available(args) => {
            let measured = match args.method {
                AvailableMethod::Streams => measure("available", &args.peer, AvailableBandwidth::new)?,
                AvailableMethod::Chirps => measure("available", &args.peer, Chirps::new)?,
            };
            measured.print(json, &text::available(&measured.result), &measured.result.validity)
        }
        ProbeCommand::Buffer(args) => {
            check_svg(args.plot.as_deref())?;
            let measured = measure("buffer", &args.peer, BottleneckBuffer::new)?;
            if let Some(file) = &args.plot {
                let svg = text::buffer_plot(&measured.result, &args.peer.host);
                std::fs::write(file, svg)
                    .map_err(|e| Exit::Failed(format!("cannot write {}: {e}", file.display())))?;
            }
            measured.print(json, &text::buffer(&measured.result), &measured.result.validity)
        }
        ProbeCommand::Hops(args) => {
            let result = run_without_server(args, probe_transport::hops)?;
            print_result("hops", &args.host, &result, json, &text::hops(&result), &result.validity)
        }
        ProbeCommand::Mtu(args) => {
            let result =
                run_without_server(args, |to, stop, doing| probe_transport::mtu(to, MAX_MTU, stop, doing))?;
            print_result("mtu", &args.host, &result, json, &text::mtu(&result), &result.validity)
        }
        ProbeCommand::Delay(args) => delay(args, json),
        ProbeCommand::Udpmon(args) => udpmon::run(args, json),
    }
}

/// Runs a probe that needs no server at the other end.
fn run_without_server<A>(
    args: &HostArgs,
    probe: impl FnOnce(SocketAddr, &AtomicBool, &mut dyn FnMut(&str)) -> Result<A, probe_transport::Error>,
) -> anyhow::Result<A> {
    let stop = interrupt::flag()?;
    let to = probe_transport::resolve(&args.host, args.ip_version.required())
        .map_err(|e| failed(&args.host, e))?;
    probe(to, &stop, &mut |doing| output::note(&format!("longfat: {doing}")))
        .map_err(|e| failed(&args.host, e))
}

fn delay(args: &DelayArgs, json: bool) -> anyhow::Result<()> {
    let (protocol, default_port, server) = match args.protocol {
        DelayProtocol::Stamp => (Protocol::Stamp, stamp::PORT, "serve --stamp"),
        DelayProtocol::Twamp => (Protocol::Twamp, ControlProtocol::Twamp.port(), "serve --twamp"),
        DelayProtocol::Owamp => (Protocol::Owamp, ControlProtocol::Owamp.port(), "serve --owamp"),
    };
    if protocol != Protocol::Stamp && (args.stamp_key.is_some() || args.ssid != 0) {
        return Err(Exit::BadInput("--stamp-key and --ssid are options of STAMP only".into()).into());
    }
    let stop = interrupt::flag()?;
    let host = &args.host.host;
    let mut to =
        probe_transport::resolve(host, args.host.ip_version.required()).map_err(|e| failed(host, e))?;
    to.set_port(args.port.unwrap_or(default_port));
    let options = SenderOptions {
        protocol,
        to,
        count: args.count,
        interval: Time::from_duration(args.interval),
        spacing: match args.spacing {
            DelaySpacing::Fixed => Spacing::Fixed,
            DelaySpacing::Exponential => Spacing::Exponential,
        },
        payload: args.length as usize,
        key: args.stamp_key.as_deref().map(stamp_key).transpose()?,
        session: args.ssid,
        timeout: Duration::from_secs(2),
    };
    output::note(&format!(
        "longfat: {} packets, one every {} ms",
        args.count,
        args.interval.as_secs_f64() * 1e3
    ));
    let result = match stamp::measure(&options, &stop, &mut |_| {}) {
        Err(_) if stop.load(Ordering::Acquire) => return Err(Exit::Interrupted.into()),
        measured => measured.with_context(|| format!("the probe of {host} failed"))?,
    };
    print_result("delay", host, &result, json, &text::delay(&result), &result.validity)?;
    match result.lost < result.sent {
        true => Ok(()),
        false => Err(Exit::Failed(format!(
            "no reply from {}: is a reflector running there, as `longfat {server}`, with the same key?",
            options.to
        ))
        .into()),
    }
}

/// The key in a file.
pub fn stamp_key(file: &Path) -> anyhow::Result<Key> {
    let unreadable = |e| Exit::BadInput(format!("cannot read the key in {}: {e}", file.display()));
    let mut bytes = std::fs::read(file).map_err(unreadable)?;
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    match bytes.is_empty() {
        true => Err(Exit::BadInput(format!("there is no key in {}", file.display())).into()),
        false => Ok(Key::new(bytes)),
    }
}

impl PeerArgs {
    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            host: self.host.clone(),
            port: self.port,
            ip: self.ip_version.required(),
            max_rate: self.max_rate,
            mtu: self.mtu,
            timeout: self.timeout,
            secret: None,
        }
    }
}

fn failed(host: &str, error: probe_transport::Error) -> anyhow::Error {
    match error {
        probe_transport::Error::Link(iperf3::Error::Interrupted) => Exit::Interrupted.into(),
        error @ probe_transport::Error::TooLarge { .. } => Exit::BadInput(error.to_string()).into(),
        error => anyhow::Error::new(error).context(format!("the probe of {host} failed")),
    }
}

/// Prints the result of a probe without a rate limit: it sends little.
fn print_result(
    kind: &str,
    host: &str,
    result: &impl Serialize,
    json: bool,
    sentences: &str,
    validity: &Validity,
) -> anyhow::Result<()> {
    match json {
        true => output::json(&json!({ "schema": SCHEMA, "kind": kind, "host": host, "answer": result })),
        false => output::prose(&format!("{sentences}\n{}", text::validity(validity))),
    }
}

/// A result and its cost.
struct Measured<A> {
    kind: &'static str,
    host: String,
    result: A,
    path_mtu: MtuResult,
    load: ProbeLoad,
    max_rate: BitRate,
}

fn measure<M: Method>(
    kind: &'static str,
    args: &PeerArgs,
    method: impl FnOnce(probe::ProbeLimits) -> M,
) -> anyhow::Result<Measured<M::Output>> {
    let stop = interrupt::flag()?;
    let failed = |error| failed(&args.host, error);
    output::note("longfat: measuring the path's MTU");
    let mut session = Session::open(&args.session_options(), &stop).map_err(failed)?;
    let limits = session.limits();
    if !limits.allow_trains() {
        return Err(Exit::BadInput(format!(
            "--max-rate {} allows fewer than 64 packets of {} bytes a second",
            args.max_rate, limits.mtu
        ))
        .into());
    }
    let mut method = method(limits);
    let result = session
        .run(&mut method, &stop, &mut |doing| output::note(&format!("longfat: {doing}")))
        .map_err(failed)?;
    let path_mtu = session.path_mtu().clone();
    let load = session.load();
    Ok(Measured { kind, host: args.host.clone(), result, path_mtu, load, max_rate: args.max_rate })
}

impl<A: Serialize> Measured<A> {
    fn print(&self, json: bool, sentences: &str, validity: &Validity) -> anyhow::Result<()> {
        if json {
            return output::json(&json!({
                "schema": SCHEMA,
                "kind": self.kind,
                "host": self.host,
                "answer": self.result,
                "path_mtu": self.path_mtu,
                "load": self.load,
                "max_rate_bps": self.max_rate.0,
            }));
        }
        output::prose(&format!(
            "{sentences}{}\n{}\n{}",
            text::path_mtu(&self.path_mtu),
            text::validity(validity),
            text::load(&self.load, self.max_rate)
        ))
    }
}
