//! `longfat reproduce`: compares model, simulator and lab with the published figures.

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, sync::atomic::Ordering, time::Duration};

use clap::Args;
use experiment::{
    CompletedRun, EngineChoice, EngineChoices, Error, Experiment, Job, LabSetup, Retention, RunOptions, now,
    reproduce::{CATALOGUE, Plan, SkippedRun, coverage, experiments, recorded, studies},
    run_each,
};
use record::{Run, RunsLocation};
use schema::{RunSummary, Summary, nearest_names};
use serde_json::json;
use units::Time;
use view::{
    LoadedRun, ReportExtra, Reproduced,
    reproduced_tables::{self, PagePart},
};

use super::{
    real_hosts::RealHostFlags,
    records::{check_directory, check_page},
    run::command_line,
};
use crate::{
    config_file::Config,
    exit::Exit,
    interrupt, output,
    progress::ProgressDisplay,
    records_directory::RecordsDirectory,
    reliability::{require, require_published},
};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.reproduce/1";

/// Options of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Ids of published results (L8-default) or prefixes of ids (L8, G) [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Engines, separated by commas: model, sim, lab (for 10 min, or see --lab), kernel or kernel:VERSION (a
    /// guest kernel in virtual time), and hosts for real hosts (see --at): the experiments whose hosts all
    /// have an address
    #[arg(long, value_delimiter = ',', default_value = "model,sim", value_name = "ENGINES")]
    engine: Vec<EngineChoices>,
    /// Also run in the lab, shortest experiments first, as many as fit in this time (10 min if none is given)
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10min", require_equals = true)]
    lab: Option<Time>,
    /// Judge recorded runs of the lab and of guests again instead of repeating them: complete, reliable ones
    /// with the same settings, machine and kernel, recorded since the program was built
    #[arg(long)]
    reuse: bool,
    /// Use the scenarios of this directory instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Maximum number of parallel simulations and guests [default: one per processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Skip simulations that are longer than this virtual time (those of pairs of flows last up to 7000 s)
    #[arg(long, value_name = "TIME")]
    longest_sim: Option<Time>,
    /// Also write an HTML page with all tables and plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also write the tables to a Markdown file: between its markers, or to a new file (as for
    /// docs/reproduced.md). Without model and sim, the tables of real kernels, which have other markers
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Exit with code 5 if a measurement is unreliable
    #[arg(long)]
    require_reliable: bool,
    #[command(flatten)]
    real_hosts: RealHostFlags,
}

