//! `longfat diagnose HOST`: finds what limits TCP throughput to a host and how to fix it.

mod text;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use diagnosis::{Datagrams, Ranking};
use iperf3::reverse::LISTEN;
use measurement::path::{Diagnosis, DiagnosisRequest, MeasuredPath, Peer, TestSeries, diagnose, plan};
use record::RunsLocation;
use schema::FlowSummary;
use serde_json::{Value, json};
use tune::{HostPaths, RequestedSettings};
use units::{BitRate, Time};

use super::test::{args::Identity, reporter::ProgressNotes};
use crate::{commands, exit::Exit, interrupt, iperf3_values, output};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.diagnosis/1";

/// Options of `diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// The other end: a name or an address where `longfat serve` or `iperf3 -s` runs; `listen` if only that
    /// end can open connections (`longfat serve --reverse-connect` there)
    host: String,
    /// The server's port
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// Rate that the path should carry, as in 10gbit [default: the speed of this host's device]
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Duration of the TCP test, in seconds or as in 500ms
    #[arg(short, long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "10")]
    time: Duration,
    /// Maximum rate of datagrams [default: 1.5 times the expected rate, or 1 Gb/s]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<BitRate>,
    /// Send no datagrams; the path's rate stays unknown
    #[arg(long, conflicts_with = "max_rate")]
    no_datagrams: bool,
    #[command(flatten)]
    identity: Identity,
    /// The sender's congestion control
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion: Option<String>,
    /// Send without asking for confirmation (asked on a terminal only)
    #[arg(short, long)]
    yes: bool,
    /// Write the measured path as a scenario file for the simulator or the lab
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Tune this host for the path, test again, and show both results
    #[arg(long)]
    apply: bool,
    /// With --apply: change live values only and write no file
    #[arg(long, requires = "apply")]
    live: bool,
}

/// A repetition of the test after tuning.
pub struct After {
    /// The settings that were changed.
    pub journal: tune::Journal,
    /// The test.
    pub flow: Option<FlowSummary>,
    /// The limits after tuning.
    pub ranking: Ranking,
}

/// Runs the command.
pub fn run(args: &DiagnoseArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    if [args.rate, args.max_rate].contains(&Some(BitRate(0))) {
        return Err(Exit::BadInput("a rate must be above zero".into()).into());
    }
    let peer = Peer {
        host: args.host.clone(),
        port: args.port,
        credentials: args.identity.credentials()?,
        token: args.identity.token(&args.host)?,
    };
    let mut progress = ProgressNotes;
    let runs_dir = &runs.writable()?;
    let tests = TestSeries {
        peer,
        runs_dir,
        stop,
        progress: &mut progress,
        title: None,
        records: Vec::new(),
        main_record: None,
    };
    let mut path = MeasuredPath::new(tests)?;
    let request = DiagnosisRequest {
        rate: args.rate,
        max_rate: args.max_rate,
        datagrams: !args.no_datagrams,
        // Probe sessions support neither authentication nor reverse connections.
        probes: !args.identity.is_given(&args.host)? && args.host != LISTEN,
        time: Time::from_duration(args.time),
        congestion: args.congestion.clone(),
    };
    let plan = plan(&request, &mut path);
    let announcement = text::load(&args.host, &plan.options.load());
    output::note(&announcement);
    let must_confirm =
        !args.yes && !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if must_confirm && !is_agreed()? {
        return Ok(());
    }
    let found = diagnose(plan, &mut path)?;
    if !json {
        output::prose(&text::diagnosis(&found))?;
    }
    if let Some(file) = &args.scenario {
        write_scenario(file, &found.ranking)?;
    }
    let after = if args.apply { tune(args, &found, &mut path)? } else { None };
    let records: Vec<PathBuf> = path.tests.records.iter().map(|one| runs.name_of(one).into()).collect();
    match json {
        true => output::json(&document(&found, after.as_ref(), &records)),
        false => output::prose(&text::ending(args.apply, &found, after.as_ref(), &records)),
    }
}

/// Asks the user whether to continue. Enter means yes.
fn is_agreed() -> anyhow::Result<bool> {
    eprint!("Continue? [Y/n] ");
    let mut reply = String::new();
    let read = std::io::stdin().read_line(&mut reply).context("cannot read the reply")?;
    Ok(read > 0 && matches!(reply.trim().to_lowercase().as_str(), "" | "y" | "yes"))
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
            "longfat: {} is not written: too little is known about the path to simulate it, or nothing limits it",
            file.display()
        )),
    }
    Ok(())
}

/// Tunes this host for the path and tests again; `None` if there is nothing to change.
fn tune(args: &DiagnoseArgs, found: &Diagnosis, path: &mut MeasuredPath) -> anyhow::Result<Option<After>> {
    let observed = &found.observed;
    let goal = found.tuning_goal().ok_or_else(|| {
        Exit::BadInput("tuning needs the rate of the path: omit --no-datagrams, or give --rate".into())
    })?;
    let sender = observed.sender.as_ref().expect("read before the tests");
    let advice = commands::tune::advise(sender, &goal)?;
    if advice.changes().next().is_none() {
        return Ok(None);
    }
    let requested = RequestedSettings::from_advice(&advice, &goal, &commands::tune::purpose(&goal));
    let journal = commands::tune::set(&HostPaths::for_apply(args.live)?, &requested)?.journal;
    output::note(&format!("longfat: tuned; repeating the TCP test for {} s", args.time.as_secs_f64()));
    let (again, ranking) = diagnosis::repeat(path, &found.options, observed, tune::inspect())?;
    Ok(Some(After { journal, ranking, flow: again.flow }))
}

fn document(found: &Diagnosis, after: Option<&After>, records: &[PathBuf]) -> Value {
    let observed = &found.observed;
    let elsewhere = found.remedy_elsewhere(after.map_or(&found.ranking, |after| &after.ranking));
    let datagrams = (observed.datagrams != Datagrams::default()).then_some(observed.datagrams);
    json!({
        "schema": SCHEMA,
        "host": found.host,
        "address": found.address,
        "device": found.device,
        "rtt_us": observed.rtt.as_micros_f64(),
        "mtu": observed.mtu,
        "mtu_black_hole": observed.mtu.has_black_hole(),
        "capacity": observed.capacity,
        "available": observed.available,
        "expected_goodput_bps": observed.expected.as_ref().map(|(bps, _)| bps),
        "datagrams_below_capacity": datagrams,
        "bdp_bytes": observed.bdp(),
        "outstanding_at_loss_bytes": observed.losses.map(|losses| losses.outstanding_bytes),
        "sender_busy": observed.sender_busy,
        "receiver_busy": observed.receiver_busy,
        "flow": observed.flow,
        "healthy": found.ranking.healthy,
        "limits": found.ranking.limits,
        "together": found.ranking.together,
        "scenario": found.ranking.scenario,
        "after": after.map(|after| json!({
            "applied": after.journal, "flow": after.flow, "healthy": after.ranking.healthy, "limits": after.ranking.limits,
        })),
        "elsewhere": elsewhere.map(|one| json!({ "host": one.host, "kind": one.kind, "change": one.change })),
        "here": observed.sender,
        "there": observed.receiver,
        "records": records,
    })
}
