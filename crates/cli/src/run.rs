//! `longfat run`: a scenario through one or several engines, into records, a table and the published figures.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use clap::Args;
use lab::Journal;
use record::Writer;
use scenario::{Kind, Published, Scenario, ScenarioFile};
use schema::{HostInfo, PublishedResult, PublishedVerdict, Quality, RunSummary, SUMMARY_SCHEMA, Summary};
use units::KernelVersion;
use view::{LoadedRun, ReportExtra};

use crate::{
    congestion,
    engine::{Engine, Engines},
    exit::Exit,
    interrupt,
    lab_command::clean_journal,
    lab_engine::{self, LabSetup},
    model_engine,
    open::{self, parse_set, read_scenario},
    output, published,
    sim_engine::{self, SimSetup},
};

/// What to run, and how.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    file: PathBuf,
    /// Engines, separated by commas: model, sim, lab, or all
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
    /// The Linux version that is simulated, as in 6.1; without it this machine's
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
    /// Keep each segment that this flow's sender sends and each ACK that comes to it, in trace.parquet (simulator, TCP;
    /// may be given several times)
    #[arg(long, value_delimiter = ',', value_name = "FLOW")]
    trace: Vec<String>,
    /// Also write a report of all these runs
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// One run to make.
struct Job<'a> {
    engine: Engine,
    variant: Option<&'a str>,
    repeat: u32,
    scenario: Scenario,
}

/// What all runs of one command share.
struct Asked<'a> {
    file: &'a ScenarioFile,
    path: &'a Path,
    host: HostInfo,
    /// The kernel to simulate, where asked.
    kernel: Option<KernelVersion>,
    /// Flows to be traced.
    traced: &'a [String],
    /// With `--set` the scenario is not the published one any more.
    changed: bool,
}

impl Asked<'_> {
    /// The document of these runs, with the published figures of their variants.
    fn summary(&self, runs: Vec<RunSummary>) -> Summary {
        let file = self.file;
        let of_these: Vec<Published> = file
            .published()
            .iter()
            .filter(|p| runs.iter().any(|r| r.variant == p.variant))
            .cloned()
            .collect();
        let other_kernel = |p: &Published| model_engine::for_published_kernel(file, p);
        let mut published = published::compare(&of_these, &runs, &self.host.kernel, other_kernel);
        if self.changed {
            published.iter_mut().for_each(not_as_published);
        }
        Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: file.name().into(),
            title: file.title().into(),
            host: self.host.clone(),
            published,
            runs,
        }
    }
}

/// A run that was made.
struct Made {
    summary: RunSummary,
    loaded: Option<LoadedRun>,
    failed: Option<anyhow::Error>,
}

