//! `longfat reproduce`: the published experiments through model, simulator and lab, side by side with what was published.

mod catalogue;
mod plan;
mod sensitivity;
mod shipped;

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, sync::atomic::Ordering};

use clap::Args;
use record::Run;
use schema::{PublishedVerdict, RunSummary, Summary};
use serde_json::json;
use units::Time;
use view::{LoadedRun, ReportExtra, Reproduced};

use crate::{
    batch,
    engine::{Engine, Engines},
    exit::Exit,
    interrupt,
    job::{Asked, Keep, Made, Means, now},
    output,
    progress::Board,
    repeat::RepeatTime,
    run::{check_directory, command_line, lab_setup},
};
use catalogue::CATALOGUE;
use plan::{Budget, Plan};
use shipped::{Source, sources};

/// What the document of `--json` calls itself.
const SCHEMA: &str = "longfat.reproduce/1";

/// What to reproduce, and by what.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Ids of published results (L8-default), or what several begin with (L8, G); all without one
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Engines, separated by commas: model, sim, and kernel or kernel:VERSION, a guest kernel in virtual time
    #[arg(long, value_delimiter = ',', default_value = "model,sim", value_name = "ENGINES")]
    engine: Vec<Engines>,
    /// Also in the lab, the shortest experiments first, as many as fit in this time (10 min where none is given)
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10min", require_equals = true)]
    lab: Option<Time>,
    /// The scenarios of this directory in place of the program's own
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many simulations to make side by side; without it one on each processor
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Also write a page with all tables and pictures
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Reproduces what is asked for.
pub fn run(args: &ReproduceArgs, runs_dir: &std::path::Path, json: bool) -> anyhow::Result<()> {
    let wanted = wanted(&args.ids)?;
    let mut engines = Engines::chosen(&args.engine);
    let lab = args.lab.or(engines.contains(&Engine::Lab).then_some(Time::from_secs(600)));
    engines.retain(|engine| *engine != Engine::Lab);
    let sources = sources(args.dir.as_deref())?;
    let host = lab::host_info();
    let asked: Vec<Asked<'_>> = sources
        .iter()
        .map(|Source { path, file }| Asked {
            file,
            path,
            host: host.clone(),
            kernel: None,
            traced: &[],
            changed: false,
        })
        .collect();
    let variants: Vec<Vec<String>> =
        sources.iter().map(|source| source.file.variants().map(str::to_owned).collect()).collect();
    let plan = Plan::new(&asked, &variants, &wanted, &engines, lab.map(Budget))?;
    if let Some(path) = &args.report {
        check_directory(path)?;
    }
    let stop = interrupt::flag()?;
    let setup = if plan.needs_lab() { Some(lab_setup(None)?) } else { None };
    let board = Board::new(plan.jobs.len());
    let means = Means {
        lab: setup.as_ref(),
        keep: Keep::Record(runs_dir),
        board: &board,
        stop: &stop,
        repeat_time: RepeatTime::default(),
    };
    let mut made = batch::make_all(&plan.jobs, &means, args.jobs)?;
    drop(board);
    let failed = made.iter_mut().find_map(|one| one.failed.take());
    let summaries = summaries(&asked, &plan, &made);
    let results = results(&wanted, &summaries);
    let told = match json {
        true => output::json(&document(&host, &results, &summaries, &plan.left_out)),
        false => {
            let mut text = view::table::reproduced(&results);
            plan.left_out
                .iter()
                .for_each(|left| text.push_str(&format!("not in the lab or a guest kernel: {left}\n")));
            output::text(&text)
        }
    };
    if let Some(path) = &args.report {
        let mut sections = scenario_sections(&summaries, runs_dir)?;
        if engines.contains(&Engine::Sim) && !stop.load(Ordering::Relaxed) {
            sections.extend(sensitivity::sections(&wanted, &asked, args.jobs, &stop)?);
        }
        let extra = ReportExtra { made: Some(now()), command: Some(command_line()) };
        let page = view::reproduction(&results, &sections, &extra);
        output::file(path, page)?;
        output::note(&format!("report: {}", path.display()));
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Exit::Interrupted.into());
    }
    missed(&results)?;
    told
}

/// The ids that are meant: those named, and those that begin with a family's name.
fn wanted(asked: &[String]) -> anyhow::Result<BTreeSet<&'static str>> {
    let ids = || CATALOGUE.iter().map(|entry| entry.id);
    if asked.is_empty() {
        return Ok(ids().collect());
    }
    let mut wanted = BTreeSet::new();
    for word in asked {
        let family = format!("{word}-");
        let before = wanted.len();
        wanted.extend(ids().filter(|id| id == word || id.starts_with(&family)));
        if wanted.len() == before && !ids().any(|id| id == word || id.starts_with(&family)) {
            let known = ids().collect::<Vec<_>>().join(", ");
            return Err(
                Exit::BadInput(format!("there is no published result {word:?}; there are {known}")).into()
            );
        }
    }
    Ok(wanted)
}

/// One document a scenario file that was run, in the order of the files.
fn summaries(asked: &[Asked<'_>], plan: &Plan<'_>, made: &[Made]) -> Vec<Summary> {
    let of = |one: &Asked<'_>| {
        let own = plan.jobs.iter().zip(made).filter(|(job, _)| std::ptr::eq(job.asked, one));
        let runs: Vec<RunSummary> = own.map(|(_, made)| made.summary.clone()).collect();
        (!runs.is_empty()).then(|| one.summary(runs))
    };
    asked.iter().filter_map(of).collect()
}

/// Each wanted result with its figures, in the catalogue's order.
fn results(wanted: &BTreeSet<&str>, summaries: &[Summary]) -> Vec<Reproduced> {
    let entries = CATALOGUE.iter().filter(|entry| wanted.contains(entry.id));
    entries
        .map(|entry| Reproduced {
            id: entry.id.into(),
            what: entry.what.into(),
            shown: (!entry.shown.is_empty()).then(|| entry.shown.into()),
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
    left_out: &[String],
) -> serde_json::Value {
    let run = |scenario: &str, run: &RunSummary| {
        json!({
            "scenario": scenario, "id": run.id, "engine": run.engine, "variant": run.variant, "repeat": run.repeat,
            "kernel": run.kernel, "duration_s": run.duration_s, "wall_s": run.wall_s, "quality_ok": run.quality.ok,
            "partial": run.partial,
        })
    };
    let runs: Vec<_> = summaries.iter().flat_map(|s| s.runs.iter().map(|r| run(&s.scenario, r))).collect();
    json!({ "schema": SCHEMA, "host": host, "results": results, "runs": runs, "not_in_the_lab": left_out })
}

/// The scenarios' parts of the page: one scenario's rows at a time are in memory.
fn scenario_sections(summaries: &[Summary], runs_dir: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let mut sections = Vec::new();
    for summary in summaries {
        let measured = summary.runs.iter().filter(|run| run.engine != Engine::Model.name());
        let mut loaded = Vec::new();
        for run in measured {
            let record = Run::open(&runs_dir.join(&summary.scenario).join(&run.id))?;
            loaded.push(LoadedRun::load(&record)?);
        }
        sections.push(view::scenario_section(summary, &loaded));
    }
    Ok(sections)
}

fn missed(results: &[Reproduced]) -> anyhow::Result<()> {
    let missed: Vec<String> = results
        .iter()
        .flat_map(|result| &result.figures)
        .filter(|f| f.figure.verdict == PublishedVerdict::Missed)
        .map(|f| format!("{} ({})", f.figure.id, f.figure.metric))
        .collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Exit::Missed(format!("missed what was published: {}", missed.join(", "))).into()),
    }
}
