//! `longfat tune`: shows, plans, applies, reverts, checks and exports a host's settings for a long fat path.

mod text;

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use measurement::path::echoes;
use serde_json::json;
use tune::{Advice, Applied, Goal, HostFacts, HostPaths, Journal, RequestedSettings};
use units::{BitRate, Time};

use crate::{
    exit::{CheckState, Exit, chain},
    output,
};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.tune/1";

/// Options of `tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Rate of the path's slowest link: 10gbit [default: the speed of the device towards --host]
    #[arg(long, value_name = "RATE", help_heading = "The path")]
    rate: Option<BitRate>,
    /// Round-trip time: 50ms [default: measured to --host]
    #[arg(long, value_name = "TIME", help_heading = "The path")]
    rtt: Option<Time>,
    /// Measure the round-trip time to this host and use the device that leads there
    #[arg(long, help_heading = "The path")]
    host: Option<String>,
    /// Number of connections that share the rate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "The path")]
    streams: u32,
    /// Consider only this device; --apply then also sets its transmit queue, rings, offloads and interrupt
    /// coalescing until the next reboot
    #[arg(long, value_name = "DEVICE", help_heading = "The path")]
    device: Option<String>,
    /// Also decrease settings that are larger than advised
    #[arg(long, help_heading = "The path")]
    lower: bool,

    /// Show what --apply would change, and the file it would write
    #[arg(long, group = "action", help_heading = "Actions")]
    plan: bool,
    /// Set the sysctls and write /etc/sysctl.d/90-longfat.conf; with --device also the device's settings
    #[arg(long, group = "action", help_heading = "Actions")]
    apply: bool,
    /// Restore the settings that were in effect before --apply
    #[arg(long, group = "action", conflicts_with_all = ["rate", "rtt", "host", "device"], help_heading = "Actions")]
    revert: bool,
    /// Print one line and exit as a monitoring plugin: 0 OK; 1 WARNING if settings differ from those applied
    /// (with a path: from those advised); 2 CRITICAL if one of these limits throughput; 3 UNKNOWN if they
    /// cannot be checked
    #[arg(long, group = "action", help_heading = "Actions")]
    check: bool,
    /// Print the advice in another program's format
    #[arg(long, value_name = "FORMAT", group = "action", help_heading = "Actions")]
    export: Option<ExportFormat>,
    /// Change live values only and write no file; implied on hosts of a lab
    #[arg(long, help_heading = "Actions")]
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

impl From<ExportFormat> for tune::ExportFormat {
    fn from(format: ExportFormat) -> tune::ExportFormat {
        match format {
            ExportFormat::Sysctl => tune::ExportFormat::Sysctl,
            ExportFormat::NetworkManager => tune::ExportFormat::NetworkManager,
            ExportFormat::Ethtool => tune::ExportFormat::Ethtool,
            ExportFormat::Ansible => tune::ExportFormat::Ansible,
        }
    }
}

/// Runs the command. Without an action it shows the host's settings, and the advice if a path is given.
pub fn run(args: &TuneArgs, json: bool) -> anyhow::Result<()> {
    match run_action(args, json) {
        Err(error) if args.check && !matches!(error.downcast_ref(), Some(Exit::Check { .. })) => {
            let (state, message) = (CheckState::Unknown, chain(&error));
            if !json {
                output::prose(&format!("{}: {message}", state.word()))?;
            }
            Err(Exit::Check { state, message }.into())
        }
        other => other,
    }
}

fn run_action(args: &TuneArgs, json: bool) -> anyhow::Result<()> {
    if args.revert {
        return revert(&HostPaths::of_applied()?, json);
    }
    let facts = if args.check { tune::inspect().without_counters() } else { tune::inspect() };
    let goal = goal(args, &facts)?;
    let Some(goal) = goal else {
        return match (args.check, args.plan || args.apply || args.export.is_some()) {
            (true, _) => check_applied(&HostPaths::of_applied()?, &facts, json),
            (_, true) => Err(Exit::BadInput("specify the path: --rate and --rtt, or --host".into()).into()),
            _ if json => {
                output::json(&json!({ "schema": SCHEMA, "host": facts, "applied": applied_journal()? }))
            }
            _ => output::prose(&text::host(&facts, applied_journal()?.as_ref())),
        };
    };
    let advice = advise(&facts, &goal)?;
    let purpose = purpose(&goal);
    let requested = RequestedSettings::from_advice(&advice, &goal, &purpose);
    let requested = if args.device.is_some() { requested.with_devices(&advice) } else { requested };
    if args.check {
        return check_advised(&advice, &purpose, json);
    }
    if let Some(format) = args.export {
        let text = tune::export(&advice, format.into(), &purpose);
        return match json {
            true => output::json(&json!({ "schema": SCHEMA, "export": text })),
            false => output::prose(&text),
        };
    }
    if args.apply {
        return apply(&HostPaths::for_apply(args.live)?, &advice, &requested, json);
    }
    if json {
        return output::json(&document(&advice, &goal, if args.plan { None } else { Some(&facts) }));
    }
    output::prose(&match args.plan {
        true => text::plan(&advice, &HostPaths::for_apply(args.live)?, &requested),
        false => format!(
            "{}\n\n{}",
            text::host(&facts, applied_journal()?.as_ref()),
            text::advice(&advice, &purpose)
        ),
    })
}

