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
        GuestCommand::Init(args) => experiment::guest::init(args.seed)?,
        GuestCommand::Run => experiment::guest::run()?,
    }
    Ok(())
}
