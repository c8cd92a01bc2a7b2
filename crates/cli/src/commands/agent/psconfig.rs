//! `longfat agent psconfig`: the recurring tests of a point from and as perfSONAR's description of a mesh.

use std::{collections::BTreeMap, fs, path::PathBuf};

use agent::Members;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Directory, SCHEMA, failure};
use crate::{exit::Exit, output};

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum PsconfigCommand {
    /// Convert the tasks of a pSConfig file in which this point sends into `tests` tables for agent.toml, and
    /// print them
    Import(ImportArgs),
    /// Print the recurring tests of this point as a pSConfig file
    Export(Directory),
}

/// Options of `agent psconfig import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file (JSON)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The point for an address in the file that no member of the mesh has (repeatable)
    #[arg(long, value_name = "ADDRESS=POINT", value_parser = mapped)]
    map: Vec<(String, String)>,
    #[command(flatten)]
    directory: Directory,
}

fn mapped(text: &str) -> Result<(String, String), String> {
    let (address, point) = text.split_once('=').ok_or("the form is ADDRESS=POINT, as in ps1.example=a")?;
    Ok((address.into(), point.into()))
}

/// Runs the command.
pub fn run(command: &PsconfigCommand, json: bool) -> anyhow::Result<()> {
    match command {
        PsconfigCommand::Import(args) => import(args, json),
        PsconfigCommand::Export(directory) => export(directory),
    }
}

fn import(args: &ImportArgs, json: bool) -> anyhow::Result<()> {
    let config = args.directory.config()?;
    let members = Members::open(&config.state).map_err(failure)?;
    let text = fs::read_to_string(&args.file)
        .map_err(|error| Exit::BadInput(format!("cannot read {}: {error}", args.file.display())))?;
    let points: BTreeMap<String, String> = args.map.iter().cloned().collect();
    if let Some(point) = points.values().find(|point| members.address(&point.as_str().into()).is_none()) {
        return Err(Exit::BadInput(format!("no point of the mesh has the name {point:?}")).into());
    }
    let imported = agent::import_psconfig(&text, &config.name, &members, &points).map_err(failure)?;
    if json {
        return output::json(&json!({
            "schema": SCHEMA, "toml": imported.toml, "tests": imported.tests, "notes": imported.notes,
        }));
    }
    for note in &imported.notes {
        output::note(note);
    }
    let head = format!("# {} tests from {}; append them to agent.toml.", imported.tests, args.file.display());
    output::text(&format!("{head}\n\n{}", imported.toml.trim_end()))
}

fn export(directory: &Directory) -> anyhow::Result<()> {
    let config = directory.config()?;
    let members = Members::open(&config.state).map_err(failure)?;
    let exported = agent::export_psconfig(&config, &members);
    for note in &exported.notes {
        output::note(note);
    }
    output::json(&exported.document)
}
