//! `longfat run`: a scenario through one or several engines, into records, a table and the published figures.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::Args;
use lab::{Journal, TimeMode};
use scenario::Kind;
use schema::{PublishedVerdict, RunSummary, Summary};
use units::KernelVersion;
use view::{LoadedRun, ReportExtra};

use crate::{
    batch,
    engine::{Engine, Engines},
    exit::Exit,
    interrupt,
    job::{Asked, Job, Keep, Means, now},
    jobs::{Wanted, jobs},
    lab_command::clean_journal,
    lab_engine::{self, LabSetup},
    open::{parse_set, read_scenario},
    output,
    progress::Board,
    repeat::RepeatTime,
};

/// What to run, and how.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    file: PathBuf,
    /// Engines, separated by commas: model, sim, lab, or all for these three; and kernel, or kernel:VERSION as in
    /// kernel:6.1, the lab inside a guest kernel in virtual time (see `longfat kernel`)
    #[arg(long, value_delimiter = ',', default_value = "lab", value_name = "ENGINES")]
    engine: Vec<Engines>,
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
    let file = read_scenario(&args.file)?;
    file.check_runnable().map_err(Exit::Scenario)?;
    let asked = Asked {
        file: &file,
        path: &args.file,
        host: lab::host_info(),
        changed: !args.sets.is_empty(),
        kernel: args.kernel,
        traced: &args.trace,
    };
    let engines = Engines::chosen(&args.engine);
    let wanted = Wanted { engines: &engines, variants: &args.variant, sets: &args.sets, ..Wanted::default() };
    let jobs = jobs(&asked, &wanted)?;
    check_traced(&args.trace, &jobs)?;
    for job in jobs.iter().filter(|job| job.engine == Engine::Lab) {
        lab::check_flows(&job.scenario).map_err(lab_engine::failure)?;
    }
    let stop = interrupt::flag()?;
    let setup = match engines.contains(&Engine::Lab) {
        true => Some(lab_setup(args.ports)?),
        false => None,
    };
    let keep = match &args.report {
        Some(path) => {
            check_directory(path)?;
            Keep::RecordAndRows(runs_dir)
        }
        None => Keep::Record(runs_dir),
    };
    let board = Board::new(jobs.len());
    let means =
        Means { lab: setup.as_ref(), keep, board: &board, stop: &stop, repeat_time: RepeatTime::default() };
    let mut made = batch::make_all(&jobs, &means, args.jobs)?;
    drop(board);
    let failed = made.iter_mut().find_map(|one| one.failed.take());
    let runs: Vec<RunSummary> = made.iter().map(|m| m.summary.clone()).collect();
    let summary = asked.summary(runs);
    let told = match json {
        true => output::json(&summary),
        false => output::text(&tables(&summary, args.report.as_deref())),
    };
    if let Some(path) = &args.report {
        let loaded: Vec<LoadedRun> = made.into_iter().filter_map(|m| m.loaded).collect();
        let page = view::report(
            &summary,
            &loaded,
            &ReportExtra { made: Some(now()), command: Some(command_line()) },
        );
        output::file(path, page)?;
    }
    // How the work ended counts for more than whether somebody read of it.
    if let Some(error) = failed {
        return Err(error);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    missed(&summary)?;
    told
}

/// What is to be traced must be there.
fn check_traced(traced: &[String], jobs: &[Job<'_>]) -> anyhow::Result<()> {
    let simulated = || jobs.iter().filter(|job| job.engine == Engine::Sim);
    if !traced.is_empty() && simulated().next().is_none() {
        return Err(Exit::BadInput("--trace is the simulator's: add --engine sim".into()).into());
    }
    for (name, job) in traced.iter().flat_map(|name| simulated().map(move |job| (name, job))) {
        let mut tcp = job.scenario.flows.iter().filter(|flow| matches!(flow.kind, Kind::Tcp(_)));
        if !tcp.any(|flow| flow.name == *name) {
            return Err(Exit::BadInput(format!("--trace {name}: there is no TCP flow of this name")).into());
        }
    }
    Ok(())
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

/// Cleans up after dead labs and gets the right to make new ones.
pub fn lab_setup(ports: Option<lab::Backend>) -> anyhow::Result<LabSetup> {
    // Before the privilege: in a user namespace this user would look like root.
    let journal = Journal::of_this_user();
    if let Err(error) = clean_journal(&journal) {
        // What cannot be cleaned does not stand in the way of a new lab.
        output::note(&format!("longfat: {error}"));
    }
    let privilege = lab::acquire().map_err(lab_engine::failure)?;
    let backend = ports.unwrap_or_else(lab::Backend::for_this_machine);
    Ok(LabSetup { journal, privilege, time: TimeMode::Real, backend })
}

/// The tables for people.
fn tables(summary: &Summary, report: Option<&Path>) -> String {
    let mut text = format!("{}\n{}\n", summary.title, view::table::verdicts(&summary.runs));
    text.push_str(&view::table::datagrams(&summary.runs));
    let mut told: Vec<String> = Vec::new();
    for run in &summary.runs {
        let label = match &run.variant {
            Some(variant) => format!("{} {variant}", view::engine(run)),
            None => view::engine(run),
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
