//! `longfat probe`: what a path can carry, by trains of packets; each answer with its interval, and whether to believe it.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use perf::{
    iperf3::IpVersion,
    probe::{Session, SessionOptions},
    stamp::{self, Key, SenderOptions},
};
use probe::{Available, Buffer, Capacity, Chirps, Load, Method, MtuAnswer, Validity};
use serde::Serialize;
use serde_json::json;
use units::{BitRate, Time};

use crate::{exit::Exit, interrupt, iperf_values, output, probe_text};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.probe/1";
/// The largest packet that is tried, bytes of IP.
const MOST_MTU: u32 = 9216;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// What the narrowest link carries; with `longfat serve` at the other end
    Capacity(PeerArgs),
    /// What other traffic leaves of it; with `longfat serve` at the other end
    Available(AvailableArgs),
    /// What the queue before the narrowest link holds, and what kind of queue it is; with `longfat serve` at the other end
    Buffer(BufferArgs),
    /// The links one by one, and which of them is the narrowest; any host will do
    Hops(HostArgs),
    /// How long packets take each way, and how that varies; with a STAMP reflector there, as `longfat serve --stamp`
    Delay(DelayArgs),
    /// The largest packet that comes through; any host will do
    Mtu(HostArgs),
}

/// Any host.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The host
    host: String,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    version4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    version6: bool,
}

/// A reflector, and what is sent to it.
#[derive(Debug, Args)]
pub struct DelayArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The reflector's UDP port
    #[arg(short, long, default_value_t = perf::stamp::PORT)]
    port: u16,
    /// Packets to send
    #[arg(short = 'c', long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Between two packets
    #[arg(short, long, value_name = "TIME", value_parser = iperf_values::time, default_value = "50ms")]
    interval: Duration,
    /// Bytes of UDP payload
    #[arg(short, long, value_name = "BYTES", default_value_t = 44, value_parser = clap::value_parser!(u32).range(44..=9000))]
    length: u32,
    /// Authenticate with the key in this file (its bytes, a newline at the end left out)
    #[arg(long, value_name = "FILE")]
    stamp_key: Option<PathBuf>,
    /// The session's identifier (RFC 8972)
    #[arg(long, value_name = "N", default_value_t = 0)]
    ssid: u16,
}

/// The other end, and the load.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Host that runs `longfat serve`
    host: String,
    /// Its port
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// The most that is sent, averaged over any second; single trains are faster than the path, as they must be
    #[arg(long, value_name = "RATE", value_parser = iperf_values::rate, default_value = "100M")]
    max_rate: BitRate,
    /// Bytes of the largest packet, IP header included; the path MTU, which is found first, where that is smaller or this is not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(128..=9000))]
    mtu: Option<u32>,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    version4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    version6: bool,
    /// How long to wait for the server, and for its other clients
    #[arg(long, value_name = "TIME", value_parser = iperf_values::time, default_value = "60")]
    patience: Duration,
}

/// A probe of what is available.
#[derive(Debug, Args)]
pub struct AvailableArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// How: by streams of one rate each, or by trains that pass through all rates, which take a tenth of the load
    #[arg(long, value_enum, default_value_t = Way::Streams)]
    method: Way,
}

/// How to find what is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// As pathload
    Streams,
    /// As pathChirp
    Chirps,
}

/// A buffer's probe.
#[derive(Debug, Args)]
pub struct BufferArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Draw the last train's queueing delay against the packets' numbers as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Measures, and tells.
pub fn run(command: &ProbeCommand, json: bool) -> anyhow::Result<()> {
    match command {
        ProbeCommand::Capacity(args) => {
            let measured = measure("capacity", args, Capacity::new)?;
            measured.tell(json, &probe_text::capacity(&measured.answer), &measured.answer.validity)
        }
        ProbeCommand::Available(args) => {
            let measured = match args.method {
                Way::Streams => measure("available", &args.peer, Available::new)?,
                Way::Chirps => measure("available", &args.peer, Chirps::new)?,
            };
            measured.tell(json, &probe_text::available(&measured.answer), &measured.answer.validity)
        }
        ProbeCommand::Buffer(args) => {
            let measured = measure("buffer", &args.peer, Buffer::new)?;
            if let Some(file) = &args.plot {
                let svg = probe_text::buffer_plot(&measured.answer, &args.peer.host);
                std::fs::write(file, svg)
                    .map_err(|e| Exit::Failed(format!("cannot write {}: {e}", file.display())))?;
            }
            measured.tell(json, &probe_text::buffer(&measured.answer), &measured.answer.validity)
        }
        ProbeCommand::Hops(args) => {
            let answer = asked(args, perf::probe::hops)?;
            tell("hops", &args.host, &answer, json, &probe_text::hops(&answer), &answer.validity)
        }
        ProbeCommand::Mtu(args) => {
            let answer = asked(args, |to, stop, doing| perf::probe::mtu(to, MOST_MTU, stop, doing))?;
            tell("mtu", &args.host, &answer, json, &probe_text::mtu(&answer), &answer.validity)
        }
        ProbeCommand::Delay(args) => delay(args, json),
    }
}

