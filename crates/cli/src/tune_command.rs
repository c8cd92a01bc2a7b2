//! `longfat tune`: a host's settings for a long fat path: shown, planned, applied, reverted, checked, exported.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use serde_json::json;
use tune::{Advice, Applied, Format, Goal, HostFacts, Journal, Roots, Wanted};
use units::{BitRate, Time};

use crate::{exit::Exit, output, path_facts, tune_text};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.tune/1";

/// The path that the host is to be good for, and what to do.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Rate of the path's slowest link: 10gbit; without it that of the device towards --host
    #[arg(long, value_name = "RATE", help_heading = "The path")]
    rate: Option<BitRate>,
    /// Round-trip time: 50ms; without it that to --host
    #[arg(long, value_name = "TIME", help_heading = "The path")]
    rtt: Option<Time>,
    /// Measure the round-trip time to this host, and take the device that leads there
    #[arg(long, help_heading = "The path")]
    host: Option<String>,
    /// Connections that share the rate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "The path")]
    streams: u32,
    /// Look at this device alone; --apply then sets its transmit queue, rings and offloads as well, until the next restart
    #[arg(long, value_name = "DEVICE", help_heading = "The path")]
    device: Option<String>,
    /// Also make smaller what is larger than advised
    #[arg(long, help_heading = "The path")]
    lower: bool,

    /// Show what --apply would change, and the file it would write
    #[arg(long, group = "action", help_heading = "What to do")]
    plan: bool,
    /// Set the sysctls, and write /etc/sysctl.d/90-longfat.conf; with --device what can be set of that as well
    #[arg(long, group = "action", help_heading = "What to do")]
    apply: bool,
    /// Put everything back as it was before --apply
    #[arg(long, group = "action", conflicts_with_all = ["rate", "rtt", "host", "device"], help_heading = "What to do")]
    revert: bool,
    /// One line, and exit code 3 where the host is not as applied (with a path: not as advised)
    #[arg(long, group = "action", help_heading = "What to do")]
    check: bool,
    /// Print the advice as another program reads it
    #[arg(long, value_name = "FORMAT", group = "action", help_heading = "What to do")]
    export: Option<ExportFormat>,
    /// Change live values only and write no file; always so on a lab's host
    #[arg(long, help_heading = "What to do")]
    live: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Sysctl,
    #[value(name = "networkmanager")]
    NetworkManager,
    Ethtool,
    Ansible,
}

impl From<ExportFormat> for Format {
    fn from(format: ExportFormat) -> Format {
        match format {
            ExportFormat::Sysctl => Format::Sysctl,
            ExportFormat::NetworkManager => Format::NetworkManager,
            ExportFormat::Ethtool => Format::Ethtool,
            ExportFormat::Ansible => Format::Ansible,
        }
    }
}

/// Does what was asked for; without an action it shows the host, and the advice where a path is given.
pub fn run(args: &TuneArgs, json: bool) -> anyhow::Result<()> {
    if args.revert {
        return revert(&Roots::applied()?, json);
    }
    let facts = tune::inspect();
    let goal = goal(args, &facts)?;
    let Some(goal) = goal else {
        return match (args.check, args.plan || args.apply || args.export.is_some()) {
            (true, _) => check_applied(&Roots::applied()?, &facts, json),
            (_, true) => Err(Exit::BadInput("say for which path: --rate and --rtt, or --host".into()).into()),
            _ if json => output::json(
                &json!({ "schema": SCHEMA, "host": facts, "applied": Journal::read(&Roots::applied()?)? }),
            ),
            _ => output::text(&tune_text::host(&facts, Journal::read(&Roots::applied()?)?.as_ref())),
        };
    };
    let advice = advise(&facts, &goal)?;
    let purpose = purpose(&goal);
    let wanted = Wanted::of(&advice, &goal, &purpose);
    let wanted = if args.device.is_some() { wanted.with_devices(&advice) } else { wanted };
    if args.check {
        return check_advised(&advice, &purpose, json);
    }
    if let Some(format) = args.export {
        let text = tune::export(&advice, format.into(), &purpose);
        return match json {
            true => output::json(&json!({ "schema": SCHEMA, "export": text })),
            false => output::text(&text),
        };
    }
    if args.apply {
        return apply(&Roots::to_apply(args.live)?, &advice, &wanted, json);
    }
    if json {
        return output::json(&document(&advice, &goal, if args.plan { None } else { Some(&facts) }));
    }
    output::text(&match args.plan {
        true => tune_text::plan(&advice, &Roots::to_apply(args.live)?, &wanted),
        false => format!(
            "{}\n\n{}",
            tune_text::host(&facts, Journal::read(&Roots::applied()?)?.as_ref()),
            tune_text::advice(&advice, &purpose)
        ),
    })
}

/// The advice, or why no value works: that is a mistake in what was asked for.
pub fn advise(facts: &HostFacts, goal: &Goal) -> anyhow::Result<Advice> {
    tune::advise(facts, goal).map_err(|refusal| Exit::BadInput(refusal.to_string()).into())
}

/// A goal in words, as in `10 Gb/s x 20 ms, 4 streams`.
pub fn purpose(goal: &Goal) -> String {
    let streams = if goal.streams > 1 { format!(", {} streams", goal.streams) } else { String::new() };
    format!("{} x {}{streams}", goal.rate, goal.rtt)
}

