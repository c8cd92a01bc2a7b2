//! The execution of one run, from its definition to its summary and record.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use computed_runs::add_parts;
use record::Writer;
use schema::{DiscardedRun, Event, FlowSample, LinkSample, RunSummary};

use crate::{
    EngineChoice, Error, Experiment, HostsSetup, Job, LabSetup, Observer, Outcome, PointStore, Result,
    congestion,
    engines::{Engine, Hosts, Kernel, Lab, Model, Sim, Task},
    job::{id, initial_summary, title},
    reliability::{self, Unreliability},
    repeat::{MAX_TRIES, RepeatTime, Try, until_undisturbed},
};

/// The data of a run that are retained in addition to its summary.
#[derive(Debug, Clone, Copy, Default)]
pub enum Retention<'a> {
    /// Nothing. Lab and guest runs need a record, for their captures.
    #[default]
    Nothing,
    /// A record in this directory of runs.
    Record(&'a Path),
    /// Its rows in memory, and no record.
    Rows,
    /// A record in this directory of runs, and its rows in memory.
    RecordAndRows(&'a Path),
    /// The result of a point of a sweep, without rows, in this store.
    Point(&'a PointStore),
}

/// A run that has been executed.
#[derive(Debug)]
pub struct CompletedRun {
    /// Its summary.
    pub summary: RunSummary,
    /// Its rows, with [`Retention::Rows`] and [`Retention::RecordAndRows`].
    pub rows: Option<Rows>,
    /// Why a flow failed, if other flows were measured.
    pub failed: Option<Error>,
}

/// The rows of a run.
#[derive(Debug)]
pub struct Rows {
    /// The record's directory; `None` without a record.
    pub record: Option<PathBuf>,
    /// Samples of flows.
    pub flows: Vec<FlowSample>,
    /// Samples of links.
    pub links: Vec<LinkSample>,
    /// Events.
    pub events: Vec<Event>,
}

/// How runs are executed. Default: no records, no observer, one simulation per processor at a time.
pub struct RunOptions<'a> {
    /// Privilege and ports for lab runs, from [`LabSetup::acquire`].
    pub lab: Option<&'a LabSetup>,
    /// The data that are retained of each run.
    pub retention: Retention<'a>,
    /// The addresses of the hosts, for runs between real hosts.
    pub hosts: Option<&'a HostsSetup>,
    /// Receives progress and rows.
    pub observer: &'a dyn Observer,
    /// Set it to end runs early.
    pub stop: &'a AtomicBool,
    /// Time budget for repeating lab runs that the machine disturbed.
    pub repeat_time: RepeatTime,
    /// Pause between two runs in real time.
    pub pause: Duration,
    /// Maximum number of simulations and guests in parallel; `None`: one per processor.
    pub parallel_runs: Option<NonZeroUsize>,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        RunOptions {
            lab: None,
            hosts: None,
            retention: Retention::Nothing,
            observer: &(),
            stop: &NEVER,
            repeat_time: RepeatTime::default(),
            pause: Duration::ZERO,
            parallel_runs: None,
        }
    }
}

/// Executes a run; repeats a lab run that the machine disturbed. The record of a failed run is deleted.
pub(crate) fn run_job(job: &Job<'_>, options: &RunOptions<'_>) -> Result<CompletedRun> {
    let (Retention::Record(runs_dir) | Retention::RecordAndRows(runs_dir)) = options.retention else {
        let mut initial = initial_summary(job);
        initial.id = id(job, &initial);
        let outcome = run(job, initial, options, None)?;
        if let Retention::Point(store) = options.retention {
            store.put_run(job, &outcome)?;
        }
        let Outcome { summary, flows, links, events, failed } = outcome;
        let has_rows = matches!(options.retention, Retention::Rows);
        let rows = has_rows.then_some(Rows { record: None, flows, links, events });
        return Ok(CompletedRun { summary, rows, failed });
    };
    until_undisturbed(
        &options.repeat_time,
        |discarded| attempt(job, options, runs_dir, discarded),
        |(writer, outcome), why, tries| {
            // A later try replaces this record, which would only clutter the list of runs.
            writer.abort();
            drop(outcome);
            options.observer.note(&format!(
                "{}: the machine disturbed try {tries} of {MAX_TRIES}; repeating the run: {}",
                title(job),
                why.faults.join("; ")
            ));
        },
    )
    .and_then(|(writer, outcome)| finish(job, options, writer, outcome))
}

