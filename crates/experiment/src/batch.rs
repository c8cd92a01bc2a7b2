//! Batches of runs. Simulations and guests run in parallel on all cores. Runs in real time (lab and hosts)
//! follow one after another, because parallel load would disturb them. Results do not depend on the
//! parallelism.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rayon::iter::{ParallelBridge, ParallelIterator};

use scenario::FlowKind;
use schema::{RunSummary, Summary};

use crate::{
    CompletedRun, EngineChoice, Error, Experiment, Job, Result, RunOptions, Selection, congestion,
    run_job::run_job,
};

/// Interval at which a pause checks for a stop.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Experiment {
    /// Executes the selected runs and compares them with published figures.
    ///
    /// # Errors
    /// A selected run is impossible or has failed (the error of the first one), or [`Error::Interrupted`].
    pub fn run(&self, selection: &Selection, options: &RunOptions<'_>) -> Result<Summary> {
        let jobs = self.jobs(selection)?;
        self.check(&jobs)?;
        Ok(self.summary(run_all_for_summaries(&jobs, options)?))
    }

    /// Checks before the first run that the engines have the congestion controls, that the lab can run its
    /// flows, that traced flows exist, and that an engine simulates the kernel, if one is given.
    ///
    /// # Errors
    /// An engine lacks a congestion control, the lab cannot run a flow, a traced flow does not exist, or no
    /// engine simulates the kernel.
    pub fn check(&self, jobs: &[Job<'_>]) -> Result<()> {
        for job in jobs {
            congestion::check_names(job)?;
        }
        for job in jobs.iter().filter(|job| job.engine == EngineChoice::Lab) {
            lab::check_flows(&job.scenario)?;
        }
        let has_kernel = |job: &Job<'_>| matches!(job.engine, EngineChoice::Sim | EngineChoice::Model);
        if self.kernel.is_some() && !jobs.iter().any(has_kernel) {
            let message = "only the simulator and the model have --kernel: add --engine sim";
            return Err(Error::BadInput(message.into()));
        }
        let simulated = || jobs.iter().filter(|job| job.engine == EngineChoice::Sim);
        if !self.traced.is_empty() && simulated().next().is_none() {
            return Err(Error::BadInput("only the simulator has --trace: add --engine sim".into()));
        }
        for (name, job) in self.traced.iter().flat_map(|name| simulated().map(move |job| (name, job))) {
            let mut tcp = job.scenario.flows.iter().filter(|flow| matches!(flow.kind, FlowKind::Tcp(_)));
            if !tcp.any(|flow| flow.name == *name) {
                return Err(Error::BadInput(format!("--trace {name}: there is no TCP flow of this name")));
            }
        }
        Ok(())
    }
}

/// The result of a job; `None` if it was skipped.
pub type JobResult = Option<Result<CompletedRun>>;

