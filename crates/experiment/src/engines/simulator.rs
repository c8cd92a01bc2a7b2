//! The simulator as an engine: simulates TCP of this machine's kernel version in virtual time, with
//! congestion controls built from C files.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use cc::native::Library;
use computed_runs::{
    congestion::values,
    sim_engine::{CongestionControls, FlowControllers, Simulator},
};
use lab::Observer as _;
use scenario::{Cc, FlowSpec, Scenario};
use schema::{Event, FlowSample, HostInfo, LinkSample, TraceRow};
use sim::Controllers;
use units::{KernelVersion, Time};

use super::{Engine, Task};
use crate::{
    Error, Outcome, Result,
    congestion::{built_in_names, file_control, source},
    engine_outcome::Recording,
    machine::machine_setting,
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Interval at which progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The simulator.
pub(crate) struct Sim<'a> {
    /// The scenario file's path; congestion controls are relative to its directory.
    pub path: &'a Path,
    /// This machine. Its kernel is simulated for hosts without the key `kernel`.
    pub host: &'a HostInfo,
    /// Simulated kernel for hosts without the key `kernel`, instead of this machine's.
    pub kernel: Option<KernelVersion>,
    /// Names of the flows to trace.
    pub traced: &'a [String],
}

impl Engine for Sim<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, initial, observer, writer, stop } = task;
        let began = Instant::now();
        let mut native = Native { path: self.path, libraries: Vec::new() };
        let recording = Recording { writer, observer };
        let mut watcher = Watcher { recording, reported: began, stop, traced: self.traced };
        let run = self.simulator().run(scenario, initial, &mut native, &mut watcher, || began.elapsed())?;
        Ok(run.into())
    }
}

impl Sim<'_> {
    /// Calls `with` with the congestion controls that the scenario's flows name.
    ///
    /// # Errors
    /// The simulator does not support the requested kernel, or `with` fails.
    pub(crate) fn with_native<T>(
        &self,
        scenario: &Scenario,
        with: impl FnOnce(&mut dyn Controllers) -> Result<T>,
    ) -> Result<T> {
        let machine = self.simulator().host_defaults()?;
        let mut library = Native { path: self.path, libraries: Vec::new() };
        with(&mut FlowControllers {
            scenario,
            sysctls: &machine_setting,
            machine: &machine,
            library: &mut library,
        })
    }

    /// Simulates with the caller's congestion controls and observer.
    ///
    /// # Errors
    /// The simulation fails.
    pub(crate) fn simulate(
        &self,
        scenario: &Scenario,
        controllers: &mut dyn Controllers,
        observer: &mut dyn sim::Observer,
    ) -> Result<()> {
        sim::run(scenario, &self.simulator().host_defaults()?, controllers, observer)?;
        Ok(())
    }

    fn simulator(&self) -> Simulator<'_> {
        Simulator { sysctls: &machine_setting, machine_kernel: &self.host.kernel, kernel: self.kernel }
    }
}

/// Congestion controls from C files, each loaded once per run and set of parameters.
struct Native<'a> {
    path: &'a Path,
    /// Each with the HZ (timer ticks per second) of the hosts that it is for.
    libraries: Vec<(Cc, u32, Library)>,
}

impl Native<'_> {
    fn library(&mut self, cc: &Cc, hz: u32) -> Result<&Library> {
        let index = match self.libraries.iter().position(|(known, ticks, _)| known == cc && *ticks == hz) {
            Some(index) => index,
            None => {
                let source = source(cc, self.path).ok_or_else(|| {
                    let built_in = built_in_names().join(", ");
                    Error::BadInput(format!(
                        "there is no congestion control {:?}; longfat has {built_in}",
                        cc.name()
                    ))
                })?;
                let mut library = Library::open(&source, &values(cc))?;
                library.set_hz(hz);
                self.libraries.push((cc.clone(), hz, library));
                self.libraries.len() - 1
            }
        };
        Ok(&self.libraries[index].2)
    }

    fn create(&mut self, cc: &Cc, hz: u32, seed: u64) -> Result<Box<dyn tcp::CongestionControl>> {
        let mut controller = self.library(cc, hz)?.controller(file_control(cc)).map_err(Error::from)?;
        controller.set_seed(seed);
        Ok(Box::new(controller))
    }
}

impl CongestionControls for Native<'_> {
    fn has(&self, cc: &Cc) -> bool {
        source(cc, self.path).is_some()
    }

    fn controller(
        &mut self,
        cc: &Cc,
        hz: u32,
        seed: u64,
    ) -> std::result::Result<Box<dyn tcp::CongestionControl>, AnyError> {
        self.create(cc, hz, seed).map_err(Into::into)
    }
}

/// Records a simulation's rows and reports its progress.
struct Watcher<'a> {
    recording: Recording<'a>,
    /// When progress was last reported.
    reported: Instant,
    stop: &'a AtomicBool,
    traced: &'a [String],
}

impl sim::Observer for Watcher<'_> {
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> std::result::Result<(), AnyError> {
        self.recording.rows(flows, links, events)
    }

    fn progress(&mut self, elapsed: Time, latest: &[FlowSample]) -> bool {
        if self.reported.elapsed() >= PROGRESS_INTERVAL {
            self.reported = Instant::now();
            self.recording.progress(&lab::Progress { elapsed, flows: latest.to_vec() });
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn is_traced(&self, flow: &FlowSpec) -> bool {
        self.traced.contains(&flow.name)
    }

    fn trace_rows(&mut self, rows: &[TraceRow]) -> std::result::Result<(), AnyError> {
        match &mut self.recording.writer {
            Some(writer) => writer.append_trace(rows).map_err(Into::into),
            None => Ok(()),
        }
    }
}
