//! An experiment: a scenario file and the settings that its runs share.

use std::path::{Path, PathBuf};

use scenario::{Kind, Published, ScenarioFile};
use schema::{HostInfo, PublishedResult, PublishedVerdict, RunSummary, SUMMARY_SCHEMA, Summary};
use units::KernelVersion;

use crate::{
    EngineChoice, Error, Job, Result, RunOptions, Selection, batch::summaries_of_all, engines::without_run,
    published, scenario_file,
};

/// A scenario file and the settings that all of its runs share.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The scenario file.
    pub file: ScenarioFile,
    /// The file's path; files that it names are relative to its directory.
    pub path: PathBuf,
    /// This machine.
    pub host: HostInfo,
    /// Linux version that the simulator uses for hosts that name none; `None`: this machine's.
    pub kernel: Option<KernelVersion>,
    /// Flows whose segments the simulator records, by name.
    pub traced: Vec<String>,
    /// Overridden values as (path, text). With overrides, figures are not held against the published ones.
    pub sets: Vec<(String, String)>,
}

impl Experiment {
    /// Of a scenario file (TOML or MiniEdit's .mn) or a sweep that comes with the program, by its name.
    ///
    /// # Errors
    /// Where the file cannot be read or has mistakes, each with its place.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        Experiment::from_file_noting(path.as_ref(), |_| {})
    }

    /// As [`Self::from_file`]; `note` gets what a MiniEdit topology has that means nothing here.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_file_noting(path: &Path, note: impl Fn(&str)) -> Result<Self> {
        let file = scenario_file::read(path, note)?;
        file.check_runnable()?;
        Ok(Experiment::new(file, path))
    }

    /// Of a file that was read from `path`.
    pub fn new(file: ScenarioFile, path: &Path) -> Self {
        Experiment {
            file,
            path: path.to_owned(),
            host: lab::host_info(),
            kernel: None,
            traced: Vec::new(),
            sets: Vec::new(),
        }
    }

    /// With a value changed, as in `set("duration", "5s")`.
    #[must_use]
    pub fn set(mut self, path: &str, value: &str) -> Self {
        self.sets.push((path.into(), value.into()));
        self
    }

    /// Executes the selected runs and compares them with published figures.
    ///
    /// # Errors
    /// If a run is impossible, the error of the first run that failed, or [`Error::Interrupted`].
    pub fn run(&self, selection: &Selection, options: &RunOptions<'_>) -> Result<Summary> {
        let jobs = self.jobs(selection)?;
        self.check(&jobs)?;
        Ok(self.summary(summaries_of_all(&jobs, options)?))
    }

    /// The summary document of these runs, with the published figures of their variants. Points of sweeps are not compared.
    pub fn summary(&self, runs: Vec<RunSummary>) -> Summary {
        let file = &self.file;
        let unswept: Vec<RunSummary> = runs.iter().filter(|r| r.sweep.is_empty()).cloned().collect();
        let of_these: Vec<Published> = file
            .published()
            .iter()
            .filter(|p| unswept.iter().any(|r| r.variant == p.variant))
            .cloned()
            .collect();
        let model = |p: &Published| without_run(file, p);
        let mut published = published::compare(&of_these, &unswept, &self.host.kernel, model);
        if self.is_changed() {
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

    /// Whether values of the file are changed.
    pub(crate) fn is_changed(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Checks before the first run that the lab can run its flows and that traced flows exist.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, jobs: &[Job<'_>]) -> Result<()> {
        for job in jobs.iter().filter(|job| job.engine == EngineChoice::Lab) {
            lab::check_flows(&job.scenario)?;
        }
        let simulated = || jobs.iter().filter(|job| job.engine == EngineChoice::Sim);
        if !self.traced.is_empty() && simulated().next().is_none() {
            return Err(Error::BadInput("--trace is the simulator's: add --engine sim".into()));
        }
        for (name, job) in self.traced.iter().flat_map(|name| simulated().map(move |job| (name, job))) {
            let mut tcp = job.scenario.flows.iter().filter(|flow| matches!(flow.kind, Kind::Tcp(_)));
            if !tcp.any(|flow| flow.name == *name) {
                return Err(Error::BadInput(format!("--trace {name}: there is no TCP flow of this name")));
            }
        }
        Ok(())
    }
}

/// A figure of a scenario that was changed with `--set` is no proof against the published one.
fn not_as_published(result: &mut PublishedResult) {
    if result.verdict == PublishedVerdict::Missed {
        result.verdict = PublishedVerdict::Differs;
        result.why = Some("the scenario was changed with --set".into());
    }
}
