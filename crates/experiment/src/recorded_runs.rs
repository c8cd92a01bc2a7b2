//! Recorded runs, which a sweep reuses after an interruption, and `reproduce` on request.

use std::time::SystemTime;

use record::{Run, RunsLocation};
use schema::RunSummary;

use crate::{Job, PointStore, Result, congestion, instant::rfc3339, job::simulated_kernel};

/// Complete, reliable results of runs: records of one scenario, written since this program was built, or a
/// store of points of sweeps.
pub struct RecordedRuns {
    source: Source,
}

enum Source {
    Records(Vec<Run>),
    Points(PointStore),
}

impl RecordedRuns {
    /// No records: every run is executed.
    pub fn none() -> Self {
        RecordedRuns { source: Source::Records(Vec::new()) }
    }

    /// Reads the records of the points of sweeps of the scenario called `name`. Ignores records older than
    /// the program, because another build wrote them.
    ///
    /// # Errors
    /// The records cannot be read.
    pub fn read(runs: &RunsLocation, name: &str) -> Result<Self> {
        Self::read_if(runs, name, |run| !run.sweep.is_empty())
    }

    /// Reads the records of the scenario's runs outside sweeps, as [`Self::read`] does for sweeps.
    ///
    /// # Errors
    /// The records cannot be read.
    pub fn read_outside_sweeps(runs: &RunsLocation, name: &str) -> Result<Self> {
        Self::read_if(runs, name, |run| run.sweep.is_empty())
    }

    fn read_if(runs: &RunsLocation, name: &str, is_wanted: impl Fn(&RunSummary) -> bool) -> Result<Self> {
        let program = std::env::current_exe().and_then(|path| path.metadata()).and_then(|m| m.modified());
        let built = program.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = built.and_then(|t| jiff::Timestamp::from_second(t.as_secs().try_into().ok()?).ok());
        let since = since.map(rfc3339).unwrap_or_default();
        let entries = runs.list()?.into_iter().filter(|entry| entry.scenario == name);
        let is_reusable = |run: &Run| {
            !run.partial
                && run.run().quality.is_reliable()
                && is_wanted(run.run())
                && run.run().started >= since
        };
        let runs = entries.filter_map(|entry| entry.run.ok()).filter(is_reusable).collect();
        Ok(RecordedRuns { source: Source::Records(runs) })
    }

    /// The results in a store of points.
    pub fn in_store(store: &PointStore) -> Self {
        RecordedRuns { source: Source::Points(store.clone()) }
    }

    /// The summary of a run with identical settings: scenario, variant, seed, engine, host and kernel. Except
    /// in a store of points, there is none if a congestion control's C file includes the user's headers, or
    /// if some hosts have the key `kernel` and others the kernel of the machine or of `--kernel`.
    ///
    /// # Errors
    /// A stored point cannot be read.
    pub fn find(&self, job: &Job<'_>) -> Result<Option<RunSummary>> {
        let found = match &self.source {
            Source::Records(runs) => find_record(runs, job),
            Source::Points(store) => store.get(&job.address())?.map(|document| document.run),
        };
        let sweep = job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default();
        let set = job.experiment.sets.iter().cloned().collect();
        Ok(found.map(|found| RunSummary { set, sweep, repeat: job.repeat, ..found }))
    }
}

fn find_record(runs: &[Run], job: &Job<'_>) -> Option<RunSummary> {
    // A record has the text of a congestion control's C file, but not of its headers; and one kernel.
    if !congestion::user_headers(job).is_empty() || job.has_mixed_kernels() {
        return None;
    }
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
    runs.iter().find(is_same).map(|run| run.run().clone())
}
