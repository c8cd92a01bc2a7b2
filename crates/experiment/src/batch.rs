//! Batches of runs: simulations and guests in parallel on all cores, lab runs one after another with the machine to themselves.
//! Results do not depend on the parallelism.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::iter::{ParallelBridge, ParallelIterator};

use schema::RunSummary;

use crate::{CompletedRun, EngineChoice, Error, Job, Result, RunOptions, job::run_job};

/// Executes jobs and returns their runs in the same order. After an interruption, or a run of which a flow failed, the remaining
/// jobs are skipped; after an error, too, and the error is returned.
///
/// # Errors
/// Of the first run that gave nothing.
pub fn run_all(jobs: &[Job<'_>], options: &RunOptions<'_>) -> Result<Vec<CompletedRun>> {
    options.observer.begin(jobs.len());
    let ended = AtomicBool::new(false);
    let one = |(place, job)| {
        if ended.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed) {
            return None;
        }
        let made = run_job(job, options);
        options.observer.run_ended();
        if made.as_ref().map_or(true, |made| made.failed.is_some()) {
            ended.store(true, Ordering::Relaxed);
        }
        Some((place, made))
    };
    let (alone, beside): (Vec<_>, Vec<_>) =
        jobs.iter().enumerate().partition(|(_, job)| job.engine == EngineChoice::Lab);
    let mut all: Vec<(usize, Result<CompletedRun>)> =
        pool(options.side_by_side)?.install(|| beside.into_iter().par_bridge().filter_map(one).collect());
    all.extend(alone.into_iter().filter_map(one));
    options.observer.end();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, made)| made).collect()
}

/// The summaries of [`run_all`].
///
/// # Errors
/// Also if a flow of a run failed, or the runs were interrupted.
pub(crate) fn summaries_of_all(jobs: &[Job<'_>], options: &RunOptions<'_>) -> Result<Vec<RunSummary>> {
    let mut completed = run_all(jobs, options)?;
    if let Some(error) = completed.iter_mut().find_map(|run| run.failed.take()) {
        return Err(error);
    }
    if options.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(completed.into_iter().map(|run| run.summary).collect())
}

/// As many threads as runs are to be made side by side; as many as there are processors where that is not said.
fn pool(side_by_side: Option<NonZeroUsize>) -> Result<rayon::ThreadPool> {
    let threads = side_by_side.map_or(0, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::Failed(format!("cannot start threads for the runs: {error}")))
}
