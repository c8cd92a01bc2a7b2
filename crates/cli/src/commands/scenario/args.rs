//! Arguments of `longfat scenario`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

use super::import::ImportArgs;
use crate::{commands::completions::complete_scenario, path_flags::PathFlags};

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// List the built-in scenarios, by name and title
    List,
    /// Print a scenario file: a built-in one by its name, or any other
    Show(ShowArgs),
    /// Check scenario files without running them
    Validate(ValidateArgs),
    /// Write a new scenario file: of a path described by flags, or a copy of a built-in one
    New(NewArgs),
    /// Convert a MiniEdit topology (.mn, version 1 or 2) into a scenario file
    Import(ImportArgs),
}

/// Options of `scenario show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of a built-in scenario, or a file
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete_scenario))]
    pub file: PathBuf,
}

/// Options of `scenario validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The scenario files, or names of built-in scenarios
    #[arg(required = true, value_name = "FILE", add = ArgValueCompleter::new(complete_scenario))]
    pub files: Vec<PathBuf>,
}

/// Options of `scenario new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The file to write [default: standard output]
    #[arg(conflicts_with = "output")]
    pub file: Option<PathBuf>,
    /// Copy this built-in scenario (see `longfat scenario list`)
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete_scenario),
          conflicts_with_all = ["rate", "rtt", "queue", "loss", "cc", "flows", "duration", "mtu"])]
    pub template: Option<PathBuf>,
    /// The file to write, as FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub path: PathFlags,
}
