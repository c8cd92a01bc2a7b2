//! `longfat ls`, `rm` and `prune`: the list of recorded runs, and their removal.

use std::num::NonZeroUsize;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use experiment::{compact, since};
use record::{Error, RunEntry, RunFilter, RunsLocation, is_part, to_prune};
use serde_json::json;
use view::{RunItem, table::RunColumns};

use crate::{
    commands::completions::{complete_run, scenario_candidates},
    exit::Exit,
    output,
};

/// Options of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Only runs of this scenario
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(scenario_candidates))]
    scenario: Option<String>,
    /// Only runs of this engine: model, sim, lab, kernel, kernel:6.1, test, ...
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Only runs that started since this time: 90min, 2h, 7d, or a date such as 2026-11-21 or
    /// 2026-11-21T15:00
    #[arg(long, value_name = "TIME", value_parser = instant)]
    since: Option<String>,
    /// Only the newest N of the selected runs
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Also list auxiliary runs: the bursts of datagrams of `longfat diagnose`
    #[arg(short, long)]
    all: bool,
    /// Also show the scenario file and the record's directory
    #[arg(short, long)]
    long: bool,
}

/// Options of `rm`.
#[derive(Debug, Args)]
pub struct RmArgs {
    /// Runs: ids or their prefixes, scenario/id, records' directories, `last`, `last~1`
    #[arg(required = true, value_name = "RUN", add = ArgValueCompleter::new(complete_run))]
    keys: Vec<String>,
}

/// Options of `prune`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("criterion").required(true).multiple(true))]
pub struct PruneArgs {
    /// Keep the newest N runs
    #[arg(long, value_name = "N", group = "criterion")]
    keep: Option<usize>,
    /// Remove only runs that started before this time: 12h, 30d, or a date
    #[arg(long, value_name = "TIME", value_parser = instant, group = "criterion")]
    older_than: Option<String>,
    /// Only runs of this scenario: the others are neither removed nor counted
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(scenario_candidates))]
    scenario: Option<String>,
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Runs `ls`.
pub fn ls(args: &LsArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let filter = RunFilter {
        scenario: args.scenario.clone(),
        engine: args.engine.clone(),
        since: args.since.clone(),
        hides_parts: !args.all,
        limit: args.limit.map(NonZeroUsize::get),
    };
    let all = runs.list()?;
    let count = all.len();
    let with_parts = RunFilter { hides_parts: false, ..filter.clone() };
    let is_hidden = |entry: &&RunEntry| !args.all && is_part(entry) && with_parts.selects(entry);
    let hidden = all.iter().filter(is_hidden).count();
    let entries = filter.apply(all);
    if json {
        return output::json(&entries.iter().map(RunItem::of).collect::<Vec<_>>());
    }
    if entries.is_empty() && count > 0 {
        return output::text(&format!("none of the {count} runs matches"));
    }
    let columns = if args.long { RunColumns::Long } else { RunColumns::Short };
    output::text(&view::table::runs(&entries, columns, output::width()))?;
    if hidden > 0 {
        output::note(&format!("not listed: {} of diagnoses (longfat ls --all)", bursts(hidden)));
    }
    Ok(())
}

/// Runs `rm`: all named runs are found first, so that a mistake removes nothing.
pub fn rm(args: &RmArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let mut entries: Vec<RunEntry> = Vec::new();
    for key in &args.keys {
        let entry = runs.find_entry(key).map_err(|error| Exit::BadInput(error.to_string()))?;
        if entries.iter().all(|known| known.path != entry.path) {
            entries.push(entry);
        }
    }
    let mut removed = Vec::new();
    for entry in &entries {
        match runs.remove(entry) {
            Ok(()) => removed.push(entry.name()),
            Err(error @ (Error::InUse { .. } | Error::NotRecord { .. })) => {
                return Err(Exit::BadInput(with_removed(&error.to_string(), &removed)).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    report_removed(&removed, &[], json)
}

/// Runs `prune`.
pub fn prune(args: &PruneArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let filter = RunFilter { scenario: args.scenario.clone(), ..RunFilter::default() };
    let entries = filter.apply(runs.list()?);
    let chosen = to_prune(entries, args.keep.unwrap_or(0), args.older_than.as_deref());
    if args.dry_run {
        let names: Vec<String> = chosen.iter().map(RunEntry::name).collect();
        if json {
            return output::json(&json!({ "would_remove": names }));
        }
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        return output::text(&format!("{lines}would remove {}", count(names.len())));
    }
    let (mut removed, mut skipped) = (Vec::new(), Vec::new());
    for entry in &chosen {
        match runs.remove(entry) {
            Ok(()) => removed.push(entry.name()),
            Err(Error::InUse { name }) => skipped.push(name),
            Err(error) => return Err(error.into()),
        }
    }
    report_removed(&removed, &skipped, json)
}

/// The removed runs, and those that were skipped because they are being written.
fn report_removed(removed: &[String], skipped: &[String], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&json!({ "removed": removed, "skipped": skipped }));
    }
    for name in skipped {
        output::note(&format!("longfat: skipped {name}: it is being written"));
    }
    match removed {
        [one] => output::text(&format!("removed {one}")),
        several => output::text(&format!("removed {}", count(several.len()))),
    }
}

fn bursts(runs: usize) -> String {
    if runs == 1 { "1 burst of datagrams".to_owned() } else { format!("{runs} bursts of datagrams") }
}

fn count(runs: usize) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

/// An error, and the runs removed before it.
fn with_removed(error: &str, removed: &[String]) -> String {
    match removed.len() {
        0 => error.to_owned(),
        _ => format!("{error} (removed before: {})", removed.join(", ")),
    }
}

/// An instant in the form of ids.
fn instant(text: &str) -> Result<String, String> {
    since(text).map(|instant| compact(&instant))
}
