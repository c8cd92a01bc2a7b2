//! Runs: executed here, or opened from records.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
};

use experiment::{
    CompletedRun, EngineChoice, EngineChoices, Error, Experiment, Observer, Progress, Retention, RunObserver,
    RunOptions, Selection, run_all,
};
use pyo3::prelude::*;
use units::Time;
use view::{LoadedRun, PlotOptions};

use crate::{
    errors::{bad_input, failed, of_experiment},
    interruptible::SIGNAL_CHECK_INTERVAL,
    scenario_file::Scenario,
    table::{Table, of_events, of_flows, of_links},
};

/// A run with its series.
#[pyclass(frozen, module = "longfat._native")]
pub(crate) struct Run {
    loaded: LoadedRun,
    toml: String,
    /// The record's directory, if there is one.
    path: Option<PathBuf>,
}

#[pymethods]
impl Run {
    /// The run's summary as JSON.
    fn summary_json(&self, py: Python<'_>) -> PyResult<String> {
        serde_json::to_string(&self.loaded.run).map_err(|error| failed(py, error.to_string()))
    }

    /// A series: `flows`, `links` or `events`.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let built = py.detach(|| match name {
            "flows" => Ok(of_flows(&self.loaded.flows)),
            "links" => Ok(of_links(&self.loaded.links)),
            "events" => Ok(of_events(&self.loaded.events)),
            other => Err(format!("there is no table {other:?}; there are flows, links and events")),
        });
        let built = built.map_err(|message| bad_input(py, message))?;
        built.map_err(|error| failed(py, error.to_string()))
    }

    #[getter]
    fn scenario(&self) -> &str {
        &self.loaded.scenario
    }

    #[getter]
    fn scenario_toml(&self) -> &str {
        &self.toml
    }

    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    #[getter]
    fn partial(&self) -> bool {
        self.loaded.partial
    }

    /// A picture of metrics over time, or over another metric, as SVG.
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn plot(
        &self,
        py: Python<'_>,
        metrics: Vec<String>,
        against: Option<&str>,
        title: Option<String>,
        width: u32,
        panel_height: u32,
        span_s: Option<(f64, f64)>,
    ) -> PyResult<String> {
        let title = title.or_else(|| Some(self.loaded.title.clone()));
        let options = PlotOptions { title, width, panel_height, span_s, ..PlotOptions::default() };
        let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
        let drawn = py.detach(|| match against {
            Some(against) => view::plot_against(&[&self.loaded], &metrics, against, &options),
            None => view::plot(&[&self.loaded], &metrics, &options),
        });
        drawn.map_err(|error| bad_input(py, error.to_string()))
    }
}