/// The settings that were applied in this network namespace. A note reports those that cannot be shown.
fn applied_journal() -> anyhow::Result<Option<Journal>> {
    match Journal::read(&HostPaths::of_applied()?) {
        Err(error @ tune::Error::OtherNamespace { .. }) => {
            output::note(&format!("longfat: {error}"));
            Ok(None)
        }
        Err(error) if error.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            output::note(&format!("longfat: {error} (the applied settings are shown to root)"));
            Ok(None)
        }
        other => Ok(other?),
    }
}

/// The advice for a path. A path for which no value works is bad input.
pub fn advise(facts: &HostFacts, goal: &Goal) -> anyhow::Result<Advice> {
    tune::advise(facts, goal).map_err(|refusal| Exit::BadInput(refusal.to_string()).into())
}

/// A goal as text: `10 Gb/s x 20 ms, 4 streams`.
pub fn purpose(goal: &Goal) -> String {
    let streams = if goal.streams > 1 { format!(", {} streams", goal.streams) } else { String::new() };
    format!("{} x {}{streams}", goal.rate, goal.rtt)
}

/// Applies settings. A missing privilege has its own exit code.
pub fn set(roots: &HostPaths, requested: &RequestedSettings) -> anyhow::Result<Applied> {
    // Otherwise the journal would store the values of a killed run as the original ones.
    if let Some(note) = hosts::restore_left_settings_with_note() {
        output::note(&format!("longfat: {note}"));
    }
    refuse_during_run(&HostPaths::for_run()?)?;
    tune::apply(roots, requested, |_| {}).map_err(failure)
}

/// Refuses to change settings while those of a run are in effect: its values would count as the former ones,
/// and its end would undo the change. `run`: the paths of settings that runs change.
fn refuse_during_run(run: &HostPaths) -> anyhow::Result<()> {
    match run.journal_path().exists() {
        true => {
            let why = "a run has changed settings of this host and not restored them yet";
            Err(Exit::Failed(format!("{why}; try again when it has ended")).into())
        }
        false => Ok(()),
    }
}

