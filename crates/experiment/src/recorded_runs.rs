//! Recorded runs, which a sweep reuses after an interruption.

use std::{path::Path, time::SystemTime};

use record::Run;
use schema::RunSummary;

use crate::{Job, Result, instant::rfc3339, job::simulated_kernel};

/// The complete, reliable records of sweep runs of one scenario, written since this program was built.
pub struct RecordedRuns {
    runs: Vec<Run>,
}

impl RecordedRuns {
    /// No records: every run is executed.
    pub fn none() -> Self {
        RecordedRuns { runs: Vec::new() }
    }

    /// Reads the records of the scenario called `name`. Ignores records older than the program, because another build wrote
    /// them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn read(runs_dir: &Path, name: &str) -> Result<Self> {
        let program = std::env::current_exe().and_then(|path| path.metadata()).and_then(|m| m.modified());
        let built = program.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = built.and_then(|t| jiff::Timestamp::from_second(t.as_secs().try_into().ok()?).ok());
        let since = since.map(rfc3339).unwrap_or_default();
        let entries = record::list(runs_dir)?.into_iter().filter(|entry| entry.scenario == name);
        let is_reusable = |run: &Run| {
            !run.partial
                && run.run().quality.is_reliable()
                && !run.run().sweep.is_empty()
                && run.run().started >= since
        };
        Ok(RecordedRuns { runs: entries.filter_map(|entry| entry.run.ok()).filter(is_reusable).collect() })
    }

    /// The summary of a recorded run with identical settings: scenario, variant, seed, engine, host and kernel.
    pub fn find(&self, job: &Job<'_>) -> Option<RunSummary> {
        let toml = job.scenario.to_toml();
        let kernel = simulated_kernel(job);
        let is_same = |run: &&Run| {
            let recorded = run.run();
            recorded.engine == job.engine.name()
                && recorded.variant == job.variant
                && recorded.seed == job.scenario.seed
                && run.summary.host == job.experiment.host
                && recorded.kernel == kernel
                && run.scenario_toml().is_ok_and(|text| text == toml)
        };
        let found = self.runs.iter().find(is_same)?.run().clone();
        let sweep = job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default();
        let set = job.experiment.sets.iter().cloned().collect();
        Some(RunSummary { set, sweep, repeat: job.repeat, ..found })
    }
}
