//! `longfat lab`: looks after the labs of this machine.

use clap::Subcommand;
use lab::Journal;

use crate::{exit::Exit, lab_check, output};

/// What to do about labs.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Tell what this machine can do as a lab, and what to do where it cannot
    Check,
    /// Remove what killed runs left, and nothing of live ones
    Clean,
}

/// Runs the command.
pub fn run(command: &LabCommand, json: bool) -> anyhow::Result<()> {
    match command {
        LabCommand::Check => lab_check::run(json),
        LabCommand::Clean => clean(json),
    }
}

fn clean(json: bool) -> anyhow::Result<()> {
    let cleaned = clean_journal(&Journal::of_this_user())?;
    if json {
        return output::json(&cleaned);
    }
    let removed =
        cleaned.removed.iter().map(|e| format!("removed what process {} left of {}", e.pid, e.scenario));
    let alive = cleaned
        .alive
        .iter()
        .map(|e| format!("left alone: {} of process {}, which is running", e.scenario, e.pid));
    let lines: Vec<String> = removed.chain(alive).collect();
    output::text(if lines.is_empty() { "nothing to clean".into() } else { lines.join("\n") }.as_str())
}

/// Cleans a journal; entries that cannot be read are the user's to look at.
pub fn clean_journal(journal: &Journal) -> anyhow::Result<lab::Cleaned> {
    journal.clean().map_err(|e| match e {
        lab::Error::Journal { .. } => {
            Exit::BadInput(format!("{e}; remove the file if it is not needed")).into()
        }
        other => other.into(),
    })
}
