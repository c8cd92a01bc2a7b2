//! Recorded runs of real kernels, which need not be repeated.

use std::collections::{BTreeMap, btree_map::Entry};

use record::RunsLocation;
use schema::RunSummary;

use crate::{EngineChoice, Job, RecordedRuns, Result, run_job::disturbed};

/// The recorded runs of `jobs`, `None` for those without one: complete, reliable runs of the lab and of
/// guests with the same scenario, seed, machine and kernel, written since this program was built.
///
/// # Errors
/// The records cannot be read.
pub fn recorded(jobs: &[Job<'_>], runs: &RunsLocation) -> Result<Vec<Option<RunSummary>>> {
    let mut records: BTreeMap<&str, RecordedRuns> = BTreeMap::new();
    let mut all = Vec::new();
    for job in jobs {
        // Real hosts and their path change without a trace in the record.
        if !matches!(job.engine, EngineChoice::Lab | EngineChoice::Kernel(_)) {
            all.push(None);
            continue;
        }
        let name = job.experiment.file.name();
        let own = match records.entry(name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(RecordedRuns::read_outside_sweeps(runs, name)?),
        };
        all.push(own.find(job)?.filter(|run| disturbed(job, run).is_none()));
    }
    Ok(all)
}
