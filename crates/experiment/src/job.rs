//! One run that can be executed: its definition, its names, and its summary before its start.

use std::collections::BTreeMap;

use computed_runs::sysctl_defaults;
use guest::Image;
use scenario::Scenario;
use schema::RunSummary;

use crate::{
    EngineChoice, Experiment,
    instant::{compact, now},
};

/// One run that can be executed.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// The experiment of the run.
    pub experiment: &'a Experiment,
    /// The engine that executes the run.
    pub engine: EngineChoice,
    /// The kernel to boot (kernel engine only).
    pub guest: Option<Image>,
    /// The scenario's variant; `None` in a file without variants.
    pub variant: Option<String>,
    /// The point of the sweep; `None` outside sweeps.
    pub point: Option<Point>,
    /// Repeat number, from 1.
    pub repeat: u32,
    /// Number of repeats.
    pub repeats: u32,
    /// The resolved scenario, with the seed of this repeat.
    pub scenario: Scenario,
}

/// A point of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its index among all points, from 1.
    pub number: usize,
    /// The swept fields and their values.
    pub values: BTreeMap<String, String>,
}

/// A run's summary before its start.
pub(crate) fn initial_summary(job: &Job<'_>) -> RunSummary {
    RunSummary {
        variant: job.variant.clone(),
        kernel: simulated_kernel(job),
        sysctl_defaults: Some(sysctl_defaults::describe(&job.scenario, &job.engine, job.experiment.kernel)),
        file: Some(job.experiment.path.display().to_string()),
        set: job.experiment.sets.iter().cloned().collect(),
        sweep: job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default(),
        repeat: job.repeat,
        seed: job.scenario.seed,
        duration_s: job.scenario.duration.as_secs_f64(),
        ..RunSummary::begun(job.engine.name(), now())
    }
}

/// The kernel of the sending hosts if it is not the machine's: a simulated one or a guest's.
pub(crate) fn simulated_kernel(job: &Job<'_>) -> Option<String> {
    match &job.engine {
        EngineChoice::Lab | EngineChoice::Hosts => return None,
        EngineChoice::Kernel(_) => return job.guest.as_ref().map(|image| image.release.clone()),
        EngineChoice::Model | EngineChoice::Sim => {}
    }
    let scenario = &job.scenario;
    let own = scenario.flows.iter().find_map(|flow| scenario.host(&flow.from)?.kernel);
    match own {
        Some((major, minor)) => Some(format!("{major}.{minor}")),
        None => job.experiment.kernel.map(|kernel| kernel.to_string()),
    }
}

impl Job<'_> {
    /// The kernel of the hosts without the key `kernel` in a simulation or a model: the requested one, or the
    /// machine's. `None` if all hosts have this key.
    pub(crate) fn default_kernel(&self) -> Option<String> {
        let is_used = self.scenario.hosts.iter().any(|host| host.kernel.is_none());
        let machine = &self.experiment.host.kernel;
        is_used.then(|| self.experiment.kernel.map_or_else(|| machine.clone(), |kernel| kernel.to_string()))
    }

    /// Whether the hosts of a simulation or a model have several kernels, only one of which its summary
    /// names.
    pub(crate) fn has_mixed_kernels(&self) -> bool {
        let stated = self.scenario.hosts.iter().filter(|host| host.kernel.is_some()).count();
        self.engine.is_computed() && stated > 0 && stated < self.scenario.hosts.len()
    }
}

/// The record's name.
pub(crate) fn id(job: &Job<'_>, initial: &RunSummary) -> String {
    // Runs of two guest kernels can start in the same second.
    let engine = initial.engine_label().replace(' ', "-");
    let mut id = record::new_id(&compact(&initial.started), &engine, job.variant.as_deref(), job.repeat);
    if let Some(point) = &job.point {
        id.push_str(&format!("-p{}", point.number));
    }
    id
}

/// The display name of a run, as in `lab8 tuned queue=100p 2/5`.
pub(crate) fn title(job: &Job<'_>) -> String {
    let mut title = job.experiment.file.name().to_string();
    if let Some(variant) = &job.variant {
        title = format!("{title} {variant}");
    }
    for (field, value) in job.point.iter().flat_map(|point| &point.values) {
        let key = field.rsplit('.').next().unwrap_or(field);
        title = format!("{title} {key}={value}");
    }
    if job.repeats > 1 {
        title = format!("{title} {}/{}", job.repeat, job.repeats);
    }
    title
}
