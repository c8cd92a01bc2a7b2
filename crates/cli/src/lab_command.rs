//! `longfat lab`: looks after the labs of this machine.

use clap::Subcommand;
use lab::Journal;

use crate::{lab_check, output, shell, standing};

/// What to do about labs.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Bring a scenario's network up and keep it; any program runs on its hosts then
    Up(standing::UpArgs),
    /// Run a program on a host of a lab that is up: `longfat lab exec h1 -- ping h2`
    Exec(standing::ExecArgs),
    /// A prompt for a lab that is up, or for FILE while the prompt lasts: `h1 ping h2`, `link s1-s2 down`, `help`
    Shell(shell::ShellArgs),
    /// How the labs are that are up
    Status(standing::StatusArgs),
    /// Take a lab down, with all programs on its hosts
    Down(standing::DownArgs),
    /// Tell what this machine can do as a lab, and what to do where it cannot
    Check,
    /// Remove what killed runs left, and nothing of live ones
    Clean,
    /// The process behind `up`
    #[command(hide = true)]
    Keep(standing::UpArgs),
}

/// Runs the command.
pub fn run(command: &LabCommand, json: bool) -> anyhow::Result<()> {
    match command {
        LabCommand::Up(args) => standing::up(args, json),
        LabCommand::Exec(args) => standing::exec(args),
        LabCommand::Shell(args) => shell::run(args),
        LabCommand::Status(args) => standing::status(args, json),
        LabCommand::Down(args) => standing::down(args, json),
        LabCommand::Check => lab_check::run(json),
        LabCommand::Clean => clean(json),
        LabCommand::Keep(args) => standing::keep(args),
    }
}

fn clean(json: bool) -> anyhow::Result<()> {
    let cleaned = experiment::clean_journal(&Journal::of_this_user())?;
    if json {
        return output::json(&cleaned);
    }
    let removed =
        cleaned.removed.iter().map(|e| format!("removed what process {} left of {}", e.pid, e.scenario));
    let alive = cleaned
        .alive
        .iter()
        .map(|e| format!("left alone: {} of process {}, which is running", e.scenario, e.pid));
    // What somebody loaded to stay is no leftover; it is told, since nothing else reminds of it.
    let loaded = cc::kernel::pins::pinned().unwrap_or_default().into_iter().map(|pinned| {
        format!("left alone: congestion control {0}; `longfat cc unload {0}` removes it", pinned.name)
    });
    let lines: Vec<String> = removed.chain(alive).chain(loaded).collect();
    output::text(if lines.is_empty() { "nothing to clean".into() } else { lines.join("\n") }.as_str())
}
