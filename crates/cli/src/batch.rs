//! Many runs: simulations side by side on all cores, the lab's one after another with the machine to themselves. What a
//! run gives does not depend on how many are made beside it.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::{
    engine::Engine,
    job::{Job, Made, Means, make},
};

/// Makes the runs that are asked for, in their order. After Ctrl-C or a run that failed in part the others are missing;
/// after an error of a run no more are begun, and the error is returned.
pub fn make_all(
    jobs: &[Job<'_>],
    means: &Means<'_>,
    side_by_side: Option<NonZeroUsize>,
) -> anyhow::Result<Vec<Made>> {
    let ended = AtomicBool::new(false);
    let one = |(place, job)| {
        if ended.load(Ordering::Relaxed) || means.stop.load(Ordering::Relaxed) {
            return None;
        }
        let made = make(job, means);
        means.board.count();
        if made.as_ref().map_or(true, |made| made.failed.is_some()) {
            ended.store(true, Ordering::Relaxed);
        }
        Some((place, made))
    };
    let (alone, beside): (Vec<_>, Vec<_>) =
        jobs.iter().enumerate().partition(|(_, job)| job.engine == Engine::Lab);
    let mut all: Vec<(usize, anyhow::Result<Made>)> =
        pool(side_by_side)?.install(|| beside.into_iter().par_bridge().filter_map(one).collect());
    all.extend(alone.into_iter().filter_map(one));
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, made)| made).collect()
}

/// As many threads as runs are to be made side by side; as many as there are processors where that is not said.
fn pool(side_by_side: Option<NonZeroUsize>) -> anyhow::Result<rayon::ThreadPool> {
    let threads = side_by_side.map_or(0, NonZeroUsize::get);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads for the runs")
}