/// The path of the options; `None` if none is given.
fn goal(args: &TuneArgs, facts: &HostFacts) -> anyhow::Result<Option<Goal>> {
    if args.rate.is_none() && args.rtt.is_none() && args.host.is_none() {
        return Ok(None);
    }
    let bad = |text: &str| anyhow::Error::from(Exit::BadInput(text.into()));
    if let Some(device) = &args.device
        && facts.device(device).is_none()
    {
        let names: Vec<&str> = facts.devices.iter().map(|device| device.name.as_str()).collect();
        return Err(bad(&format!("there is no device {device}; there are only {}", names.join(", "))));
    }
    let (mut device, mut rtt, mut rate) = (args.device.clone(), args.rtt, args.rate);
    if let Some(host) = &args.host {
        let address: IpAddr = echoes::address(host)?;
        device = device.or_else(|| tune::device_towards(address));
        if rtt.is_none() {
            let measured = echoes::round_trip(address).map_err(|error| {
                anyhow::Error::from(error).context("cannot measure the round-trip time; give it with --rtt")
            })?;
            output::note(&format!("longfat: the round-trip time to {host} is {measured}"));
            rtt = Some(measured);
        }
        if rate.is_none() {
            rate = device.as_deref().and_then(|name| facts.device(name)?.speed());
        }
    }
    let rate = rate.ok_or_else(|| {
        bad("specify the rate of the path, as in --rate 10gbit: no device reports its speed")
    })?;
    let rtt =
        rtt.ok_or_else(|| bad("specify the round-trip time, as in --rtt 50ms, or --host to measure it"))?;
    if rate.0 == 0 || rtt == Time::ZERO {
        return Err(bad("the rate and the round-trip time must be above zero"));
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

fn apply(
    roots: &HostPaths,
    advice: &Advice,
    requested: &RequestedSettings,
    json: bool,
) -> anyhow::Result<()> {
    if requested.settings.is_empty() {
        return match json {
            true => output::json(&json!({ "schema": SCHEMA, "applied": null })),
            false => output::prose(&format!("Nothing to change: the settings suit {}.", requested.purpose)),
        };
    }
    let applied = set(roots, requested)?;
    match json {
        true => output::json(&json!({
            "schema": SCHEMA, "applied": applied.journal, "refused": applied.rejected, "overriding": applied.overriding,
        })),
        false => output::prose(&text::applied(&applied, advice)),
    }
}

fn revert(roots: &HostPaths, json: bool) -> anyhow::Result<()> {
    // A run may have changed settings that had been applied before it, so its changes are restored first.
    let reverted_run = hosts::restore_left_settings().map_err(|error| match error {
        hosts::Error::Settings(error) => failure(error),
        other => other.into(),
    })?;
    refuse_during_run(&HostPaths::for_run()?)?;
    let reverted = tune::revert(roots, |_| {}).map_err(failure)?;
    if json {
        return output::json(
            &json!({ "schema": SCHEMA, "reverted": reverted, "reverted_run": reverted_run }),
        );
    }
    match (&reverted_run, &reverted) {
        (None, None) => output::text("Nothing to restore: longfat tune has changed nothing on this host."),
        (None, Some(reverted)) => output::prose(&text::reverted(reverted)),
        (Some(run), applied) => {
            let run = format!("Settings that a killed run had left changed:\n{}", text::reverted(run));
            let applied = applied.iter().map(text::reverted);
            output::prose(&std::iter::once(run).chain(applied).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Checks against the applied settings.
fn check_applied(roots: &HostPaths, facts: &HostFacts, json: bool) -> anyhow::Result<()> {
    let Some(differences) = tune::check(roots, facts).map_err(failure)? else {
        return Err(Exit::BadInput(
            "nothing was applied on this host; give --rate and --rtt to check against the advice".into(),
        )
        .into());
    };
    let found: Vec<Difference> = differences
        .iter()
        .map(|d| {
            let now = d.now.as_deref().unwrap_or("not there");
            Difference::new(&d.name, format!("{} is {now}, not {}", d.name, d.expected))
        })
        .collect();
    report_check(&found, "as applied", json!(differences), json)
}

/// Checks against the advice for a path.
fn check_advised(advice: &Advice, purpose: &str, json: bool) -> anyhow::Result<()> {
    let found: Vec<Difference> = advice
        .to_change()
        .map(|item| {
            let (name, now) = (item.target.name(), item.now.as_deref().unwrap_or("unknown"));
            Difference::new(&name, format!("{name} is {now}, not {}", item.advised))
        })
        .collect();
    let differences: Vec<_> = advice.to_change().collect();
    report_check(&found, &format!("as advised for {purpose}"), json!(differences), json)
}

/// A setting that is not as expected.
struct Difference {
    text: String,
    state: CheckState,
}

impl Difference {
    fn new(name: &str, text: String) -> Self {
        let state = if tune::limits_throughput(name) { CheckState::Critical } else { CheckState::Warning };
        Difference { text, state }
    }
}

/// Prints one line for monitoring; the worst difference determines the state.
fn report_check(
    found: &[Difference],
    expected: &str,
    differences: serde_json::Value,
    json: bool,
) -> anyhow::Result<()> {
    let is_critical = found.iter().any(|one| one.state == CheckState::Critical);
    let state = match found {
        [] => CheckState::Ok,
        _ if is_critical => CheckState::Critical,
        _ => CheckState::Warning,
    };
    let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
    let line = match found {
        [] => format!("all settings are {expected}"),
        _ => texts.join("; "),
    };
    match json {
        true => output::json(&json!({
            "schema": SCHEMA, "ok": found.is_empty(), "state": state.word(), "exit_code": state.code(),
            "differences": differences,
        }))?,
        false => output::prose(&format!("{}: {line}", state.word()))?,
    }
    match found.len() {
        0 => Ok(()),
        n => Err(Exit::Check { state, message: format!("{n} settings are not {expected}") }.into()),
    }
}

fn failure(error: tune::Error) -> anyhow::Error {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error.kind() {
        Some(PermissionDenied | ReadOnlyFilesystem) => {
            Exit::Missing(format!("{error} (changing settings needs root: try sudo)")).into()
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_not_changed_while_those_of_a_run_are_in_effect() {
        let directory = tempfile::tempdir().unwrap();
        let run = HostPaths { state_dir: directory.path().into(), ..HostPaths::for_run().unwrap() };
        refuse_during_run(&run).unwrap();
        std::fs::write(run.journal_path(), "{}").unwrap();
        let refused = refuse_during_run(&run).unwrap_err();
        assert!(refused.to_string().contains("when it has ended"), "{refused}");
    }
}
