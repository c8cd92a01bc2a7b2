//! One run, from what is asked for to its summary and, where one is kept, its record. `run`, `sweep` and their like make
//! all theirs here.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use guest::Image;
use lab::Progress;
use record::Writer;
use scenario::{Published, Scenario, ScenarioFile};
use schema::{
    DiscardedRun, HostInfo, PublishedResult, PublishedVerdict, Quality, RunSummary, SUMMARY_SCHEMA, Summary,
};
use units::KernelVersion;
use view::LoadedRun;

use crate::{
    congestion,
    engine::Engine,
    kernel_engine,
    lab_engine::{self, LabSetup, Rows},
    model_engine,
    progress::{Board, Teller},
    published,
    reliability::{self, Unreliable},
    repeat::{MAX_TRIES, RepeatTime, Try, until_undisturbed},
    sim_engine::{self, SimSetup},
};

/// What all runs of one scenario file share in one command.
pub struct Asked<'a> {
    pub file: &'a ScenarioFile,
    /// Where the file is: what it names is found beside it.
    pub path: &'a Path,
    pub host: HostInfo,
    /// The kernel to simulate, where asked.
    pub kernel: Option<KernelVersion>,
    /// Flows to be traced in the simulator, by name.
    pub traced: &'a [String],
    /// With `--set` the scenario is not the published one any more.
    pub changed: bool,
}

/// One run to make.
#[derive(Clone)]
pub struct Job<'a> {
    pub asked: &'a Asked<'a>,
    pub engine: Engine,
    /// The kernel of a guest, for that engine alone.
    pub guest: Option<Image>,
    pub variant: Option<&'a str>,
    /// The point of a sweep, where this is one.
    pub point: Option<Point>,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Of how many.
    pub repeats: u32,
    /// With the seed of this repeat.
    pub scenario: Scenario,
}

/// A point of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its place among all points, from 1.
    pub number: usize,
    /// The swept fields and their values.
    pub values: BTreeMap<String, String>,
}

/// What is kept of a run beside its summary.
#[derive(Debug, Clone, Copy)]
pub enum Keep<'a> {
    /// Nothing (not of the lab, whose captures need a record's directory).
    Nothing,
    /// A record in this directory of runs.
    Record(&'a Path),
    /// A record, and its rows for a report.
    RecordAndRows(&'a Path),
}

/// A run that was made.
pub struct Made {
    pub summary: RunSummary,
    /// The rows, where they were to be kept.
    pub loaded: Option<LoadedRun>,
    /// Why a flow failed, where others were measured all the same.
    pub failed: Option<anyhow::Error>,
}

/// What runs are made with.
pub struct Means<'a> {
    /// For the lab alone.
    pub lab: Option<&'a LabSetup>,
    pub keep: Keep<'a>,
    pub board: &'a Board,
    /// Ends a run early.
    pub stop: &'a AtomicBool,
    /// For lab runs that the machine disturbed.
    pub repeat_time: RepeatTime,
}

