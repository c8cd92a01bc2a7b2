//! `longfat scenario`: other programs' files as scenario files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use experiment::scenario_file::read_mn;

use crate::output;

/// What to do about scenario files.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Make a scenario file of a MiniEdit topology (.mn, version 1 or 2)
    Import(ImportArgs),
}

/// What to import, and where to.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The topology
    file: PathBuf,
    /// The scenario file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: &ScenarioCommand, json: bool) -> anyhow::Result<()> {
    match command {
        ScenarioCommand::Import(args) => import(args, json),
    }
}

fn import(args: &ImportArgs, json: bool) -> anyhow::Result<()> {
    let imported = read_mn(&args.file)?;
    if let Some(path) = &args.output {
        output::file(path, &imported.toml)?;
    }
    if json {
        return output::json(&json!({
            "schema": "longfat.import/1", "toml": imported.toml, "notes": imported.notes,
        }));
    }
    imported.notes.iter().for_each(|note| output::note(&format!("{}: {note}", args.file.display())));
    match &args.output {
        Some(path) => output::text(&format!("wrote {}", path.display())),
        None => output::text(&imported.toml),
    }
}
