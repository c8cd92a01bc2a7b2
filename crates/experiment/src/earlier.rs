//! Runs that are on record already: what a sweep that was interrupted need not make again.

use std::{path::Path, time::SystemTime};

use record::Run;
use schema::RunSummary;

use crate::{Job, Result, instant::rfc3339, job::simulated_kernel};

/// The complete records of one scenario that this program made on this machine.
pub struct EarlierRuns {
    runs: Vec<Run>,
}

impl EarlierRuns {
    /// Nothing: every run is to be made.
    pub fn none() -> Self {
        EarlierRuns { runs: Vec::new() }
    }

    /// Of the scenario called `name`. Records that are older than the program do not count: another one made them.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn of(runs_dir: &Path, name: &str) -> Result<Self> {
        let program = std::env::current_exe().and_then(|path| path.metadata()).and_then(|m| m.modified());
        let built = program.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = built.and_then(|t| jiff::Timestamp::from_second(t.as_secs().try_into().ok()?).ok());
        let since = since.map(rfc3339).unwrap_or_default();
        let entries = record::list(runs_dir)?.into_iter().filter(|entry| entry.scenario == name);
        let is_ours = |run: &Run| {
            !run.partial && run.run().quality.ok && !run.run().sweep.is_empty() && run.run().started >= since
        };
        Ok(EarlierRuns { runs: entries.filter_map(|entry| entry.run.ok()).filter(is_ours).collect() })
    }

    /// The record of the same run, down to the last setting: scenario, seed, engine, kernel.
    pub fn find(&self, job: &Job<'_>) -> Option<RunSummary> {
        let toml = job.scenario.to_toml();
        let kernel = simulated_kernel(job);
        let is_same = |run: &&Run| {
            let made = run.run();
            made.engine == job.engine.name()
                && made.variant == job.variant
                && made.seed == job.scenario.seed
                && run.summary.host == job.experiment.host
                && made.kernel == kernel
                && run.scenario_toml().is_ok_and(|text| text == toml)
        };
        let found = self.runs.iter().find(is_same)?.run().clone();
        let sweep = job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default();
        Some(RunSummary { sweep, repeat: job.repeat, ..found })
    }
}