/// Runs the scenario.
pub fn run(args: &RunArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let file = read_scenario(&args.file)?;
    file.check_runnable().map_err(Exit::Scenario)?;
    let jobs = jobs(args, &file)?;
    let asked = Asked {
        file: &file,
        path: &args.file,
        host: lab::host_info(),
        changed: !args.sets.is_empty(),
        kernel: args.kernel,
        traced: &args.trace,
    };
    check_traced(&args.trace, &jobs)?;
    for job in jobs.iter().filter(|job| job.engine == Engine::Lab) {
        lab::check_flows(&job.scenario).map_err(lab_engine::failure)?;
    }
    let stop = interrupt::flag()?;
    let setup = match jobs.iter().any(|job| job.engine == Engine::Lab) {
        true => Some(lab_setup(args.ports)?),
        false => None,
    };
    if let Some(path) = &args.report {
        check_directory(path)?;
    }
    let mut made = Vec::new();
    let mut failed = None;
    for job in &jobs {
        let mut one = make(job, &asked, setup.as_ref(), runs_dir, &stop)?;
        failed = one.failed.take();
        if args.report.is_none() {
            // Only a report needs the rows again.
            one.loaded = None;
        }
        made.push(one);
        if failed.is_some() || stop.load(Ordering::Relaxed) {
            break;
        }
    }
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
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
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

/// A figure of a scenario that was changed with `--set` is no proof against the published one.
fn not_as_published(result: &mut PublishedResult) {
    if result.verdict == PublishedVerdict::Missed {
        result.verdict = PublishedVerdict::Differs;
        result.why = Some("the scenario was changed with --set".into());
    }
}

/// A report's directory must be there: better known before the runs than after them.
fn check_directory(report: &Path) -> anyhow::Result<()> {
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
fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// All runs asked for.
fn jobs<'a>(args: &'a RunArgs, file: &'a ScenarioFile) -> anyhow::Result<Vec<Job<'a>>> {
    let engines = Engines::chosen(&args.engine);
    let mut variants: Vec<Option<&str>> = args.variant.iter().map(|v| Some(v.as_str())).collect();
    if variants.is_empty() {
        variants = file.variants().map(Some).collect();
    }
    if variants.is_empty() {
        variants.push(None);
    }
    let mut jobs = Vec::new();
    for variant in variants {
        let scenario = open::resolve(file, &args.file, variant, &args.sets)?;
        congestion::check(file, &args.file, variant, &args.sets, &scenario)?;
        for &engine in &engines {
            // A closed form gives the same each time.
            let repeats = if engine == Engine::Model { 1 } else { scenario.repeat };
            for repeat in 1..=repeats {
                let seed = scenario.seed.wrapping_add(u64::from(repeat - 1));
                jobs.push(Job { engine, variant, repeat, scenario: Scenario { seed, ..scenario.clone() } });
            }
        }
    }
    Ok(jobs)
}

/// Cleans up after dead labs and gets the right to make new ones.
fn lab_setup(ports: Option<lab::Backend>) -> anyhow::Result<LabSetup> {
    // Before the privilege: in a user namespace this user would look like root.
    let journal = Journal::of_this_user();
    if let Err(error) = clean_journal(&journal) {
        // What cannot be cleaned does not stand in the way of a new lab.
        output::note(&format!("longfat: {error}"));
    }
    let privilege = lab::acquire().map_err(lab_engine::failure)?;
    let backend = ports.unwrap_or_else(lab::Backend::for_this_machine);
    Ok(LabSetup { journal, privilege, backend })
}

fn make(
    job: &Job<'_>,
    asked: &Asked<'_>,
    setup: Option<&LabSetup>,
    runs_dir: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Made> {
    let file = asked.file;
    let mut begun = begin(job);
    let id = record::new_id(&compact(&begun.started), job.engine.name(), job.variant, job.repeat);
    let initial = asked.summary(vec![begun.clone()]);
    let mut writer = Writer::create(runs_dir, file.name(), &id, &job.scenario.to_toml(), &initial)?;
    begun.id = writer.id().to_string();
    let rows = match (job.engine, setup) {
        (Engine::Lab, Some(setup)) => {
            let title = title(file, job);
            let run = || {
                let registered = congestion::register(&job.scenario, asked.path)?;
                lab_engine::run(&job.scenario, &registered, begun, setup, &title, &mut writer, stop)
            };
            match run() {
                Ok(rows) => rows,
                Err(error) => {
                    writer.abort();
                    return Err(error);
                }
            }
        }
        (Engine::Sim, _) => {
            let setup =
                SimSetup { path: asked.path, host: &asked.host, kernel: asked.kernel, traced: asked.traced };
            match sim_engine::run(&job.scenario, begun, &setup, &title(file, job), &mut writer, stop) {
                Ok(rows) => rows,
                Err(error) => {
                    writer.abort();
                    return Err(error);
                }
            }
        }
        _ => model_engine::run(&job.scenario, begun, &asked.host).into(),
    };
    let one = asked.summary(vec![rows.summary.clone()]);
    let path = writer.finish(&one, &rows.flows, &rows.links, &rows.events)?;
    let loaded = LoadedRun::from_rows(one, path, rows.flows, rows.links, rows.events);
    Ok(Made { summary: rows.summary, loaded: Some(loaded), failed: rows.failed })
}

/// A run's summary before anything has happened.
fn begin(job: &Job<'_>) -> RunSummary {
    RunSummary {
        id: String::new(),
        engine: job.engine.name().into(),
        variant: job.variant.map(Into::into),
        sweep: BTreeMap::new(),
        repeat: job.repeat,
        seed: job.scenario.seed,
        duration_s: job.scenario.duration.as_secs_f64(),
        wall_s: 0.0,
        started: now(),
        partial: false,
        flows: Vec::new(),
        links: Vec::new(),
        fairness_jain: None,
        quality: Quality { ok: true, ..Quality::default() },
    }
}

/// RFC 3339, in seconds.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 without separators, for file names.
fn compact(started: &str) -> String {
    started.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

fn title(file: &ScenarioFile, job: &Job<'_>) -> String {
    let mut title = file.name().to_string();
    if let Some(variant) = job.variant {
        title = format!("{title} {variant}");
    }
    if job.scenario.repeat > 1 {
        title = format!("{title} {}/{}", job.repeat, job.scenario.repeat);
    }
    title
}

/// The tables for people.
fn tables(summary: &Summary, report: Option<&Path>) -> String {
    let mut text = format!("{}\n{}\n", summary.title, view::table::verdicts(&summary.runs));
    text.push_str(&view::table::datagrams(&summary.runs));
    for run in summary.runs.iter().filter(|r| !r.quality.notes.is_empty()) {
        let judged = if run.quality.ok { "remark" } else { "NOT TO BE TRUSTED" };
        let variant = run.variant.as_deref().unwrap_or("-");
        for note in &run.quality.notes {
            text.push_str(&format!("{} {variant}: {judged}: {note}\n", run.engine));
        }
    }
    if !summary.published.is_empty() {
        text.push_str(&view::table::published(&summary.published));
    }
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    text
}

/// An error where a published figure should have been met and was not. A run that is not to be trusted
/// proves nothing either way.
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
