//! The points of a sweep, which any worker can execute: a point is described by plain values.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use experiment::{
    EngineChoice, Error, Experiment, Job, PointDocument, PointStore, RunOptions, Selection, run_all,
};
use pyo3::prelude::*;

use crate::{
    errors::{bad_input, of_experiment},
    interruptible::interruptible,
    run::engine_in_process,
    scenario_file::Scenario,
};

/// Swept fields and their values.
type Values = Vec<(String, String)>;

/// A flag that ends points early.
#[pyclass(frozen, module = "longfat._native")]
#[derive(Default)]
pub(crate) struct Stop {
    flag: AtomicBool,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Stop::default()
    }

    /// Ends all points that have this flag.
    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// All runs of a sweep in display order, each with its address, variant, values, repeat and seed.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a tuple in Python")]
pub(crate) fn plan(
    py: Python<'_>,
    scenario: &Scenario,
    over: Vec<(String, Vec<String>)>,
    engine: &str,
    variants: Vec<String>,
    repeat: Option<u32>,
) -> PyResult<Vec<(String, Option<String>, Values, u32, u64)>> {
    let experiment = &scenario.experiment;
    let fields: Vec<String> =
        swept_by_file(experiment).into_iter().chain(over.iter().map(|(field, _)| field.clone())).collect();
    let selection = Selection { engines: vec![engine_in_process(py, engine)?], variants, over, repeat };
    let planned = py.detach(|| {
        let jobs = experiment.jobs(&selection)?;
        experiment.check(&jobs)?;
        let of = |job: &Job<'_>| {
            let values = job.point.as_ref().map(|point| &point.values);
            let value = |field: &String| Some((field.clone(), values?.get(field)?.clone()));
            let values = fields.iter().filter_map(value).collect();
            (job.address(), job.variant.clone(), values, job.repeat, job.scenario.seed)
        };
        Ok::<_, Error>(jobs.iter().map(of).collect())
    });
    planned.map_err(|error| of_experiment(py, &error))
}

/// The fields that the file itself sweeps.
fn swept_by_file(experiment: &Experiment) -> Vec<String> {
    let first = experiment.file.points().into_iter().next().unwrap_or_default();
    first.into_iter().map(|(field, _)| field).collect()
}

/// Executes one run of a sweep. Returns its address and its document, `longfat.point/1`. Without a `stop`
/// Ctrl-C ends it, as in a worker's process.
#[pyfunction]
pub(crate) fn run_point(
    py: Python<'_>,
    scenario: &Scenario,
    engine: &str,
    variant: Option<String>,
    values: Values,
    repeat: u32,
    stop: Option<&Stop>,
) -> PyResult<(String, String)> {
    let engine = engine_in_process(py, engine)?;
    let own_stop = AtomicBool::new(false);
    let executed = match stop {
        Some(Stop { flag }) => {
            py.detach(|| execute(&scenario.experiment, engine, variant, &values, repeat, flag))
        }
        None => interruptible(py, &own_stop, || {
            execute(&scenario.experiment, engine, variant, &values, repeat, &own_stop)
        })?,
    };
    executed.map_err(|error| of_experiment(py, &error))
}

fn execute(
    experiment: &Experiment,
    engine: EngineChoice,
    variant: Option<String>,
    values: &Values,
    repeat: u32,
    stop: &AtomicBool,
) -> experiment::Result<(String, String)> {
    let file_fields = swept_by_file(experiment);
    let selected = values.iter().filter(|(field, _)| !file_fields.contains(field));
    let selection = Selection {
        engines: vec![engine],
        variants: variant.into_iter().collect(),
        over: selected.map(|(field, value)| (field.clone(), vec![value.clone()])).collect(),
        repeat: Some(repeat),
    };
    let point: BTreeMap<String, String> = values.iter().cloned().collect();
    let is_this = |job: &Job<'_>| {
        let has_values = job.point.as_ref().map_or(point.is_empty(), |own| own.values == point);
        has_values && job.repeat == repeat
    };
    let job = experiment.jobs(&selection)?.into_iter().find(is_this);
    let jobs = [job.ok_or_else(|| Error::BadInput("the scenario has no such point".into()))?];
    experiment.check(&jobs)?;
    let options = RunOptions { stop, parallel_runs: Some(NonZeroUsize::MIN), ..RunOptions::default() };
    let completed = run_all(&jobs, &options)?.pop();
    let Some(completed) = completed.filter(|_| !stop.load(Ordering::Relaxed)) else {
        return Err(Error::Interrupted);
    };
    if let Some(error) = completed.failed {
        return Err(error);
    }
    let document = PointDocument::of(&jobs[0], &completed.summary);
    Ok((document.address.clone(), document.to_json()?))
}

/// The document of the point with this address in the store of a directory of records; `None` if it is not
/// stored.
#[pyfunction]
pub(crate) fn stored_point(py: Python<'_>, runs: PathBuf, address: &str) -> PyResult<Option<String>> {
    let found = py.detach(|| {
        let document = PointStore::of_runs(&runs).get(address)?;
        document.map(|document| document.to_json()).transpose()
    });
    found.map_err(|error| of_experiment(py, &error))
}

/// Stores the document of a point.
#[pyfunction]
pub(crate) fn store_point(py: Python<'_>, runs: PathBuf, document: &str) -> PyResult<()> {
    let document: PointDocument = serde_json::from_str(document)
        .map_err(|error| bad_input(py, format!("this is not a document of a point: {error}")))?;
    let stored = py.detach(|| PointStore::of_runs(&runs).put(&document));
    stored.map_err(|error| of_experiment(py, &error))
}
