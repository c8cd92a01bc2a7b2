//! An experiment: a scenario file and the settings that its runs share.

use std::path::{Path, PathBuf};

use scenario::{Published, ScenarioFile, SimplePath};
use schema::{HostInfo, PublishedResult, PublishedVerdict, RunSummary, SUMMARY_SCHEMA, Summary};
use units::KernelVersion;

use crate::{Result, model_predictions::ModelPredictions, published, scenario_file};

/// A scenario file and the settings that all of its runs share.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The scenario file.
    pub file: ScenarioFile,
    /// The file's path; files that it names are relative to its directory.
    pub path: PathBuf,
    /// This machine.
    pub host: HostInfo,
    /// Linux version that the simulator and the model use for hosts without the key `kernel`; `None`: this
    /// machine's.
    pub kernel: Option<KernelVersion>,
    /// Flows whose segments the simulator records, by name.
    pub traced: Vec<String>,
    /// Overridden values as (path, text). With overrides, a deviation from a published figure is not a miss.
    pub sets: Vec<(String, String)>,
}

impl Experiment {
    /// Reads a scenario file (TOML or MiniEdit's .mn), or a built-in sweep by its name.
    ///
    /// # Errors
    /// The file cannot be read or has mistakes, each with its position.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        Experiment::from_file_noting(path.as_ref(), |_| {})
    }

    /// As [`Self::from_file`]; `note` receives a sentence about each ignored setting of a MiniEdit topology.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_file_noting(path: &Path, note: impl Fn(&str)) -> Result<Self> {
        let file = scenario_file::read(path, note)?;
        file.check_runnable()?;
        Ok(Experiment::new(file, path))
    }

    /// An experiment on a path of two hosts, without a file. Files that it names are relative to the working
    /// directory.
    ///
    /// # Errors
    /// A figure is outside the range of its key, or a C file cannot be read.
    pub fn on_simple_path(path: &SimplePath) -> Result<Self> {
        let name = format!("{}.toml", path.name());
        let file = scenario_file::parse(Path::new(&name), &path.to_toml())?;
        Ok(Experiment::new(file, Path::new(&name)))
    }

    /// An experiment with a file that was read from `path`.
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

    /// Overrides a value, as in `set("duration", "5s")`.
    #[must_use]
    pub fn set(mut self, path: &str, value: &str) -> Self {
        self.sets.push((path.into(), value.into()));
        self
    }

    /// The summary document of these runs, compared with the published figures of their variants. Sweep
    /// points are not compared.
    pub fn summary(&self, runs: Vec<RunSummary>) -> Summary {
        let file = &self.file;
        let outside_sweeps: Vec<RunSummary> = runs.iter().filter(|r| r.sweep.is_empty()).cloned().collect();
        let relevant: Vec<Published> = file
            .published()
            .iter()
            .filter(|p| {
                let is_run = |v: &Option<&str>| outside_sweeps.iter().any(|r| r.variant.as_deref() == *v);
                p.variants().iter().all(is_run)
            })
            .cloned()
            .collect();
        let predictions = ModelPredictions { file };
        let mut published = published::compare(&relevant, &outside_sweeps, &self.host.kernel, &predictions);
        if self.is_changed() {
            published.iter_mut().for_each(excuse_miss);
        }
        Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: file.name().into(),
            title: file.title_with(&self.sets),
            host: self.host.clone(),
            published,
            runs,
        }
    }

    /// Whether values of the file are overridden.
    pub(crate) fn is_changed(&self) -> bool {
        !self.sets.is_empty()
    }
}

/// A miss with values changed by `--set` does not contradict the published figure.
fn excuse_miss(result: &mut PublishedResult) {
    for one in result.judged.iter_mut().filter(|one| one.verdict == PublishedVerdict::Missed) {
        one.verdict = PublishedVerdict::Differs;
        // The documented cause is that of the unchanged scenario.
        (one.why, one.experiment) = (None, None);
    }
    result.known_miss = None;
    if result.verdict == PublishedVerdict::Missed {
        result.verdict = PublishedVerdict::Differs;
        result.why = Some("the scenario was changed with --set".into());
    }
}
