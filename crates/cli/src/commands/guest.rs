//! `longfat guest`: this program inside a guest kernel, where `--engine kernel` starts it.

use clap::{Args, Subcommand};

/// The steps inside a guest.
#[derive(Debug, Subcommand)]
pub enum GuestCommand {
    /// The first process
    Init(InitArgs),
    /// The run
    Run,
}

/// Options of the first process.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Seed of the random numbers
    seed: u64,
    /// Arguments that User-Mode Linux appends
    #[arg(hide = true)]
    others: Vec<String>,
}

/// Runs the command.
pub fn run(command: &GuestCommand) -> anyhow::Result<()> {
    match command {
        GuestCommand::Init(args) => experiment::guest::init(args.seed)?,
        GuestCommand::Run => experiment::guest::run()?,
    }
    Ok(())
}
