//! `longfat man`, generated from the same definitions as `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use crate::output;

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page per command into this directory: longfat.1, longfat-run.1, ...
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints longfat(1), or writes the pages of all commands.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    let Some(dir) = &args.output else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return output::text(&String::from_utf8_lossy(&page));
    };
    write_pages(dir, command).with_context(|| format!("cannot write manual pages to {}", dir.display()))
}

fn write_pages(dir: &Path, command: Command) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    Ok(clap_mangen::generate_to(command, dir)?)
}
