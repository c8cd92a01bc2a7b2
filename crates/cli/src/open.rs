//! Scenario files as the command line names them.

use std::{fs, path::Path};

use scenario::ScenarioFile;

use crate::exit::Exit;

/// Reads and checks a scenario file.
pub fn read_scenario(path: &Path) -> anyhow::Result<ScenarioFile> {
    let bytes = fs::read(path).map_err(|e| Exit::BadInput(format!("cannot read {}: {e}", path.display())))?;
    let text = String::from_utf8(bytes)
        .map_err(|e| Exit::BadInput(format!("{} is not TOML: it is not UTF-8 text ({e})", path.display())))?;
    Ok(ScenarioFile::parse(&path.display().to_string(), &text).map_err(Exit::Scenario)?)
}

/// `KEY=VALUE` of a `--set` option.
pub fn parse_set(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.trim().into(), value.trim().into()))
}