/// Executes a run once. The record is complete except for its last step.
fn attempt(
    job: &Job<'_>,
    options: &RunOptions<'_>,
    runs_dir: &Path,
    discarded: &[DiscardedRun],
) -> Result<Try<(Writer, Outcome)>> {
    let experiment = job.experiment;
    let mut initial = initial_summary(job);
    tracing::info!(run = title(job), "starts");
    let initial_document = experiment.summary(vec![initial.clone()]);
    let toml = job.scenario.to_toml();
    let mut writer =
        Writer::create(runs_dir, experiment.file.name(), &id(job, &initial), &toml, &initial_document)?;
    initial.id = writer.id().to_string();
    let mut outcome = match run(job, initial, options, Some(&mut writer)) {
        Ok(outcome) => outcome,
        Err(error) => {
            writer.abort();
            return Err(error);
        }
    };
    note_discarded(&mut outcome.summary, discarded);
    tracing::info!(
        run = title(job),
        wall_s = outcome.summary.wall_s,
        partial = outcome.summary.partial,
        "has ended"
    );
    let is_complete =
        outcome.failed.is_none() && !outcome.summary.partial && !options.stop.load(Ordering::Relaxed);
    let disturbed = if is_complete { disturbed(job, &outcome.summary) } else { None };
    let duration = Duration::from_secs_f64(outcome.summary.wall_s.max(0.0));
    Ok(Try { duration, result: (writer, outcome), disturbed })
}

/// Adds to a run's summary how often it was repeated and why.
fn note_discarded(summary: &mut RunSummary, discarded: &[DiscardedRun]) {
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

/// Why a lab run must be repeated: the machine disturbed one of its figures that has a published counterpart.
pub(crate) fn disturbed(job: &Job<'_>, run: &RunSummary) -> Option<DiscardedRun> {
    if job.engine != EngineChoice::Lab || job.point.is_some() || job.experiment.is_changed() {
        return None;
    }
    let published = job.experiment.file.published().iter();
    let figures = published.filter(|p| p.variant == job.variant && !p.figure.is_closed_form());
    let mut unreliable = Unreliability::default();
    figures.map(|p| reliability::judge(p, run)).filter(|u| u.disturbed).for_each(|u| unreliable.merge(u));
    unreliable.has_faults().then(|| DiscardedRun { started: run.started.clone(), faults: unreliable.faults })
}

/// Completes the record of a run.
fn finish(job: &Job<'_>, options: &RunOptions<'_>, writer: Writer, outcome: Outcome) -> Result<CompletedRun> {
    let Outcome { mut summary, flows, links, events, failed } = outcome;
    let record = writer.finish(&job.experiment.summary(vec![summary.clone()]), &flows, &links, &events)?;
    summary.record = Some(record.display().to_string());
    let rows = match options.retention {
        Retention::RecordAndRows(_) => Some(Rows { record: Some(record), flows, links, events }),
        _ => None,
    };
    Ok(CompletedRun { summary, rows, failed })
}

fn run(
    job: &Job<'_>,
    initial: RunSummary,
    options: &RunOptions<'_>,
    writer: Option<&mut Writer>,
) -> Result<Outcome> {
    let Experiment { path, host, kernel, traced, .. } = job.experiment;
    let mut observer: Box<dyn crate::RunObserver + '_> = match job.engine {
        // The model returns at once: no progress.
        EngineChoice::Model => Box::new(()),
        _ => options.observer.run(&title(job), job.scenario.duration),
    };
    let task =
        Task { scenario: &job.scenario, initial, observer: observer.as_mut(), writer, stop: options.stop };
    let outcome = match &job.engine {
        EngineChoice::Model => Model { host, kernel: *kernel }.run(task),
        EngineChoice::Sim => Sim { path, host, kernel: *kernel, traced }.run(task),
        EngineChoice::Lab => {
            let Some(setup) = options.lab else {
                return Err(Error::BadInput(
                    "a lab run needs RunOptions::lab (the privilege to create network namespaces)".into(),
                ));
            };
            let registered = congestion::register(&job.scenario, path)?;
            Lab { setup, registered: &registered }.run(task)
        }
        EngineChoice::Hosts => {
            let Some(setup) = options.hosts else {
                return Err(Error::BadInput(
                    "a run between hosts needs their addresses: --at HOST=ADDRESS".into(),
                ));
            };
            Hosts { setup }.run(task)
        }
        EngineChoice::Kernel(_) => {
            let Some(image) = &job.guest else {
                return Err(Error::BadInput("a guest run needs a guest kernel (Job::guest)".into()));
            };
            Kernel { image }.run(task)
        }
    };
    let mut outcome = outcome?;
    add_parts(&job.experiment.file, job.variant.as_deref(), &outcome.flows, &mut outcome.summary);
    Ok(outcome)
}