/// Runs the command.
pub fn run(args: &ReproduceArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    check_page(args.report.as_deref())?;
    let requested = requested_ids(&args.ids)?;
    let mut engines = EngineChoices::chosen(&args.engine);
    let lab = args.lab.or(engines.contains(&EngineChoice::Lab).then_some(Time::from_secs(600)));
    engines.retain(|engine| *engine != EngineChoice::Lab);
    let experiments = experiments(args.dir.as_deref())?;
    let locations = args.real_hosts.locations();
    let mut plan = Plan::new(&experiments, &requested, &engines, lab, args.longest_sim, &locations)?;
    let hosts = args.real_hosts.setup(&engines, plan.jobs.iter().map(|job| &job.scenario), config)?;
    args.real_hosts.check_load(&plan.jobs, Duration::ZERO)?;
    let is_computed = engines.iter().any(EngineChoice::is_computed);
    let part = if is_computed { PagePart::Computed } else { PagePart::RealKernels };
    let markdown = args.markdown.as_ref().map(|path| MarkdownPage::open(path, args, part)).transpose()?;
    let job_engines: Vec<EngineChoice> = plan.jobs.iter().map(|job| job.engine.clone()).collect();
    let records = RecordsDirectory::choose(runs, &job_engines, false)?;
    if args.report.is_some() {
        records.require_for("--report")?;
    }
    let stop = interrupt::flag()?;
    let progress = ProgressDisplay::new();
    let setup = plan.needs_lab().then(|| LabSetup::acquire(None, &progress)).transpose()?;
    let options = RunOptions {
        lab: setup.as_ref(),
        hosts: hosts.as_ref(),
        retention: records.retention(),
        observer: &progress,
        stop: &stop,
        parallel_runs: args.jobs,
        ..RunOptions::default()
    };
    let known = match args.reuse {
        true => recorded(&plan.jobs, runs)?,
        false => vec![None; plan.jobs.len()],
    };
    let executed = execute(&plan, known, &options)?;
    executed.failures.iter().for_each(|(index, error)| plan.note_failed(*index, error));
    let mut completed = executed.runs;
    completed.iter_mut().flatten().for_each(|run| records.name_records(std::slice::from_mut(run)));
    let failed = executed.failures.into_iter().next().map(|(_, error)| error);
    let summaries = summaries(&experiments, &plan, &completed);
    let results = results(&requested, &experiments, &plan, &summaries);
    let printed = match json {
        true => output::json(&document(&lab::host_info(), &results, &summaries, &plan.skipped)),
        false => {
            let mut text = reproduced_tables::reproduced(&results, output::width());
            plan.skipped.iter().for_each(|run| text.push_str(&format!("not run: {run}\n")));
            output::prose(&text)
        }
    };
    if let Some(path) = &args.report {
        let mut sections = scenario_sections(&summaries, runs)?;
        if engines.contains(&EngineChoice::Sim) && !stop.load(Ordering::Relaxed) {
            let options = RunOptions { retention: Retention::Nothing, ..options };
            sections.extend(sensitivity_sections(&requested, &experiments, &options)?);
        }
        let extra = ReportExtra { created: Some(now()), command: Some(command_line()) };
        let page = view::reproduction(&results, &sections, &extra);
        output::file(path, config.theme().apply(page))?;
        output::note(&format!("report: {}", path.display()));
    }
    // The tables of real kernels state which runs failed.
    let is_complete = failed.is_none() || part == PagePart::RealKernels;
    if let Some(page) = markdown.filter(|_| is_complete && !stop.load(Ordering::Relaxed)) {
        page.write(&results)?;
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    require_published(results.iter().flat_map(|result| &result.figures).map(|one| &one.figure))?;
    require(args.require_reliable, summaries.iter().flat_map(|summary| &summary.runs))?;
    printed
}

/// The runs of a plan.
struct Executed {
    /// Recorded and executed runs in the order of the jobs; `None`: failed or not executed.
    runs: Vec<Option<CompletedRun>>,
    /// The indexes of the jobs that failed, also of single flows, with their errors.
    failures: Vec<(usize, Error)>,
}

/// Executes the jobs without a recorded run in `known`.
fn execute(
    plan: &Plan<'_>,
    known: Vec<Option<RunSummary>>,
    options: &RunOptions<'_>,
) -> anyhow::Result<Executed> {
    let new: Vec<usize> = (0..plan.jobs.len()).filter(|index| known[*index].is_none()).collect();
    if new.len() < plan.jobs.len() {
        output::note(&format!("longfat: {} recorded runs are judged again", plan.jobs.len() - new.len()));
    }
    let jobs: Vec<Job<'_>> = new.iter().map(|index| plan.jobs[*index].clone()).collect();
    let recorded = |summary| CompletedRun { summary, rows: None, failed: None };
    let mut runs: Vec<Option<CompletedRun>> = known.into_iter().map(|one| one.map(recorded)).collect();
    let mut failures = Vec::new();
    for (index, result) in new.into_iter().zip(run_each(&jobs, options)?) {
        match result {
            None => {}
            Some(Ok(mut run)) => {
                failures.extend(run.failed.take().map(|error| (index, error)));
                runs[index] = Some(run);
            }
            Some(Err(error)) if plan.jobs[index].engine.is_computed() => return Err(error.into()),
            Some(Err(error)) => failures.push((index, error)),
        }
    }
    Ok(Executed { runs, failures })
}

/// A Markdown file whose tables the command writes.
struct MarkdownPage<'a> {
    path: &'a std::path::Path,
    /// Its text; empty for a new file.
    text: String,
    /// The part that is written.
    part: PagePart,
}

impl<'a> MarkdownPage<'a> {
    /// Reads the file before the first run, so that a mistake is reported immediately.
    fn open(path: &'a std::path::Path, args: &ReproduceArgs, part: PagePart) -> anyhow::Result<Self> {
        check_directory(path)?;
        if !path.exists() {
            return Ok(MarkdownPage { path, text: String::new(), part });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Exit::BadInput(format!("--markdown {}: {error}", path.display())))?;
        if !reproduced_tables::has_marks(&text, part) {
            let name = path.display();
            return Err(Exit::BadInput(format!(
                "--markdown {name}: the file exists and has no markers of an earlier --markdown; name another file"
            ))
            .into());
        }
        if !args.ids.is_empty() {
            let message = "--markdown replaces all tables of the file: omit the ids, or name a new file";
            return Err(Exit::BadInput(message.into()).into());
        }
        Ok(MarkdownPage { path, text, part })
    }

    fn write(&self, results: &[Reproduced]) -> anyhow::Result<()> {
        let tables = reproduced_tables::markdown(results, self.part);
        output::file(self.path, reproduced_tables::with_generated(&self.text, &tables, self.part))?;
        output::note(&format!("tables: {}", self.path.display()));
        Ok(())
    }
}

