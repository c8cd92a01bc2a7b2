//! A simulation that Python advances sample by sample.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use experiment::{Error, Experiment, FlowControl, Selection, run_stepped};
use pyo3::prelude::*;
use schema::{FlowSample, Metrics};

use crate::{
    errors::{bad_input, failed, of_experiment},
    interruptible::SIGNAL_CHECK_INTERVAL,
    run::engine_in_process,
    scenario_file::Scenario,
};

/// Interval at which the end of the simulation's thread is checked.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A sample: its time, and the requested columns (NaN where absent).
type Sample = (i64, Vec<f64>);

/// A running simulation, which pauses at each sample of its controlled flow.
#[pyclass(frozen, module = "longfat._native")]
pub(crate) struct Stepped {
    /// `None` after the end.
    actions: Mutex<Option<Sender<FlowControl>>>,
    samples: Mutex<Receiver<experiment::Result<Option<Sample>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Ends the simulation between two samples.
    stop: Arc<AtomicBool>,
}

impl Drop for Stepped {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Stepped {
    /// Starts a simulation of the scenario in which the caller controls `flow`, with this congestion window
    /// and pacing rate (or no pacing) before its first step. Samples have these columns of the flow's series.
    #[new]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        variant: Option<String>,
        flow: String,
        columns: Vec<String>,
        cwnd_segs: u32,
        pacing_bps: Option<u64>,
    ) -> PyResult<Self> {
        let unknown = columns.iter().find(|name| FlowSample::column(name).is_none());
        if let Some(name) = unknown {
            return Err(bad_input(py, format!("flows have no column {name:?}")));
        }
        let indices: Vec<usize> = columns.iter().filter_map(|name| FlowSample::column(name)).collect();
        let selection = Selection {
            variants: variant.into_iter().collect(),
            repeat: Some(1),
            ..Selection::with_engine(engine_in_process(py, "sim")?)
        };
        let (actions, received_actions) = channel();
        let (sender, samples) = channel();
        let experiment = scenario.experiment.clone();
        let initial = FlowControl { cwnd_segs, pacing_bps };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut on_sample = |row: &FlowSample| {
                let cell = |index: &usize| row.metric(*index).map_or(f64::NAN, |value| value as f64);
                sender.send(Ok(Some((row.time_us, indices.iter().map(cell).collect())))).ok()?;
                // The sender of actions is dropped to end the simulation.
                received_actions.recv().ok()
            };
            let result = simulate(&experiment, &selection, &flow, initial, &stopped, &mut on_sample);
            let _ = sender.send(result.map(|()| None));
        });
        Ok(Stepped {
            actions: Mutex::new(Some(actions)),
            samples: Mutex::new(samples),
            thread: Mutex::new(Some(thread)),
            stop,
        })
    }

    /// The next sample; `None` at the end of the run. Ctrl-C ends the simulation, because otherwise the
    /// caller's next step would return the sample that is pending now.
    fn sample(&self, py: Python<'_>) -> PyResult<Option<Sample>> {
        loop {
            let received = py.detach(|| {
                let samples = self.samples.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
                samples.recv_timeout(SIGNAL_CHECK_INTERVAL)
            });
            match received {
                Ok(result) => return result.map_err(|error| of_experiment(py, &error)),
                Err(RecvTimeoutError::Disconnected) => return Err(failed(py, "the simulation has ended")),
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| self.end())?,
            }
        }
    }

    /// Sets the congestion window, and the pacing rate or no pacing, until the next sample, and returns that
    /// sample.
    fn step(&self, py: Python<'_>, cwnd_segs: u32, pacing_bps: Option<u64>) -> PyResult<Option<Sample>> {
        let sent = self
            .actions
            .lock()
            .ok()
            .and_then(|actions| actions.as_ref()?.send(FlowControl { cwnd_segs, pacing_bps }).ok());
        match sent {
            Some(()) => self.sample(py),
            None => Err(failed(py, "the simulation has ended")),
        }
    }

    /// Ends the simulation.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end();
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        let Some(thread) = thread else { return Ok(()) };
        // It ends at its next sample, which may take long if samples are rare.
        while !thread.is_finished() {
            py.detach(|| std::thread::sleep(END_CHECK_INTERVAL));
            py.check_signals()?;
        }
        // A panic was reported when it occurred.
        let _ = thread.join();
        Ok(())
    }
}

impl Stepped {
    /// Lets the simulation end at its next sample.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Without a sender of actions, a simulation that waits for one ends.
        let actions = self.actions.lock().ok().and_then(|mut actions| actions.take());
        drop(actions);
    }
}

fn simulate(
    experiment: &Experiment,
    selection: &Selection,
    flow: &str,
    initial: FlowControl,
    stop: &AtomicBool,
    on_sample: &mut dyn FnMut(&FlowSample) -> Option<FlowControl>,
) -> experiment::Result<()> {
    let jobs = experiment.jobs(selection)?;
    experiment.check(&jobs)?;
    match jobs.as_slice() {
        [job] => run_stepped(job, flow, initial, stop, on_sample),
        _ => Err(Error::BadInput(format!("the scenario has {} runs: choose a variant", jobs.len()))),
    }
}
