//! `longfat scenario import`: scenario files from other programs' files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use experiment::{mininet::read_program, scenario_file::read_mn};
use scenario::Imported;

use crate::output;

/// Options of `scenario import`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: Option<ImportFrom>,
    /// The topology
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// The scenario file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Other sources of scenarios.
#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// Execute a Mininet program in Python and convert the network that it builds
    ///
    /// python3 runs FILE as you, with a stand-in for Mininet that needs no privilege and builds nothing.
    /// Commands for hosts and programs of this machine are not executed, and sleeps return at once; all other
    /// code of FILE is executed. Import only files that you trust.
    Mininet(MininetArgs),
}

/// Options of `scenario import mininet`.
#[derive(Debug, Args)]
pub struct MininetArgs {
    /// The program: Topo classes, `topos = {...}`, or a script that builds Mininet(...)
    file: PathBuf,
    /// A topology in `topos`, or a Topo class, with its arguments: tree,depth=2 [default: the network that
    /// the program builds]
    #[arg(long, value_name = "NAME")]
    topo: Option<String>,
    /// The scenario file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ImportArgs, json: bool) -> anyhow::Result<()> {
    match (&args.from, &args.file) {
        (Some(ImportFrom::Mininet(from)), _) => {
            let imported = read_program(&from.file, from.topo.as_deref())?;
            write(&imported, &from.file, from.output.as_deref(), json)
        }
        (None, Some(file)) => write(&read_mn(file)?, file, args.output.as_deref(), json),
        (None, None) => Ok(()),
    }
}

/// Writes an imported scenario, and the notes on skipped parts.
fn write(imported: &Imported, file: &Path, output: Option<&Path>, json: bool) -> anyhow::Result<()> {
    if let Some(path) = output {
        output::file(path, &imported.toml)?;
    }
    if json {
        return output::json(&json!({
            "schema": "longfat.import/1", "toml": imported.toml, "notes": imported.notes,
        }));
    }
    imported.notes.iter().for_each(|note| output::note(&format!("{}: {note}", file.display())));
    match output {
        Some(path) => output::text(&format!("wrote {}", path.display())),
        None => output::text(&imported.toml),
    }
}
