//! `longfat diagnose HOST`: what limits TCP to a host, how that is known, and what to change.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use diagnosis::{Datagrams, Observed, Options, Ranking};
use schema::FlowSummary;
use serde_json::{Value, json};
use tune::{Goal, Roots, Wanted};
use units::{BitRate, Time, three_digits};

use crate::{
    diagnose_text, exit::Exit, interrupt, iperf_values, measured_path::MeasuredPath, output, path_facts,
    path_test::Tests, test_args::Identity, tune_command,
};

const SCHEMA: &str = "longfat.diagnosis/1";
/// Datagrams go no faster where nobody says what the path should carry.
const MAX_RATE: BitRate = BitRate(1_000_000_000);
/// Above what the path should carry, so that it shows when it does.
const OVER: f64 = 1.5;
/// Room for what the headers take, and a reserve.
const RESERVE: f64 = 1.2;
/// Ethernet with preamble and gap (IEEE 802.3).
const OVERHEAD: u32 = 38;
/// IPv4 and TCP with timestamps.
const HEADERS: u32 = 52;
/// UDP over IPv4 and over IPv6.
const DATAGRAM_HEADERS: (u32, u32) = (28, 48);
/// Where the device that leads there is not known.
const DEVICE_MTU: u32 = 1500;

/// Whom to diagnose the path to.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// The other end: a name or an address where `longfat serve` or `iperf3 -s` runs
    host: String,
    /// The server's port
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// What the path should carry, as in 10gbit; without it what this host's device does
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// How long the TCP test sends, in seconds or as in 500ms
    #[arg(short, long, value_name = "TIME", value_parser = iperf_values::time, default_value = "10")]
    time: Duration,
    /// Datagrams go no faster than this; without it half above what the path should carry, or 1 Gb/s
    #[arg(long, value_name = "RATE")]
    max_rate: Option<BitRate>,
    /// Send no datagrams: the path's rate stays unknown
    #[arg(long, conflicts_with = "max_rate")]
    no_datagrams: bool,
    #[command(flatten)]
    identity: Identity,
    /// The sender's congestion control
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion: Option<String>,
    /// Write the measured path as a scenario file, to be run in the simulator or the lab
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Tune this host for what was found, test again, and show both
    #[arg(long)]
    apply: bool,
    /// With --apply: change live values only and write no file
    #[arg(long, requires = "apply")]
    live: bool,
}

/// All that was found before anything was changed.
pub struct Diagnosis {
    /// As the user gave it.
    pub host: String,
    /// Where that is.
    pub address: IpAddr,
    /// What was asked for.
    pub options: Options,
    /// What was measured and read.
    pub seen: Observed,
    /// The device that leads there.
    pub device: Option<String>,
    /// What limits.
    pub ranking: Ranking,
}

/// The same test after tuning.
pub struct After {
    /// What was set.
    pub journal: tune::Journal,
    /// The test.
    pub flow: Option<FlowSummary>,
    /// What limits now.
    pub ranking: Ranking,
}

/// Diagnoses, and tunes where asked.
pub fn run(args: &DiagnoseArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    if [args.rate, args.max_rate].contains(&Some(BitRate(0))) {
        return Err(Exit::BadInput("a rate is above zero".into()).into());
    }
    let tests = Tests {
        host: &args.host,
        port: args.port,
        identity: &args.identity,
        runs_dir,
        stop,
        records: Vec::new(),
    };
    let mut path = MeasuredPath { tests, address: path_facts::address(&args.host)?, device_mtu: DEVICE_MTU };
    let found = diagnose(args, &mut path)?;
    if !json {
        output::text(&diagnose_text::diagnosis(&found))?;
    }
    if let Some(file) = &args.scenario {
        write_scenario(file, &found.ranking)?;
    }
    let after = if args.apply { tune(args, &found, &mut path)? } else { None };
    let records = &path.tests.records;
    match json {
        true => output::json(&document(&found, after.as_ref(), records)),
        false => output::text(&diagnose_text::ending(args.apply, &found, after.as_ref(), records)),
    }
}

fn write_scenario(file: &Path, ranking: &Ranking) -> anyhow::Result<()> {
    match &ranking.scenario {
        Some(text) => {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            output::note(&format!(
                "longfat: the measured path: {} (longfat run {0} --engine sim)",
                file.display()
            ));
        }
        None => output::note(&format!(
            "longfat: {} is not written: too little is known of the path to simulate it, or nothing limits there",
            file.display()
        )),
    }
    Ok(())
}