/// Sets what is wanted. A missing privilege is the machine's lack, not a failure.
pub fn set(roots: &Roots, wanted: &Wanted) -> anyhow::Result<Applied> {
    tune::apply(roots, wanted, |_| {}).map_err(failure)
}

/// What the path is; `None` where nothing is said about it.
fn goal(args: &TuneArgs, facts: &HostFacts) -> anyhow::Result<Option<Goal>> {
    if args.rate.is_none() && args.rtt.is_none() && args.host.is_none() {
        return Ok(None);
    }
    let bad = |text: &str| anyhow::Error::from(Exit::BadInput(text.into()));
    if let Some(device) = &args.device
        && facts.device(device).is_none()
    {
        let names: Vec<&str> = facts.devices.iter().map(|device| device.name.as_str()).collect();
        return Err(bad(&format!("there is no device {device}; there are {}", names.join(", "))));
    }
    let (mut device, mut rtt, mut rate) = (args.device.clone(), args.rtt, args.rate);
    if let Some(host) = &args.host {
        let address: IpAddr = path_facts::address(host)?;
        device = device.or_else(|| tune::device_towards(facts, address));
        if rtt.is_none() {
            let measured = path_facts::round_trip(address)?;
            output::note(&format!("longfat: the round-trip time to {host} is {measured}"));
            rtt = Some(measured);
        }
        if rate.is_none() {
            let speed = device.as_deref().and_then(|name| facts.device(name)?.speed_mbps.known());
            rate = speed.map(|mbps| BitRate(mbps.saturating_mul(1_000_000)));
        }
    }
    let rate =
        rate.ok_or_else(|| bad("say how fast the path is, as in --rate 10gbit: no device here tells"))?;
    let rtt =
        rtt.ok_or_else(|| bad("say how long the path is, as in --rtt 50ms, or --host to measure it"))?;
    if rate.0 == 0 || rtt == Time::ZERO {
        return Err(bad("a path needs a rate and a round-trip time above zero"));
    }
    Ok(Some(Goal { rate, rtt, streams: args.streams, device, lower: args.lower }))
}

fn document(advice: &Advice, goal: &Goal, facts: Option<&HostFacts>) -> serde_json::Value {
    json!({
        "schema": SCHEMA,
        "rate_bps": goal.rate.0,
        "rtt_us": goal.rtt.as_micros_f64(),
        "streams": goal.streams,
        "advice": advice,
        "host": facts,
    })
}

fn apply(roots: &Roots, advice: &Advice, wanted: &Wanted, json: bool) -> anyhow::Result<()> {
    if wanted.settings.is_empty() {
        return match json {
            true => output::json(&json!({ "schema": SCHEMA, "applied": null })),
            false => output::text(&format!("Nothing to change: what can be set suits {}.", wanted.purpose)),
        };
    }
    let applied = set(roots, wanted)?;
    match json {
        true => {
            output::json(&json!({ "schema": SCHEMA, "applied": applied.journal, "refused": applied.refused }))
        }
        false => output::text(&tune_text::applied(&applied, advice)),
    }
}

fn revert(roots: &Roots, json: bool) -> anyhow::Result<()> {
    let reverted = tune::revert(roots, |_| {}).map_err(failure)?;
    match (json, &reverted) {
        (true, _) => output::json(&json!({ "schema": SCHEMA, "reverted": reverted })),
        (false, None) => output::text("Nothing to put back: longfat tune has changed nothing here."),
        (false, Some(reverted)) => output::text(&tune_text::reverted(reverted)),
    }
}

/// Against what was applied.
fn check_applied(roots: &Roots, facts: &HostFacts, json: bool) -> anyhow::Result<()> {
    let Some(differences) = tune::check(roots, facts).map_err(failure)? else {
        return Err(Exit::BadInput(
            "nothing was applied here; give --rate and --rtt to check against advice".into(),
        )
        .into());
    };
    let found: Vec<String> = differences
        .iter()
        .map(|d| format!("{} is {}, not {}", d.name, d.now.as_deref().unwrap_or("not there"), d.expected))
        .collect();
    let document = json!({ "schema": SCHEMA, "ok": found.is_empty(), "differences": differences });
    told(&found, "as applied", &document, json)
}

/// Against advice for a path.
fn check_advised(advice: &Advice, purpose: &str, json: bool) -> anyhow::Result<()> {
    let found: Vec<String> = advice
        .to_change()
        .map(|item| {
            let now = item.now.as_deref().unwrap_or("unknown");
            format!("{} is {now}, not {}", item.target.name(), item.advised)
        })
        .collect();
    let differences: Vec<_> = advice.to_change().collect();
    let document = json!({ "schema": SCHEMA, "ok": found.is_empty(), "differences": differences });
    told(&found, &format!("as advised for {purpose}"), &document, json)
}

/// One line for monitoring.
fn told(found: &[String], expected: &str, document: &serde_json::Value, json: bool) -> anyhow::Result<()> {
    let line = match found {
        [] => format!("OK: all settings are {expected}"),
        _ => format!("DIFFERS: {}", found.join("; ")),
    };
    match json {
        true => output::json(document)?,
        false => output::text(&line)?,
    }
    match found.len() {
        0 => Ok(()),
        n => Err(Exit::Missed(format!("{n} settings are not {expected}")).into()),
    }
}

fn failure(error: tune::Error) -> anyhow::Error {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error.kind() {
        Some(PermissionDenied | ReadOnlyFilesystem) => {
            Exit::Missing(format!("{error}. Settings are root's to change: try sudo")).into()
        }
        _ => error.into(),
    }
}
