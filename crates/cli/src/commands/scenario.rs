//! `longfat scenario`: scenario files from other programs' files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use experiment::scenario_file::read_mn;

use crate::output;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Convert a MiniEdit topology (.mn, version 1 or 2) into a scenario file
    Import(ImportArgs),
}

/// Options of `scenario import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The topology
    file: PathBuf,
    /// The scenario file to write [default: standard output]
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
