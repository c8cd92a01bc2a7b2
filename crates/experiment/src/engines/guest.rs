//! This program inside a guest kernel. The kernel engine starts it as the guest's first process (PID 1),
//! which starts it again to run the scenario in the lab in virtual time.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use guest::init::{Init, SHARED};
use lab::{Backend, Journal, Progress, TimeMode};
use record::Writer;
use scenario::ScenarioFile;
use schema::Summary;

use super::{
    Engine, Lab, LabSetup, Task,
    kernel::{FAILURE, Failure, INITIAL_SUMMARY, PROGRESS, ProgressReport, RUNS, SCENARIO, STOP},
};
use crate::{
    Error, Result, RunObserver,
    congestion::register,
    error::{Attempted, chain},
};

/// Interval at which the guest polls for the stop file, in virtual time.
const STOP_INTERVAL: Duration = Duration::from_secs(1);

/// Acts as the first process of a guest; powers the guest off at the end and does not return.
///
/// # Errors
/// This process is not PID 1.
pub fn init(seed: u64) -> Result<()> {
    if std::process::id() != 1 {
        return Err(Error::Failed("`guest init` runs only as the first process of a guest kernel".into()));
    }
    // Not by its path: if the program is in the host's /tmp, the guest's /tmp hides it.
    Init { seed }.run(Command::new("/proc/self/exe").args(["guest", "run"]))
}

/// Runs the scenario of the shared directory and writes a record there. If the run fails, writes the reason
/// there.
///
/// # Errors
/// The reason of a failure cannot be written.
pub fn run() -> Result<()> {
    let Err(error) = run_scenario() else { return Ok(()) };
    let failure = Failure { kind: error.kind(), message: chain(&error) };
    let path = Path::new(SHARED).join(FAILURE);
    fs::write(&path, serde_json::to_string(&failure)?).attempted(|| format!("write {}", path.display()))
}

fn run_scenario() -> Result<()> {
    let shared = Path::new(SHARED);
    let read =
        |name: &str| fs::read_to_string(shared.join(name)).attempted(|| format!("read the guest's {name}"));
    let text = read(SCENARIO)?;
    let mut summary: Summary = serde_json::from_str(&read(INITIAL_SUMMARY)?)?;
    let file = ScenarioFile::parse(&summary.scenario, &text)?;
    let scenario = file.resolve(None, &[])?;
    let Some(initial) = summary.runs.pop() else {
        return Err(Error::Failed("the summary that the guest received has no run".into()));
    };
    summary.host = lab::host_info();

    let stop = stop_flag()?;
    let setup = LabSetup {
        journal: Journal::of_this_user(),
        privilege: lab::acquire_privilege()?,
        time: TimeMode::Virtual,
        backend: Backend::for_this_machine(),
    };
    let registered = register(&scenario, shared)?;
    let mut writer = Writer::create(&shared.join(RUNS), &summary.scenario, "run", &text, &summary)?;
    let lab = Lab { setup: &setup, registered: &registered };
    let writer_of_run = Some(&mut writer);
    let task =
        Task { scenario: &scenario, initial, observer: &mut Reporter, writer: writer_of_run, stop: &stop };
    let outcome = lab.run(task)?;
    summary.runs.push(outcome.summary);
    writer.finish(&summary, &outcome.flows, &outcome.links, &outcome.events)?;
    outcome.failed.map_or(Ok(()), Err)
}

/// Writes the progress of the run to the shared directory.
struct Reporter;

impl RunObserver for Reporter {
    fn progress(&mut self, progress: &Progress) {
        // Best effort: the run does not depend on its progress display.
        let _ = fs::write(Path::new(SHARED).join(PROGRESS), ProgressReport::of(progress));
    }
}

/// A flag that is set soon after the host creates a file named [`STOP`] in the shared directory.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let watch = move || {
        while !Path::new(SHARED).join(STOP).exists() {
            std::thread::sleep(STOP_INTERVAL);
        }
        flag.store(true, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name("stop".into()).spawn(watch);
    thread.attempted(|| "start a thread".into())?;
    Ok(stop)
}
