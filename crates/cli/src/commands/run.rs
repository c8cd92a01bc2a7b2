//! `longfat run`: runs a scenario by one or several engines; prints what limited each flow and the published
//! figures.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use experiment::{
    CompletedRun, EngineChoice, EngineChoices, Experiment, LabSetup, Retention, RunOptions, Selection, now,
    path_comparison, run_all,
};
use record::RunsLocation;
use schema::{RunSummary, Summary};
use units::KernelVersion;
use view::{LoadedRun, ReportExtra};

use super::{completions::complete_scenario, real_hosts::RealHostFlags, records::check_page};
use crate::{
    config_file::{Config, RUNS_VARIABLE},
    exit::Exit,
    interrupt,
    open::{check_ports, experiment_of, parse_set, parse_simulated_kernel},
    output,
    path_flags::PathFlags,
    progress::ProgressDisplay,
    records_directory::RecordsDirectory,
    reliability::{require, require_published},
};

/// Maximum number of records that are listed one by one.
const MAX_RECORDS: usize = 6;

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file, or the name of a built-in scenario (see `longfat scenario list`)
    #[arg(add = ArgValueCompleter::new(complete_scenario))]
    file: Option<PathBuf>,
    /// Engines, separated by commas: model, sim, lab, or all for these three; kernel, or kernel:VERSION as in
    /// kernel:6.1, for the lab inside a guest kernel in virtual time (see `longfat kernel`); hosts for real
    /// hosts (see --at) [default: lab; see `longfat config`]
    #[arg(long, value_delimiter = ',', value_name = "ENGINES")]
    engine: Vec<EngineChoices>,
    /// Run only these variants (repeatable, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    variant: Vec<String>,
    /// Change a value of the scenario, as in `--set duration=5s` or `--set links.s1-s2.forward.delay=50ms`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    sets: Vec<(String, String)>,
    /// Number of runs, each with another seed [default: `repeat` of the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// How the lab's hosts are connected: tap, or packet (veth and packet sockets) [default: tap where
    /// /dev/net/tun can be opened]
    #[arg(long, value_name = "PORTS")]
    ports: Option<lab::Backend>,
    /// Linux version of hosts that specify none, in the simulator and the model, as in 6.1 or 2.4, with its
    /// default buffers [default: this machine's]
    #[arg(long, value_name = "VERSION", value_parser = parse_simulated_kernel)]
    kernel: Option<KernelVersion>,
    /// Maximum number of parallel simulations and guests [default: one per processor]. Lab runs are never
    /// parallel
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Record each segment and ACK at the sender of this flow in trace.parquet (simulator, TCP; repeatable)
    #[arg(long, value_delimiter = ',', value_name = "FLOW")]
    trace: Vec<String>,
    /// Also write an HTML report of these runs
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write no record of these runs
    #[arg(long, conflicts_with_all = ["report", "trace"])]
    no_record: bool,
    /// Exit with code 5 if a measurement is unreliable
    #[arg(long)]
    require_reliable: bool,
    #[command(flatten)]
    path: PathFlags,
    #[command(flatten)]
    real_hosts: RealHostFlags,
}

