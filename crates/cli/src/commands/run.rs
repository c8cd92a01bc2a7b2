//! `longfat run`: runs a scenario by one or several engines; prints what limited each flow and the published figures.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::Args;
use experiment::{
    CompletedRun, EngineChoice, EngineChoices, Experiment, LabSetup, Retention, RunOptions, Selection, now,
    run_all,
};
use schema::{PublishedVerdict, RunSummary, Summary};
use units::KernelVersion;
use view::{LoadedRun, ReportExtra};

use super::scenario::args::PathFlags;
use crate::{
    exit::Exit,
    interrupt,
    open::{experiment_of, parse_set},
    output,
    progress::ProgressDisplay,
};

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file, or the name of a built-in scenario (see `longfat scenario list`)
    file: Option<PathBuf>,
    /// Engines, separated by commas: model, sim, lab, or all for these three; kernel, or kernel:VERSION as in kernel:6.1,
    /// for the lab inside a guest kernel in virtual time (see `longfat kernel`)
    #[arg(long, value_delimiter = ',', default_value = "lab", value_name = "ENGINES")]
    engine: Vec<EngineChoices>,
    /// Run only these variants (repeatable, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    variant: Vec<String>,
    /// Change a value of the scenario, as in `--set duration=5s` or `--set links.s1-s2.forward.delay=50ms`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    sets: Vec<(String, String)>,
    /// How the lab's hosts are connected: tap, or packet (veth and packet sockets) [default: tap where /dev/net/tun can be
    /// opened]
    #[arg(long, value_name = "PORTS")]
    ports: Option<lab::Backend>,
    /// Linux version to simulate on hosts that specify none, as in 6.1 or 2.4 [default: this machine's]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
    /// Maximum number of parallel simulations and guests [default: one per processor]. Lab runs are never parallel
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Record each segment and ACK at the sender of this flow in trace.parquet (simulator, TCP; repeatable)
    #[arg(long, value_delimiter = ',', value_name = "FLOW")]
    trace: Vec<String>,
    /// Also write an HTML report of these runs
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    path: PathFlags,
}

/// Runs the scenario.
pub fn run(args: &RunArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let experiment = Experiment {
        kernel: args.kernel,
        traced: args.trace.clone(),
        sets: args.sets.clone(),
        ..experiment_of(args.file.as_deref(), &args.path)?
    };
    let engines = EngineChoices::chosen(&args.engine);
    let in_lab = engines.contains(&EngineChoice::Lab);
    let selection = Selection { engines, variants: args.variant.clone(), ..Selection::default() };
    let jobs = experiment.jobs(&selection)?;
    experiment.check(&jobs)?;
    let stop = interrupt::flag()?;
    let progress = ProgressDisplay::new();
    let setup = in_lab.then(|| LabSetup::acquire(args.ports, &progress)).transpose()?;
    let retention = match &args.report {
        Some(path) => {
            check_directory(path)?;
            Retention::RecordAndRows(runs_dir)
        }
        None => Retention::Record(runs_dir),
    };
    let options = RunOptions {
        lab: setup.as_ref(),
        retention,
        observer: &progress,
        stop: &stop,
        parallel_runs: args.jobs,
        ..RunOptions::default()
    };
    let mut completed = run_all(&jobs, &options)?;
    let failed = completed.iter_mut().find_map(|one| one.failed.take());
    let runs: Vec<RunSummary> = completed.iter().map(|run| run.summary.clone()).collect();
    let summary = experiment.summary(runs);
    let printed = match json {
        true => output::json(&summary),
        false => output::text(&tables(&summary, args.report.as_deref())),
    };
    if let Some(path) = &args.report {
        let loaded: Vec<LoadedRun> =
            completed.into_iter().filter_map(|run| loaded(&experiment, run)).collect();
        let page = view::report(
            &summary,
            &loaded,
            &ReportExtra { created: Some(now()), command: Some(command_line()) },
        );
        output::file(path, page)?;
    }
    // A failed run matters more than an error of printing.
    if let Some(error) = failed {
        return Err(error.into());
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    missed(&summary)?;
    printed
}

/// A run with its rows, for a report.
fn loaded(experiment: &Experiment, run: CompletedRun) -> Option<LoadedRun> {
    let rows = run.rows?;
    let summary = experiment.summary(vec![run.summary]);
    Some(LoadedRun::from_rows(summary, rows.record, rows.flows, rows.links, rows.events))
}

/// Refuses a report whose directory does not exist, before the runs start.
pub fn check_directory(report: &Path) -> anyhow::Result<()> {
    let directory = match report.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() && !report.is_dir() {
        return Ok(());
    }
    Err(Exit::BadInput(format!(
        "cannot write {}: its directory does not exist, or the path is a directory",
        report.display()
    ))
    .into())
}

/// This command line, for readers of a report.
pub fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// The tables and warnings as text.
fn tables(summary: &Summary, report: Option<&Path>) -> String {
    let mut text = format!("{}\n{}\n", summary.title, view::table::verdicts(&summary.runs));
    text.push_str(&view::table::datagrams(&summary.runs));
    let mut lines: Vec<String> = Vec::new();
    for run in &summary.runs {
        let label = match &run.variant {
            Some(variant) => format!("{} {variant}", run.engine_label()),
            None => run.engine_label(),
        };
        let unreliable = (!run.quality.is_reliable())
            .then(|| format!("{label}: unreliable measurement: {}\n", run.quality.reasons().join("; ")));
        let warnings = run.quality.warnings().iter().map(|warning| format!("{label}: warning: {warning}\n"));
        for line in unreliable.into_iter().chain(warnings) {
            // Several runs may have the same warning.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    text.push_str(&lines.concat());
    if !summary.published.is_empty() {
        text.push_str(&view::table::published(&summary.published));
    }
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    text
}

/// An error if a published figure was missed. Unreliable figures neither meet nor miss.
fn missed(summary: &Summary) -> anyhow::Result<()> {
    let missed: Vec<String> = summary
        .published
        .iter()
        .filter(|p| p.verdict == PublishedVerdict::Missed)
        .map(|p| format!("{} ({})", p.id, p.metric))
        .collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Exit::Missed(format!("published figures missed: {}", missed.join(", "))).into()),
    }
}
