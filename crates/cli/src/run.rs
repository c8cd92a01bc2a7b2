//! `longfat run`: a scenario through one or several engines, into records, a table and the published figures.

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

use crate::{
    exit::Exit,
    interrupt,
    open::{parse_set, read_experiment},
    output,
    progress::ProgressDisplay,
};

/// What to run, and how.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    file: PathBuf,
    /// Engines, separated by commas: model, sim, lab, or all for these three; and kernel, or kernel:VERSION as in
    /// kernel:6.1, the lab inside a guest kernel in virtual time (see `longfat kernel`)
    #[arg(long, value_delimiter = ',', default_value = "lab", value_name = "ENGINES")]
    engine: Vec<EngineChoices>,
    /// Only these variants (may be given several times, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    variant: Vec<String>,
    /// Change a value of the scenario, as in `--set duration=5s` or `--set links.s1-s2.forward.delay=50ms`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    sets: Vec<(String, String)>,
    /// How the lab's hosts are connected: tap, or packet (veth and packet sockets). Without it: tap
    /// where /dev/net/tun may be opened
    #[arg(long, value_name = "PORTS")]
    ports: Option<lab::Backend>,
    /// The Linux version that is simulated on hosts that name none, as in 6.1 or 2.4; without it this machine's
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
    /// How many simulations to make side by side; without it one on each processor. The lab's runs are made one
    /// after another in any case
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Keep each segment that this flow's sender sends and each ACK that comes to it, in trace.parquet (simulator, TCP;
    /// may be given several times)
    #[arg(long, value_delimiter = ',', value_name = "FLOW")]
    trace: Vec<String>,
    /// Also write a report of all these runs
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the scenario.
pub fn run(args: &RunArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let experiment = Experiment {
        kernel: args.kernel,
        traced: args.trace.clone(),
        sets: args.sets.clone(),
        ..read_experiment(&args.file)?
    };
    let engines = EngineChoices::chosen(&args.engine);
    let in_lab = engines.contains(&EngineChoice::Lab);
    let selection = Selection { engines, variants: args.variant.clone(), ..Selection::default() };
    let jobs = experiment.jobs(&selection)?;
    experiment.check(&jobs)?;
    let stop = interrupt::flag()?;
    let progress = ProgressDisplay::new();
    let setup = match in_lab {
        true => Some(LabSetup::acquire(args.ports, &progress)?),
        false => None,
    };
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
        side_by_side: args.jobs,
        ..RunOptions::default()
    };
    let mut made = run_all(&jobs, &options)?;
    let failed = made.iter_mut().find_map(|one| one.failed.take());
    let runs: Vec<RunSummary> = made.iter().map(|m| m.summary.clone()).collect();
    let summary = experiment.summary(runs);
    let told = match json {
        true => output::json(&summary),
        false => output::text(&tables(&summary, args.report.as_deref())),
    };
    if let Some(path) = &args.report {
        let loaded: Vec<LoadedRun> = made.into_iter().filter_map(|made| loaded(&experiment, made)).collect();
        let page = view::report(
            &summary,
            &loaded,
            &ReportExtra { made: Some(now()), command: Some(command_line()) },
        );
        output::file(path, page)?;
    }
    // How the work ended counts for more than whether somebody read of it.
    if let Some(error) = failed {
        return Err(error.into());
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    missed(&summary)?;
    told
}

/// A run with its rows, for a report.
fn loaded(experiment: &Experiment, made: CompletedRun) -> Option<LoadedRun> {
    let rows = made.rows?;
    let summary = experiment.summary(vec![made.summary]);
    Some(LoadedRun::from_rows(summary, rows.record, rows.flows, rows.links, rows.events))
}

/// A report's directory must be there: better known before the runs than after them.
pub fn check_directory(report: &Path) -> anyhow::Result<()> {
    let directory = match report.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() && !report.is_dir() {
        return Ok(());
    }
    Err(Exit::BadInput(format!(
        "cannot write {}: no such directory, or a directory itself",
        report.display()
    ))
    .into())
}

/// This command, for a reader who wants to repeat it.
pub fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// The tables for people.
fn tables(summary: &Summary, report: Option<&Path>) -> String {
    let mut text = format!("{}\n{}\n", summary.title, view::table::verdicts(&summary.runs));
    text.push_str(&view::table::datagrams(&summary.runs));
    let mut told: Vec<String> = Vec::new();
    for run in &summary.runs {
        let label = match &run.variant {
            Some(variant) => format!("{} {variant}", run.engine_label()),
            None => run.engine_label(),
        };
        let unreliable = (!run.quality.ok)
            .then(|| format!("{label}: unreliable measurement: {}\n", run.quality.reasons().join("; ")));
        let warnings = run.quality.warnings().iter().map(|warning| format!("{label}: warning: {warning}\n"));
        for line in unreliable.into_iter().chain(warnings) {
            // Of many runs the same is true.
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    text.push_str(&told.concat());
    if !summary.published.is_empty() {
        text.push_str(&view::table::published(&summary.published));
    }
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    text
}

/// An error where a published figure should have been met and was not. An unreliable figure proves nothing either way.
fn missed(summary: &Summary) -> anyhow::Result<()> {
    let missed: Vec<String> = summary
        .published
        .iter()
        .filter(|p| p.verdict == PublishedVerdict::Missed)
        .map(|p| format!("{} ({})", p.id, p.metric))
        .collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Exit::Missed(format!("missed what was published: {}", missed.join(", "))).into()),
    }
}