/// Asks a host that need not know of it.
fn asked<A>(
    args: &HostArgs,
    ask: impl FnOnce(IpAddr, &AtomicBool, &mut dyn FnMut(&str)) -> Result<A, perf::probe::Error>,
) -> anyhow::Result<A> {
    let stop = interrupt::flag()?;
    let to = perf::probe::resolve(&args.host, args.ip()).map_err(|e| failed(&args.host, e))?;
    ask(to, &stop, &mut |doing| output::note(&format!("longfat: {doing}"))).map_err(|e| failed(&args.host, e))
}

fn delay(args: &DelayArgs, json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let host = &args.host.host;
    let to = perf::probe::resolve(host, args.host.ip()).map_err(|e| failed(host, e))?;
    let options = SenderOptions {
        to: SocketAddr::new(to, args.port),
        count: args.count,
        interval: Time(u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX)),
        payload: args.length as usize,
        key: args.stamp_key.as_deref().map(stamp_key).transpose()?,
        session: args.ssid,
        patience: Duration::from_secs(2),
    };
    output::note(&format!(
        "longfat: {} packets, one each {} ms",
        args.count,
        args.interval.as_secs_f64() * 1e3
    ));
    let answer = stamp::measure(&options, &stop, &mut |_| {})
        .with_context(|| format!("the probe of {host} failed"))?;
    tell("delay", host, &answer, json, &probe_text::delay(&answer), &answer.validity)?;
    match answer.rtt_ms {
        Some(_) => Ok(()),
        None => Err(Exit::Failed(format!(
            "nothing came back from {}: is there a reflector, as `longfat serve --stamp`, with the same key?",
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

impl HostArgs {
    fn ip(&self) -> Option<IpVersion> {
        version(self.version4, self.version6)
    }
}

fn version(v4: bool, v6: bool) -> Option<IpVersion> {
    match (v4, v6) {
        (true, _) => Some(IpVersion::V4),
        (_, true) => Some(IpVersion::V6),
        _ => None,
    }
}

fn failed(host: &str, error: perf::probe::Error) -> anyhow::Error {
    match error {
        perf::probe::Error::Link(perf::iperf3::Error::Interrupted) => Exit::Interrupted.into(),
        error @ perf::probe::Error::TooLarge { .. } => Exit::BadInput(error.to_string()).into(),
        error => anyhow::Error::new(error).context(format!("the probe of {host} failed")),
    }
}

/// Tells what a probe without a limit on its load found: it sends little.
fn tell(
    kind: &str,
    host: &str,
    answer: &impl Serialize,
    json: bool,
    sentences: &str,
    validity: &Validity,
) -> anyhow::Result<()> {
    match json {
        true => output::json(&json!({ "schema": SCHEMA, "kind": kind, "host": host, "answer": answer })),
        false => output::text(&format!("{sentences}\n{}", probe_text::validity(validity))),
    }
}

/// An answer, and what it cost.
struct Measured<A> {
    kind: &'static str,
    host: String,
    answer: A,
    path_mtu: MtuAnswer,
    load: Load,
    max_rate: BitRate,
}

fn measure<M: Method>(
    kind: &'static str,
    args: &PeerArgs,
    method: impl FnOnce(probe::Limits) -> M,
) -> anyhow::Result<Measured<M::Answer>> {
    let stop = interrupt::flag()?;
    let options = SessionOptions {
        host: args.host.clone(),
        port: args.port,
        ip: version(args.version4, args.version6),
        max_rate: args.max_rate,
        mtu: args.mtu,
        patience: args.patience,
    };
    let failed = |error| failed(&args.host, error);
    output::note("longfat: the path's MTU");
    let mut session = Session::open(&options, &stop).map_err(failed)?;
    let limits = session.limits();
    if !allows_trains(limits) {
        return Err(Exit::BadInput(format!(
            "--max-rate {} allows less than 64 packets of {} bytes a second",
            args.max_rate, limits.mtu
        ))
        .into());
    }
    let mut method = method(limits);
    let answer = session
        .run(&mut method, &stop, &mut |doing| output::note(&format!("longfat: {doing}")))
        .map_err(failed)?;
    let path_mtu = session.path_mtu().clone();
    let load = session.load();
    Ok(Measured { kind, host: args.host.clone(), answer, path_mtu, load, max_rate: args.max_rate })
}

/// A second's limit has room for the shortest trains.
pub fn allows_trains(limits: probe::Limits) -> bool {
    limits.most_bytes >= 64 * u64::from(limits.mtu)
}

impl<A: Serialize> Measured<A> {
    fn tell(&self, json: bool, sentences: &str, validity: &Validity) -> anyhow::Result<()> {
        if json {
            return output::json(&json!({
                "schema": SCHEMA,
                "kind": self.kind,
                "host": self.host,
                "answer": self.answer,
                "path_mtu": self.path_mtu,
                "load": self.load,
                "max_rate_bps": self.max_rate.0,
            }));
        }
        output::text(&format!(
            "{sentences}{}\n{}\n{}",
            probe_text::path_mtu(&self.path_mtu),
            probe_text::validity(validity),
            probe_text::load(&self.load, self.max_rate)
        ))
    }
}