/// The requested ids: those given, and those with a given prefix.
fn requested_ids(arguments: &[String]) -> anyhow::Result<BTreeSet<&'static str>> {
    let ids = || CATALOGUE.iter().map(|entry| entry.id);
    if arguments.is_empty() {
        return Ok(ids().collect());
    }
    let mut requested = BTreeSet::new();
    for word in arguments {
        let family = format!("{word}-");
        let before = requested.len();
        requested.extend(ids().filter(|id| id == word || id.starts_with(&family)));
        if requested.len() == before && !ids().any(|id| id == word || id.starts_with(&family)) {
            let near = nearest_names(word, ids()).join(", ");
            return Err(Exit::BadInput(format!(
                "there is no published result {word:?}; the nearest are {near} (docs/reproduced.md has all)"
            ))
            .into());
        }
    }
    Ok(requested)
}

/// A summary per scenario file that was run, in the order of the files.
fn summaries(
    experiments: &[Experiment],
    plan: &Plan<'_>,
    completed: &[Option<CompletedRun>],
) -> Vec<Summary> {
    let of = |one: &Experiment| {
        let own = plan.jobs.iter().zip(completed).filter(|(job, _)| std::ptr::eq(job.experiment, one));
        let runs: Vec<RunSummary> = own.filter_map(|(_, run)| Some(run.as_ref()?.summary.clone())).collect();
        (!runs.is_empty()).then(|| one.summary(runs))
    };
    experiments.iter().filter_map(of).collect()
}

/// Each requested result with its figures, in the order of the catalogue.
fn results(
    requested: &BTreeSet<&str>,
    experiments: &[Experiment],
    plan: &Plan<'_>,
    summaries: &[Summary],
) -> Vec<Reproduced> {
    let entries = CATALOGUE.iter().filter(|entry| requested.contains(entry.id));
    entries
        .map(|entry| Reproduced {
            id: entry.id.into(),
            what: entry.what.into(),
            not_run: entry.not_run.as_ref().map(|one| one.reason.into()),
            shown: entry
                .not_run
                .as_ref()
                .map(experiment::reproduce::NotRun::shown_by)
                .filter(|by| !by.is_empty()),
            engines: coverage(entry.id, experiments, plan, summaries),
            figures: summaries
                .iter()
                .flat_map(|s| s.published.iter().map(|figure| (s.scenario.clone(), figure.clone())))
                .filter(|(_, figure)| figure.id == entry.id)
                .map(|(scenario, figure)| view::ReproducedFigure { scenario, figure })
                .collect(),
        })
        .collect()
}

fn document(
    host: &schema::HostInfo,
    results: &[Reproduced],
    summaries: &[Summary],
    skipped: &[SkippedRun],
) -> serde_json::Value {
    let run = |scenario: &str, run: &RunSummary| {
        json!({
            "scenario": scenario, "id": run.id, "engine": run.engine, "variant": run.variant, "repeat": run.repeat,
            "kernel": run.kernel, "duration_s": run.duration_s, "wall_s": run.wall_s, "quality_ok": run.quality.is_reliable(),
            "partial": run.partial,
        })
    };
    let runs: Vec<_> = summaries.iter().flat_map(|s| s.runs.iter().map(|r| run(&s.scenario, r))).collect();
    let skipped: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    json!({ "schema": SCHEMA, "host": host, "results": results, "runs": runs, "not_in_the_lab": skipped })
}

/// The scenarios' sections of the page. Only one scenario's rows are in memory at a time.
fn scenario_sections(summaries: &[Summary], runs: &RunsLocation) -> anyhow::Result<Vec<String>> {
    let directory = runs.writable()?;
    let mut sections = Vec::new();
    for summary in summaries {
        let measured = summary.runs.iter().filter(|run| run.engine != EngineChoice::Model.name());
        let mut loaded = Vec::new();
        for run in measured {
            let record = Run::open(&directory.join(&summary.scenario).join(&run.id))?;
            loaded.push(LoadedRun { path: runs.name_of(&record.path).into(), ..LoadedRun::load(&record)? });
        }
        sections.push(view::scenario_section(summary, &loaded));
    }
    Ok(sections)
}

/// How figures depend on parameters that their source does not state.
fn sensitivity_sections(
    requested: &BTreeSet<&str>,
    experiments: &[Experiment],
    options: &RunOptions<'_>,
) -> anyhow::Result<Vec<String>> {
    let mut sections = Vec::new();
    for (study, experiment) in studies(requested, experiments) {
        let mut parts = Vec::new();
        for sweep in study.sweeps {
            let charts =
                sweep.run(study, experiment, options)?.iter().map(view::sweep::sweep_chart).collect();
            parts.push((sweep.about, charts));
        }
        let file = &experiment.file;
        sections.push(view::sensitivity_section(file.title(), file.name(), &parts));
    }
    Ok(sections)
}