impl Asked<'_> {
    /// The document of these runs, with the published figures of their variants. A point of a sweep is not the
    /// published experiment.
    pub fn summary(&self, runs: Vec<RunSummary>) -> Summary {
        let file = self.file;
        let unswept: Vec<RunSummary> = runs.iter().filter(|r| r.sweep.is_empty()).cloned().collect();
        let of_these: Vec<Published> = file
            .published()
            .iter()
            .filter(|p| unswept.iter().any(|r| r.variant == p.variant))
            .cloned()
            .collect();
        let model = |p: &Published| model_engine::without_run(file, p);
        let mut published = published::compare(&of_these, &unswept, &self.host.kernel, model);
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

/// A figure of a scenario that was changed with `--set` is no proof against the published one.
fn not_as_published(result: &mut PublishedResult) {
    if result.verdict == PublishedVerdict::Missed {
        result.verdict = PublishedVerdict::Differs;
        result.why = Some("the scenario was changed with --set".into());
    }
}

/// Makes a run; a lab run that the machine disturbed again. After an error there is no record of it.
pub fn make(job: &Job<'_>, means: &Means<'_>) -> anyhow::Result<Made> {
    let (Keep::Record(runs_dir) | Keep::RecordAndRows(runs_dir)) = means.keep else {
        let rows = run(job, begin(job), means, None)?;
        return Ok(Made { summary: rows.summary, loaded: None, failed: rows.failed });
    };
    until_undisturbed(
        &means.repeat_time,
        |discarded| attempt(job, means, runs_dir, discarded),
        |(writer, rows), why, tries| {
            // A record that is replaced would only fill the list of runs.
            writer.abort();
            drop(rows);
            means.board.note(&format!(
                "{}: the machine disturbed try {tries} of {MAX_TRIES}, it is repeated: {}",
                title(job),
                why.faults.join("; ")
            ));
        },
    )
    .and_then(|(writer, rows)| finish(job, means, writer, rows))
}

/// Makes a run once, up to its record's last step.
fn attempt(
    job: &Job<'_>,
    means: &Means<'_>,
    runs_dir: &Path,
    discarded: &[DiscardedRun],
) -> anyhow::Result<Try<(Writer, Rows)>> {
    let asked = job.asked;
    let mut begun = begin(job);
    let initial = asked.summary(vec![begun.clone()]);
    let toml = job.scenario.to_toml();
    let mut writer = Writer::create(runs_dir, asked.file.name(), &id(job, &begun), &toml, &initial)?;
    begun.id = writer.id().to_string();
    let mut rows = match run(job, begun, means, Some(&mut writer)) {
        Ok(rows) => rows,
        Err(error) => {
            writer.abort();
            return Err(error);
        }
    };
    tell_discarded(&mut rows.summary, discarded);
    let is_whole = rows.failed.is_none() && !rows.summary.partial && !means.stop.load(Ordering::Relaxed);
    let disturbed = if is_whole { disturbed(job, &rows.summary) } else { None };
    Ok(Try { took: Duration::from_secs_f64(rows.summary.wall_s.max(0.0)), made: (writer, rows), disturbed })
}

/// Says in a run's summary how often it was repeated and why.
fn tell_discarded(summary: &mut RunSummary, discarded: &[DiscardedRun]) {
    if discarded.is_empty() {
        return;
    }
    summary.discarded = discarded.to_vec();
    let reasons: Vec<&str> = discarded.iter().flat_map(|d| &d.faults).map(String::as_str).collect();
    let times = if discarded.len() == 1 { "once".into() } else { format!("{} times", discarded.len()) };
    summary.quality.notes.push(format!(
        "this run was repeated {times}, because the machine disturbed the earlier tries: {}",
        reasons.join("; ")
    ));
}

/// Why a lab run is to be repeated: the machine disturbed a figure of it that is compared with a published one.
fn disturbed(job: &Job<'_>, run: &RunSummary) -> Option<DiscardedRun> {
    if job.engine != Engine::Lab || job.point.is_some() || job.asked.changed {
        return None;
    }
    let published = job.asked.file.published().iter();
    let of_this = published.filter(|p| p.variant.as_deref() == job.variant && !p.figure.is_closed_form());
    let mut unreliable = Unreliable::default();
    of_this.map(|p| reliability::judge(p, run)).filter(|u| u.disturbed).for_each(|u| unreliable.merge(u));
    unreliable.is_so().then(|| DiscardedRun { started: run.started.clone(), faults: unreliable.faults })
}

/// Completes the record of a run.
fn finish(job: &Job<'_>, means: &Means<'_>, writer: Writer, rows: Rows) -> anyhow::Result<Made> {
    let one = job.asked.summary(vec![rows.summary.clone()]);
    let path = writer.finish(&one, &rows.flows, &rows.links, &rows.events)?;
    let loaded = match means.keep {
        Keep::RecordAndRows(_) => Some(LoadedRun::from_rows(one, path, rows.flows, rows.links, rows.events)),
        _ => None,
    };
    Ok(Made { summary: rows.summary, loaded, failed: rows.failed })
}

fn run(
    job: &Job<'_>,
    begun: RunSummary,
    means: &Means<'_>,
    writer: Option<&mut Writer>,
) -> anyhow::Result<Rows> {
    let asked = job.asked;
    let teller = || means.board.teller(&title(job), job.scenario.duration);
    match job.engine {
        Engine::Model => Ok(model_engine::run(&job.scenario, begun, &asked.host).into()),
        Engine::Sim => {
            let setup =
                SimSetup { path: asked.path, host: &asked.host, kernel: asked.kernel, traced: asked.traced };
            sim_engine::run(&job.scenario, begun, &setup, teller(), writer, means.stop)
        }
        Engine::Lab => {
            let (Some(setup), Some(writer)) = (means.lab, writer) else {
                anyhow::bail!("a lab needs its right to make namespaces, and a record");
            };
            let registered = congestion::register(&job.scenario, asked.path)?;
            showing_progress(teller(), |report| {
                lab_engine::run(&job.scenario, &registered, begun, setup, report, writer, means.stop)
            })
        }
        Engine::Kernel(_) => {
            let (Some(kernel), Some(writer)) = (&job.guest, writer) else {
                anyhow::bail!("a guest needs its kernel, and a record");
            };
            showing_progress(teller(), |report| {
                kernel_engine::run(&job.scenario, begun, kernel, report, writer, means.stop)
            })
        }
    }
}

/// Shows the progress that a run reports, until it ends.
fn showing_progress<T>(mut display: Teller, run: impl FnOnce(&mut dyn FnMut(&Progress)) -> T) -> T {
    let ran = run(&mut |progress| display.tell(progress));
    display.finish();
    ran
}

/// A run's summary before anything has happened.
fn begin(job: &Job<'_>) -> RunSummary {
    RunSummary {
        id: String::new(),
        engine: job.engine.name().into(),
        variant: job.variant.map(Into::into),
        kernel: simulated_kernel(job),
        sweep: job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default(),
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
        discarded: Vec::new(),
    }
}

/// The kernel of the sending hosts, where it is simulated or a guest's and not the machine's.
pub fn simulated_kernel(job: &Job<'_>) -> Option<String> {
    match &job.engine {
        Engine::Lab => return None,
        Engine::Kernel(_) => return job.guest.as_ref().map(|image| image.release.clone()),
        Engine::Model | Engine::Sim => {}
    }
    let scenario = &job.scenario;
    let own = scenario.flows.iter().find_map(|flow| scenario.host(&flow.from)?.kernel);
    match own {
        Some((major, minor)) => Some(format!("{major}.{minor}")),
        None => job.asked.kernel.filter(|_| job.engine == Engine::Sim).map(|kernel| kernel.to_string()),
    }
}

/// The record's name.
fn id(job: &Job<'_>, begun: &RunSummary) -> String {
    // Two guest kernels may begin in one second.
    let engine = view::engine(begun).replace(' ', "-");
    let mut id = record::new_id(&compact(&begun.started), &engine, job.variant, job.repeat);
    if let Some(point) = &job.point {
        id.push_str(&format!("-p{}", point.number));
    }
    id
}

/// RFC 3339, in seconds.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

/// RFC 3339, in seconds, as records have instants.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 without separators, for file names.
pub fn compact(started: &str) -> String {
    started.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// The run for people, as in `lab8 tuned queue=100p 2/5`.
fn title(job: &Job<'_>) -> String {
    let mut title = job.asked.file.name().to_string();
    if let Some(variant) = job.variant {
        title = format!("{title} {variant}");
    }
    for (field, value) in job.point.iter().flat_map(|point| &point.values) {
        let key = field.rsplit('.').next().unwrap_or(field);
        title = format!("{title} {key}={value}");
    }
    if job.repeats > 1 {
        title = format!("{title} {}/{}", job.repeat, job.repeats);
    }
    title
}
