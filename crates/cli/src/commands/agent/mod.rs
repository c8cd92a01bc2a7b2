//! `longfat agent`: a measurement point. So far its limits; docs/agent.md has what exists.

mod limits;

use clap::Subcommand;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Limits of a point by user and address: explain decisions, import bwctl's files
    #[command(subcommand)]
    Limits(limits::LimitsCommand),
}

/// Runs the command.
pub fn run(command: &AgentCommand, json: bool) -> anyhow::Result<()> {
    match command {
        AgentCommand::Limits(command) => limits::run(command, json),
    }
}