/// Executes jobs and returns their runs in the same order. The remaining jobs are skipped after an
/// interruption, after a run with a failed flow, and after an error.
///
/// # Errors
/// The error of the first run without a result.
pub fn run_all(jobs: &[Job<'_>], options: &RunOptions<'_>) -> Result<Vec<CompletedRun>> {
    execute_all(jobs, options, AfterFailure::SkipRemaining)?.into_iter().flatten().collect()
}

/// Executes jobs as [`run_all`] does and returns the result of each, but a failure of a run with a real
/// kernel does not end the batch.
///
/// # Errors
/// The threads for the runs cannot be started.
pub fn run_each(jobs: &[Job<'_>], options: &RunOptions<'_>) -> Result<Vec<JobResult>> {
    execute_all(jobs, options, AfterFailure::SkipIfComputed)
}

/// What follows a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// The remaining runs are skipped.
    SkipRemaining,
    /// The remaining runs are skipped if the model or the simulator failed.
    SkipIfComputed,
}

fn execute_all(
    jobs: &[Job<'_>],
    options: &RunOptions<'_>,
    after_failure: AfterFailure,
) -> Result<Vec<JobResult>> {
    options.observer.begin(jobs.len());
    let skip_remaining = AtomicBool::new(false);
    let execute = |(index, job): (usize, &Job<'_>)| {
        if skip_remaining.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed) {
            return None;
        }
        let result = run_job(job, options);
        options.observer.run_ended();
        let has_failed = result.as_ref().map_or(true, |run| run.failed.is_some());
        if has_failed && (after_failure == AfterFailure::SkipRemaining || job.engine.is_computed()) {
            skip_remaining.store(true, Ordering::Relaxed);
        }
        Some((index, result))
    };
    let (sequential, parallel): (Vec<_>, Vec<_>) =
        jobs.iter().enumerate().partition(|(_, job)| job.engine.is_in_real_time());
    let mut all: Vec<(usize, Result<CompletedRun>)> = match parallel.len() {
        // Threads would cost more than a short run.
        0 | 1 => parallel.into_iter().filter_map(execute).collect(),
        _ => pool(options.parallel_runs)?
            .install(|| parallel.into_iter().par_bridge().filter_map(execute).collect()),
    };
    for (number, job) in sequential.into_iter().enumerate() {
        // Skipped runs need no pause.
        if number > 0 && !skip_remaining.load(Ordering::Relaxed) {
            pause(options.pause, options.stop);
        }
        all.extend(execute(job));
    }
    options.observer.end();
    let mut results: Vec<JobResult> = jobs.iter().map(|_| None).collect();
    for (index, result) in all {
        results[index] = Some(result);
    }
    Ok(results)
}

/// Waits for `time`, or until `stop` is set.
fn pause(time: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE_CHECK_INTERVAL.min(time.saturating_sub(begun.elapsed())));
    }
}

/// Executes jobs as [`run_all`] does and returns the summaries of their runs.
///
/// # Errors
/// As [`run_all`]; also if a flow of a run failed, or if the batch was interrupted.
pub(crate) fn run_all_for_summaries(jobs: &[Job<'_>], options: &RunOptions<'_>) -> Result<Vec<RunSummary>> {
    let mut completed = run_all(jobs, options)?;
    if let Some(error) = completed.iter_mut().find_map(|run| run.failed.take()) {
        return Err(error);
    }
    if options.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(completed.into_iter().map(|run| run.summary).collect())
}

/// A thread pool with one thread per parallel run; `None`: one per processor.
fn pool(parallel_runs: Option<NonZeroUsize>) -> Result<rayon::ThreadPool> {
    let threads = parallel_runs.map_or(0, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::Failed(format!("cannot start threads for the runs: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_returns_its_error_without_the_remaining_pauses() {
        let experiment = Experiment::from_file("dsl").unwrap();
        let selection = Selection { repeat: Some(5), ..Selection::with_engine(EngineChoice::Lab) };
        let jobs = experiment.jobs(&selection).unwrap();
        assert!(jobs.len() >= 5);
        // Without a set-up of the lab the first run fails.
        let options = RunOptions { pause: Duration::from_secs(60), ..RunOptions::default() };
        let begun = Instant::now();
        assert!(matches!(run_all(&jobs, &options), Err(Error::BadInput(_))));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_failed_run_of_a_real_kernel_does_not_end_the_batch() {
        let experiment = Experiment::from_file("dsl").unwrap();
        let jobs = |engine, repeat| {
            let selection = Selection { repeat: Some(repeat), ..Selection::with_engine(engine) };
            experiment.jobs(&selection).unwrap()
        };
        let mut both = jobs(EngineChoice::Lab, 2);
        let labs = both.len();
        both.extend(jobs(EngineChoice::Model, 1));
        // Without a set-up of the lab its runs fail.
        let results = run_each(&both, &RunOptions::default()).unwrap();
        assert_eq!(results.len(), both.len());
        let has_run = |result: &JobResult| matches!(result, Some(Ok(_)));
        let has_failed = |result: &JobResult| matches!(result, Some(Err(Error::BadInput(_))));
        assert!(results[..labs].iter().all(has_failed), "all lab runs were tried");
        assert!(results[labs..].iter().all(has_run));
    }
}
