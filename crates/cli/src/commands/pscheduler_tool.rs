//! `longfat pscheduler-tool`: a method of the pScheduler tool plug-in. The programs in the plug-in's
//! directory call it.

use std::io::Read;

use clap::Args;
use pscheduler::{Method, Settings, call};
use record::RunsLocation;

use crate::{exit::Exit, interrupt, output};

/// Longest input, bytes: results of all participants.
const MAX_INPUT_BYTES: u64 = 256 << 20;

/// Options of `pscheduler-tool`.
#[derive(Debug, Args)]
pub struct PschedulerToolArgs {
    /// The method: enumerate, can-run, duration, participant-data, run or merged-results. Its input is read
    /// from standard input
    #[arg(value_name = "METHOD")]
    method: Method,
    /// Port of the server of a throughput test
    #[arg(long, value_name = "PORT", default_value_t = Settings::default().port)]
    port: u16,
}

/// Runs the command. Records are written only if `runs` is given: pScheduler's user has no directory for
/// them.
pub fn run(args: &PschedulerToolArgs, runs: Option<&RunsLocation>) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let mut input = String::new();
    if args.method.has_input() {
        let read = std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut input);
        read.map_err(|error| Exit::BadInput(format!("cannot read standard input: {error}")))?;
    }
    let settings =
        Settings { port: args.port, runs_dir: runs.map(RunsLocation::writable).transpose()?, stop };
    let reply = call(args.method, &input, &settings).map_err(|error| match error {
        pscheduler::Error::Input(_) => Exit::BadInput(error.to_string()),
        pscheduler::Error::System { .. } => Exit::Failed(error.to_string()),
    })?;
    output::json(&reply)
}