fn diagnose(args: &DiagnoseArgs, path: &mut MeasuredPath) -> anyhow::Result<Diagnosis> {
    let sender = tune::inspect();
    let device = tune::device_towards(&sender, path.address);
    let facts = device.as_deref().and_then(|name| sender.device(name));
    path.device_mtu = facts.map_or(DEVICE_MTU, |device| device.mtu);
    let expected = expected(args, facts, path.device_mtu);
    let max_rate = args.max_rate.unwrap_or_else(|| {
        expected.as_ref().map_or(MAX_RATE, |(goodput, _)| BitRate(three_digits(goodput * OVER)))
    });
    let headers = if path.address.is_ipv4() { DATAGRAM_HEADERS.0 } else { DATAGRAM_HEADERS.1 };
    let options = Options {
        from: "this host".into(),
        to: args.host.clone(),
        expected,
        max_rate,
        datagrams: !args.no_datagrams,
        datagram_headers: headers,
        // Probes have no way to say who asks.
        probes: !args.identity.is_given(),
        time: Time(u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX)),
        congestion: args.congestion.clone(),
    };
    let (seen, ranking) = diagnosis::diagnose(path, &options, Some(sender))?;
    Ok(Diagnosis { host: args.host.clone(), address: path.address, options, seen, device, ranking })
}

/// What the path should carry, as goodput, and who says so.
fn expected(args: &DiagnoseArgs, device: Option<&tune::Device>, mtu: u32) -> Option<(f64, String)> {
    let goodput = |rate| model::goodput_bps(rate, mtu.saturating_sub(HEADERS), HEADERS, OVERHEAD);
    if let Some(rate) = args.rate {
        return Some((goodput(rate), format!("--rate {rate}")));
    }
    let device = device?;
    let rate = BitRate(device.speed_mbps.known()?.saturating_mul(1_000_000));
    Some((goodput(rate), format!("the speed of {} ({rate})", device.name)))
}

/// Tunes this host for what was found and tests again; `None` where there is nothing to change.
fn tune(args: &DiagnoseArgs, found: &Diagnosis, path: &mut MeasuredPath) -> anyhow::Result<Option<After>> {
    let seen = &found.seen;
    let rate = seen.capacity.as_ref().map(|capacity| capacity.goodput_bps * RESERVE);
    let Some(rate) = rate.or(seen.expected.as_ref().map(|(goodput, _)| *goodput)) else {
        return Err(Exit::BadInput(
            "to tune for the path its rate must be known: leave --no-datagrams out, or give --rate".into(),
        )
        .into());
    };
    let goal = Goal {
        rate: BitRate(three_digits(rate)),
        rtt: seen.rtt,
        streams: 1,
        device: found.device.clone(),
        lower: false,
    };
    let sender = seen.sender.as_ref().expect("it was read before the tests");
    let advice = tune_command::advise(sender, &goal)?;
    if advice.changes().next().is_none() {
        return Ok(None);
    }
    let wanted = Wanted::of(&advice, &goal, &tune_command::purpose(&goal));
    let journal = tune_command::set(&Roots::to_apply(args.live)?, &wanted)?.journal;
    output::note(&format!("longfat: tuned; TCP again, for {} s", args.time.as_secs_f64()));
    let (again, ranking) = diagnosis::again(path, &found.options, seen, tune::inspect())?;
    Ok(Some(After { journal, ranking, flow: again.flow }))
}

fn document(found: &Diagnosis, after: Option<&After>, records: &[PathBuf]) -> Value {
    let seen = &found.seen;
    let datagrams = (seen.datagrams != Datagrams::default()).then_some(seen.datagrams);
    json!({
        "schema": SCHEMA,
        "host": found.host,
        "address": found.address,
        "device": found.device,
        "rtt_us": seen.rtt.as_micros_f64(),
        "mtu": seen.mtu,
        "mtu_black_hole": seen.mtu.has_black_hole(),
        "capacity": seen.capacity,
        "available": seen.available,
        "expected_goodput_bps": seen.expected.as_ref().map(|(bps, _)| bps),
        "datagrams_below_capacity": datagrams,
        "bdp_bytes": seen.bdp(),
        "outstanding_at_loss_bytes": seen.losses.map(|losses| losses.outstanding_bytes),
        "sender_busy": seen.sender_busy,
        "receiver_busy": seen.receiver_busy,
        "flow": seen.flow,
        "healthy": found.ranking.healthy,
        "limits": found.ranking.limits,
        "together": found.ranking.together,
        "scenario": found.ranking.scenario,
        "after": after.map(|after| json!({
            "applied": after.journal, "flow": after.flow, "healthy": after.ranking.healthy, "limits": after.ranking.limits,
        })),
        "here": seen.sender,
        "there": seen.receiver,
        "records": records,
    })
}
