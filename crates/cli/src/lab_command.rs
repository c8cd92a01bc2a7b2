//! `longfat lab`: looks after the labs of this machine.

use clap::Subcommand;
use lab::Journal;

use crate::exit::Exit;

/// What to do about labs.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Remove what killed runs left, and nothing of live ones
    Clean,
}

/// Runs the command.
pub fn run(command: &LabCommand, json: bool) -> anyhow::Result<()> {
    match command {
        LabCommand::Clean => clean(json),
    }
}

fn clean(json: bool) -> anyhow::Result<()> {
    let cleaned = clean_journal(&Journal::of_this_user())?;
    if json {
        println!("{}", serde_json::to_string_pretty(&cleaned)?);
        return Ok(());
    }
    for entry in &cleaned.removed {
        println!("removed what process {} left of {}", entry.pid, entry.scenario);
    }
    for entry in &cleaned.alive {
        println!("left alone: {} of process {}, which is running", entry.scenario, entry.pid);
    }
    if cleaned.removed.is_empty() && cleaned.alive.is_empty() {
        println!("nothing to clean");
    }
    Ok(())
}

/// Cleans a journal; entries that cannot be read are the user's to look at.
pub fn clean_journal(journal: &Journal) -> anyhow::Result<lab::Cleaned> {
    journal.clean().map_err(|e| match e {
        lab::Error::Journal { .. } => Exit::BadInput(format!("{e}; remove the file if it is not needed")).into(),
        other => other.into(),
    })
}