/// Executes one run of a scenario by the model or the simulator. `progress` is called with the elapsed and
/// the total seconds of the run's own time. The interpreter lock is released; Ctrl-C ends the run.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    engine: &str,
    variant: Option<String>,
    progress: Option<Py<PyAny>>,
    runs: Option<PathBuf>,
) -> PyResult<Run> {
    let experiment = &scenario.experiment;
    let (engine, stop) = (engine_in_process(py, engine)?, AtomicBool::new(false));
    let variants: Vec<&str> = experiment.file.variants().collect();
    if variant.is_none() && variants.len() > 1 {
        let names = variants.join(", ");
        return Err(bad_input(
            py,
            format!("the scenario has several variants: pass variant=, one of {names}"),
        ));
    }
    let selection = Selection {
        variants: variant.into_iter().collect(),
        repeat: Some(1),
        ..Selection::with_engine(engine)
    };
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let observer = Reporter { sender: Mutex::new(sender.clone()), is_wanted: progress.is_some() };
    let outcome = std::thread::scope(|scope| {
        let (stop, runs) = (&stop, runs.as_deref());
        scope.spawn(move || {
            let result = execute(experiment, &selection, runs, &observer, stop);
            // The receiver has been dropped if the caller was interrupted.
            let _ = sender.send(Message::Ended(Box::new(result)));
        });
        let outcome = wait(py, &receiver, progress.as_ref());
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let (completed, toml) = outcome?.map_err(|error| of_experiment(py, &error))?;
    loaded(py, experiment, completed, toml)
}

/// The engine of this name, if it runs within the calling process.
pub(crate) fn engine_in_process(py: Python<'_>, name: &str) -> PyResult<EngineChoice> {
    let choices: EngineChoices = name.parse().map_err(|message: String| bad_input(py, message))?;
    match EngineChoices::chosen(&[choices]).as_slice() {
        [engine @ (EngineChoice::Model | EngineChoice::Sim)] => Ok(engine.clone()),
        _ => Err(bad_input(py, format!("engine {name} does not run within a Python process"))),
    }
}

/// A message from the thread of a run.
enum Message {
    Elapsed { elapsed: Time, total: Time },
    Ended(Box<experiment::Result<(CompletedRun, String)>>),
}

/// Sends a run's progress to the calling thread.
struct Reporter {
    sender: Mutex<Sender<Message>>,
    is_wanted: bool,
}

impl Observer for Reporter {
    fn run(&self, _: &str, duration: Time) -> Box<dyn RunObserver + '_> {
        match (self.is_wanted, self.sender.lock()) {
            (true, Ok(sender)) => Box::new(RunReporter { sender: sender.clone(), total: duration }),
            _ => Box::new(()),
        }
    }
}

struct RunReporter {
    sender: Sender<Message>,
    total: Time,
}

impl RunObserver for RunReporter {
    fn progress(&mut self, progress: &Progress) {
        let _ = self.sender.send(Message::Elapsed { elapsed: progress.elapsed, total: self.total });
    }
}

/// Executes the only selected run.
fn execute(
    experiment: &Experiment,
    selection: &Selection,
    runs: Option<&Path>,
    observer: &Reporter,
    stop: &AtomicBool,
) -> experiment::Result<(CompletedRun, String)> {
    let jobs = experiment.jobs(selection)?;
    if jobs.len() > 1 {
        return Err(Error::BadInput("the scenario sweeps fields: use longfat.sweep".into()));
    }
    experiment.check(&jobs)?;
    let retention = runs.map_or(Retention::Rows, Retention::RecordAndRows);
    let options = RunOptions {
        retention,
        observer,
        stop,
        parallel_runs: Some(std::num::NonZeroUsize::MIN),
        ..RunOptions::default()
    };
    let toml = jobs.first().map(|job| job.scenario.to_toml()).unwrap_or_default();
    match run_all(&jobs, &options)?.pop() {
        Some(CompletedRun { failed: Some(error), .. }) => Err(error),
        Some(_) | None if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
        Some(completed) => Ok((completed, toml)),
        None => Err(Error::BadInput("the selection has no runs".into())),
    }
}

/// Waits for the end of a run; reports its progress, and returns early with the exception of a signal or of
/// `progress`.
fn wait(
    py: Python<'_>,
    receiver: &Mutex<Receiver<Message>>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<experiment::Result<(CompletedRun, String)>> {
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
            receiver.recv_timeout(SIGNAL_CHECK_INTERVAL)
        });
        match received {
            Ok(Message::Elapsed { elapsed, total }) => {
                if let Some(progress) = progress {
                    progress.call1(py, (elapsed.as_secs_f64(), total.as_secs_f64()))?;
                }
            }
            Ok(Message::Ended(result)) => return Ok(*result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(failed(py, "the run's thread has ended")),
        }
        py.check_signals()?;
    }
}

/// The run with its rows.
fn loaded(py: Python<'_>, experiment: &Experiment, completed: CompletedRun, toml: String) -> PyResult<Run> {
    let Some(rows) = completed.rows else { return Err(failed(py, "the run has no rows")) };
    let summary = experiment.summary(vec![completed.summary]);
    let path = rows.record.clone();
    let record = rows.record.unwrap_or_default();
    let loaded = LoadedRun::from_rows(summary, record, rows.flows, rows.links, rows.events);
    Ok(Run { loaded, toml, path })
}

/// Opens a record: by its directory, or by its name in the directory of records.
#[pyfunction]
pub(crate) fn open_run(py: Python<'_>, key: &str, runs: PathBuf) -> PyResult<Run> {
    read_record(py, || record::find(&runs, key))
}

/// Reads the record in a directory that is removed afterwards: the run has no record then.
#[pyfunction]
pub(crate) fn read_run(py: Python<'_>, directory: PathBuf) -> PyResult<Run> {
    let mut run = read_record(py, || record::Run::open(&directory))?;
    (run.path, run.loaded.path, run.loaded.run.record) = (None, PathBuf::new(), None);
    Ok(run)
}

fn read_record(
    py: Python<'_>,
    open: impl FnOnce() -> Result<record::Run, record::Error> + Send,
) -> PyResult<Run> {
    let opened = py.detach(|| {
        let record = open()?;
        let loaded = LoadedRun::load(&record)?;
        Ok::<_, record::Error>((loaded, record.scenario_toml().unwrap_or_default(), record.path))
    });
    let (loaded, toml, path) = opened.map_err(|error| bad_input(py, experiment::error::chain(&error)))?;
    Ok(Run { loaded, toml, path: Some(path) })
}

/// Compares two runs metric by metric: `longfat.compare/1` as JSON.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, a: &Run, b: &Run) -> PyResult<String> {
    let comparison = view::compare(&a.loaded.run, &b.loaded.run);
    serde_json::to_string(&comparison).map_err(|error| failed(py, error.to_string()))
}
