//! `longfat probe`: what a path can carry, by trains of packets; each answer with its interval, and whether to believe it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use perf::{
    iperf3::IpVersion,
    probe::{Session, SessionOptions},
};
use probe::{Available, Buffer, Capacity, Load, Method, Validity};
use serde::Serialize;
use serde_json::json;
use units::BitRate;

use crate::{exit::Exit, interrupt, iperf_values, output, probe_text};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.probe/1";

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// What the narrowest link carries; with `longfat serve` at the other end
    Capacity(PeerArgs),
    /// What other traffic leaves of it; with `longfat serve` at the other end
    Available(PeerArgs),
    /// What the queue before the narrowest link holds, and what kind of queue it is; with `longfat serve` at the other end
    Buffer(BufferArgs),
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
    /// Bytes of the largest packet, IP header included; what the route takes where it is not given
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
            let measured = measure("available", args, Available::new)?;
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
    }
}

/// An answer, and what it cost.
struct Measured<A> {
    kind: &'static str,
    host: String,
    answer: A,
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
        ip: match (args.version4, args.version6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        },
        max_rate: args.max_rate,
        mtu: args.mtu,
        patience: args.patience,
    };
    let failed = |error: perf::probe::Error| match error {
        perf::probe::Error::Link(perf::iperf3::Error::Interrupted) => Exit::Interrupted.into(),
        error => anyhow::Error::new(error).context(format!("the probe of {} failed", args.host)),
    };
    let mut session = Session::open(&options, &stop).map_err(failed)?;
    let limits = session.limits();
    if limits.most_bytes < 64 * u64::from(limits.mtu) {
        return Err(Exit::BadInput(format!(
            "--max-rate {} allows less than 64 packets of {} bytes a second",
            args.max_rate, limits.mtu
        ))
        .into());
    }
    let mut method = method(limits);
    let answer =
        session.run(&mut method, &stop, &mut |doing| output::note(&format!("longfat: {doing}"))).map_err(failed)?;
    Ok(Measured { kind, host: args.host.clone(), answer, load: session.load(), max_rate: args.max_rate })
}

impl<A: Serialize> Measured<A> {
    fn tell(&self, json: bool, sentences: &str, validity: &Validity) -> anyhow::Result<()> {
        if json {
            return output::json(&json!({
                "schema": SCHEMA,
                "kind": self.kind,
                "host": self.host,
                "answer": self.answer,
                "load": self.load,
                "max_rate_bps": self.max_rate.0,
            }));
        }
        output::text(&format!(
            "{sentences}\n{}\n{}",
            probe_text::validity(validity),
            probe_text::load(&self.load, self.max_rate)
        ))
    }
}