/// Runs the scenario.
pub fn run(args: &RunArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    check_page(args.report.as_deref())?;
    let experiment = Experiment {
        kernel: args.kernel,
        traced: args.trace.clone(),
        sets: args.sets.clone(),
        ..experiment_of(args.file.as_deref(), &args.path)?
    };
    let engines = match args.engine.is_empty() {
        true => EngineChoices::chosen(&[config.engines()?]),
        false => EngineChoices::chosen(&args.engine),
    };
    check_ports(args.ports, &engines)?;
    let in_lab = engines.contains(&EngineChoice::Lab);
    let selection =
        Selection { engines, variants: args.variant.clone(), repeat: args.repeat, ..Selection::default() };
    let jobs = experiment.jobs(&selection)?;
    experiment.check(&jobs)?;
    let records = RecordsDirectory::choose(runs, &selection.engines, args.no_record)?;
    if !args.trace.is_empty() {
        records.require_for("--trace")?;
    }
    let hosts = args.real_hosts.setup(&selection.engines, jobs.iter().map(|job| &job.scenario), config)?;
    args.real_hosts.check_load(&jobs, Duration::ZERO)?;
    let stop = interrupt::flag()?;
    let progress = ProgressDisplay::new();
    let setup = in_lab.then(|| LabSetup::acquire(args.ports, &progress)).transpose()?;
    if args.report.is_some() {
        records.require_for("--report")?;
    }
    let retention = match records.retention() {
        Retention::Record(directory) if args.report.is_some() => Retention::RecordAndRows(directory),
        retention => retention,
    };
    let options = RunOptions {
        lab: setup.as_ref(),
        hosts: hosts.as_ref(),
        retention,
        observer: &progress,
        stop: &stop,
        parallel_runs: args.jobs,
        ..RunOptions::default()
    };
    let mut completed = run_all(&jobs, &options)?;
    records.name_records(&mut completed);
    let failed = completed.iter_mut().find_map(|one| one.failed.take());
    let summaries: Vec<RunSummary> = completed.iter().map(|run| run.summary.clone()).collect();
    let summary = experiment.summary(summaries);
    let printed = match json {
        true => output::json(&summary),
        false => {
            let is_default = runs.to_string()
                == config.runs(std::env::var_os(RUNS_VARIABLE).as_deref().map(Path::new)).to_string();
            output::prose(&text(&summary, runs, is_default, args.report.as_deref()))
        }
    };
    if let Some(path) = &args.report {
        let loaded: Vec<LoadedRun> =
            completed.into_iter().filter_map(|run| loaded(&experiment, runs, run)).collect();
        let page = view::report(
            &summary,
            &loaded,
            &ReportExtra { created: Some(now()), command: Some(command_line()) },
        );
        output::file(path, config.theme().apply(page))?;
    }
    // The error of a failed run takes precedence over an error of printing.
    if let Some(error) = failed {
        return Err(error.into());
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    require_published(&summary.published)?;
    require(args.require_reliable, &summary.runs)?;
    printed
}

/// A run with its rows, for a report.
fn loaded(experiment: &Experiment, runs: &RunsLocation, run: CompletedRun) -> Option<LoadedRun> {
    let rows = run.rows?;
    let summary = experiment.summary(vec![run.summary]);
    Some(LoadedRun::from_rows(summary, runs.name_of(&rows.record?), rows.flows, rows.links, rows.events))
}

/// This command line, for the readers of a report.
pub fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// The results with their reasons and fixes, notes, published figures, and the location of the records.
fn text(summary: &Summary, runs: &RunsLocation, is_default: bool, report: Option<&Path>) -> String {
    let width = output::width();
    let mut text = format!("{}\n{}", summary.title, view::table::results(&summary.runs, width));
    text.push_str(&view::table::datagrams(&summary.runs, width));
    text.push_str(&view::table::streams(&summary.runs, width));
    text.push_str(&view::table::explanations(&summary.runs));
    text.push('\n');
    let mut lines: Vec<String> = Vec::new();
    for run in &summary.runs {
        let label = match &run.variant {
            Some(variant) => format!("{} {variant}", run.engine_label()),
            None => run.engine_label(),
        };
        if let Some(sentence) = path_comparison::sentence(&run.path) {
            lines.push(format!("{label}: {sentence}\n"));
        }
        let unreliable = (!run.quality.is_reliable())
            .then(|| format!("{label}: unreliable measurement: {}\n", run.quality.reasons().join("; ")));
        let warnings = run.quality.warnings().iter().map(|warning| format!("{label}: note: {warning}\n"));
        for line in unreliable.into_iter().chain(warnings) {
            // Several runs may have the same warning.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    text.push_str(&lines.concat());
    if !summary.published.is_empty() {
        text.push_str(&view::table::published(&summary.published, width));
    }
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    text + &records(summary, runs, is_default)
}

/// The records and the command that shows them; empty if no records were kept.
fn records(summary: &Summary, runs: &RunsLocation, is_default: bool) -> String {
    let records: Vec<&String> = summary.runs.iter().filter_map(|run| run.record.as_ref()).collect();
    let mut lines = match records.len() {
        0 => return String::new(),
        many if many > MAX_RECORDS => {
            vec![format!("{many} records: {runs}/{}", summary.scenario)]
        }
        _ => records.iter().map(|record| format!("record: {record}")).collect(),
    };
    let option = if is_default { String::new() } else { format!(" --runs {runs}") };
    lines.push(format!("for details: longfat{option} view last, or longfat{option} show last"));
    lines.join("\n") + "\n"
}
