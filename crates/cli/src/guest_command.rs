//! `longfat guest`: this program inside a guest kernel, where `--engine kernel` starts it. First it is the guest's first
//! process; that starts it once more, to run the scenario in the lab in virtual time.

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

use anyhow::Context;
use clap::{Args, Subcommand};
use guest::init::{Init, SHARED};
use lab::{Backend, Journal, Progress, TimeMode};
use record::Writer;
use scenario::ScenarioFile;
use schema::Summary;

use crate::{
    congestion,
    exit::chain,
    kernel_engine::{BEGUN, FAILURE, Failure, PROGRESS, ProgressReport, RUNS, SCENARIO, STOP},
    lab_engine::{self, LabSetup},
};

/// How often the guest sees whether it is to stop, in virtual time.
const STOP_INTERVAL: Duration = Duration::from_secs(1);

/// The steps inside a guest.
#[derive(Debug, Subcommand)]
pub enum GuestCommand {
    /// The first process
    Init(InitArgs),
    /// The run
    Run,
}

/// What the first process needs to know.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where random numbers begin
    seed: u64,
    /// What User-Mode Linux adds to the arguments
    #[arg(hide = true)]
    others: Vec<String>,
}

/// Does one of the steps.
pub fn run(command: &GuestCommand) -> anyhow::Result<()> {
    match command {
        GuestCommand::Init(args) => init(args),
        GuestCommand::Run => match run_scenario() {
            Ok(()) => Ok(()),
            Err(error) => {
                let failure = Failure { exit: crate::exit::code(&error), message: chain(&error) };
                fs::write(Path::new(SHARED).join(FAILURE), serde_json::to_string(&failure)?)?;
                Ok(())
            }
        },
    }
}

fn init(args: &InitArgs) -> anyhow::Result<()> {
    anyhow::ensure!(std::process::id() == 1, "this is for the first process of a guest kernel alone");
    let init = Init { seed: args.seed };
    // Not by its path: the guest's own /tmp hides a program that is in the machine's.
    init.run(Command::new("/proc/self/exe").args(["guest", "run"]))
}

/// Runs the scenario of the shared directory and leaves a record there.
fn run_scenario() -> anyhow::Result<()> {
    let shared = Path::new(SHARED);
    let text = fs::read_to_string(shared.join(SCENARIO))?;
    let mut begun: Summary = serde_json::from_slice(&fs::read(shared.join(BEGUN))?)?;
    let file = ScenarioFile::parse(&begun.scenario, &text)?;
    let scenario = file.resolve(None, &[])?;
    let run = begun.runs.pop().context("nothing was begun")?;
    begun.host = lab::host_info();

    let stop = stop_flag()?;
    let setup = LabSetup {
        journal: Journal::of_this_user(),
        privilege: lab::acquire().map_err(lab_engine::failure)?,
        time: TimeMode::Virtual,
        backend: Backend::for_this_machine(),
    };
    let registered = congestion::register(&scenario, shared)?;
    let mut writer = Writer::create(&shared.join(RUNS), &begun.scenario, "run", &text, &begun)?;
    let mut report = |progress: &Progress| {
        // Written when the file is closed. Nobody needs it.
        let _ = fs::write(shared.join(PROGRESS), ProgressReport::of(progress));
    };
    let rows = lab_engine::run(&scenario, &registered, run, &setup, &mut report, &mut writer, &stop)?;
    begun.runs.push(rows.summary);
    writer.finish(&begun, &rows.flows, &rows.links, &rows.events)?;
    match rows.failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// A flag that is set soon after the machine has put a file named [`STOP`] into the shared directory.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let watch = move || {
        while !Path::new(SHARED).join(STOP).exists() {
            std::thread::sleep(STOP_INTERVAL);
        }
        flag.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("stop".into()).spawn(watch).context("cannot start a thread")?;
    Ok(stop)
}
