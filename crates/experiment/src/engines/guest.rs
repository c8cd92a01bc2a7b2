//! This program inside a guest kernel, where the kernel engine starts it. First it is the guest's first process; that starts it
//! once more, to run the scenario in the lab in virtual time.

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
    kernel::{BEGUN, FAILURE, Failure, PROGRESS, ProgressReport, RUNS, SCENARIO, STOP},
};
use crate::{
    Error, Result, RunObserver,
    congestion::register,
    error::{Attempted, chain},
};

/// How often the guest sees whether it is to stop, in virtual time.
const STOP_INTERVAL: Duration = Duration::from_secs(1);

/// Is the first process of a guest; returns only if it cannot be.
///
/// # Errors
/// Where this process is another.
pub fn init(seed: u64) -> Result<()> {
    if std::process::id() != 1 {
        return Err(Error::Failed("this is for the first process of a guest kernel alone".into()));
    }
    // Not by its path: the guest's own /tmp hides a program that is in the machine's.
    Init { seed }.run(Command::new("/proc/self/exe").args(["guest", "run"]))
}

/// Runs the scenario of the shared directory and leaves a record there, or why there is none.
///
/// # Errors
/// Where not even that can be written.
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
    let mut summary: Summary = serde_json::from_str(&read(BEGUN)?)?;
    let file = ScenarioFile::parse(&summary.scenario, &text)?;
    let scenario = file.resolve(None, &[])?;
    let Some(begun) = summary.runs.pop() else {
        return Err(Error::Failed("nothing was begun".into()));
    };
    summary.host = lab::host_info();

    let stop = stop_flag()?;
    let setup = LabSetup {
        journal: Journal::of_this_user(),
        privilege: lab::acquire()?,
        time: TimeMode::Virtual,
        backend: Backend::for_this_machine(),
    };
    let registered = register(&scenario, shared)?;
    let mut writer = Writer::create(&shared.join(RUNS), &summary.scenario, "run", &text, &summary)?;
    let lab = Lab { setup: &setup, registered: &registered };
    let writer_of_run = Some(&mut writer);
    let task =
        Task { scenario: &scenario, begun, observer: &mut Reporter, writer: writer_of_run, stop: &stop };
    let outcome = lab.run(task)?;
    summary.runs.push(outcome.summary);
    writer.finish(&summary, &outcome.flows, &outcome.links, &outcome.events)?;
    outcome.failed.map_or(Ok(()), Err)
}

/// Leaves how far the run is in the shared directory.
struct Reporter;

impl RunObserver for Reporter {
    fn progress(&mut self, progress: &Progress) {
        // Written when the file is closed. Nobody needs it.
        let _ = fs::write(Path::new(SHARED).join(PROGRESS), ProgressReport::of(progress));
    }
}

/// A flag that is set soon after the machine has put a file named [`STOP`] into the shared directory.
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
