//! `longfat lab`: labs that stay up, and what this machine supports.

mod check;
mod guide;
mod shell;
pub mod standing;
pub mod tc_shim;

use clap::Subcommand;
use lab::Journal;

use crate::output;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Bring a scenario's network up and keep it up, to run any program on its hosts
    Up(standing::UpArgs),
    /// Run a program on a host of a lab that is up: `longfat lab exec h1 -- ping h2`
    Exec(standing::ExecArgs),
    /// Open a prompt for a lab that is up, or for FILE: `h1 ping h2`, `link s1-s2 down`, `help`
    Shell(shell::ShellArgs),
    /// Walk through a lab sheet step by step, with a check of each result: lab8, lab13
    Guide(guide::GuideArgs),
    /// Show the status of labs that are up
    Status(standing::StatusArgs),
    /// Take a lab down and end all programs on its hosts
    Down(standing::DownArgs),
    /// Check which labs this machine can run, and show how to enable what is missing
    Check,
    /// Remove leftovers of killed runs; live labs are not touched
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
        LabCommand::Guide(args) => guide::run(args),
        LabCommand::Status(args) => standing::status(args, json),
        LabCommand::Down(args) => standing::down(args, json),
        LabCommand::Check => check::run(json),
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
        cleaned.removed.iter().map(|e| format!("removed leftovers of process {} ({})", e.pid, e.scenario));
    let alive = cleaned
        .alive
        .iter()
        .map(|e| format!("skipped: {} of process {}, which is running", e.scenario, e.pid));
    // An algorithm that `cc load` registered is not left over, but it is listed as a reminder.
    let loaded = cc::kernel::pins::pinned().unwrap_or_default().into_iter().map(|pinned| {
        format!("skipped: congestion control {0}; `longfat cc unload {0}` removes it", pinned.name)
    });
    let lines: Vec<String> = removed.chain(alive).chain(loaded).collect();
    output::text(if lines.is_empty() { "nothing to clean".into() } else { lines.join("\n") }.as_str())
}
