//! `longfat config`: the settings of the configuration files.

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::{config_file::Config, output};

/// Options of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {}

/// Shows each setting, its value, and where it comes from.
pub fn run(_: &ConfigArgs, config: &Config, runs: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let settings = config.settings(runs);
    if json {
        let rows: Vec<_> = settings
            .iter()
            .map(|one| json!({ "name": one.name, "value": one.value, "source": one.source }))
            .collect();
        return output::json(&json!({ "settings": rows, "files": config.files() }));
    }
    let width = settings.iter().filter_map(|one| one.value.as_ref()).map(String::len).max().unwrap_or(0);
    let names = settings.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for one in &settings {
        let value = one.value.as_deref().unwrap_or("-");
        text.push_str(&format!("{:<names$}  {value:<width$}  {}\n", one.name, one.source));
    }
    text.push('\n');
    for file in config.files() {
        let state = if file.is_read { "read" } else { "does not exist, or may not be read" };
        text.push_str(&format!("{}: {state}\n", file.path.display()));
    }
    output::prose(&text)
}
