//! The scenarios with published figures, and their built-in copies.

use std::path::{Path, PathBuf};

use scenario::ScenarioFile;

use crate::{
    Experiment, Result,
    built_in::{BUILT_IN, BuiltIn},
    error::Attempted,
    scenario_file,
};

/// The built-in scenarios with published figures, without excerpts of others.
const WITH_FIGURES: [&str; 24] = [
    "areas",
    "closed-forms",
    "g-endbuf",
    "g-mtu",
    "g-mtufair",
    "g-multi",
    "g-multi-transfer",
    "g-recover",
    "g-rttfair",
    "h-100m",
    "h-900",
    "h-burst",
    "h-gigabit",
    "h-lab",
    "h-pe1650",
    "h-transpac",
    "l8-hol",
    "lab13",
    "lab8",
    "lab8-kernel-6-1",
    "lab8-ping",
    "u-buffers",
    "u-web100",
    "zero-window",
];

/// The scenarios with published figures in `dir`; `None`: the built-in ones.
///
/// # Errors
/// The directory or a file cannot be read, or a file has mistakes.
pub fn experiments(dir: Option<&Path>) -> Result<Vec<Experiment>> {
    match dir {
        None => BUILT_IN.iter().filter(|one| WITH_FIGURES.contains(&one.name)).map(parsed).collect(),
        Some(dir) => in_directory(dir),
    }
}

fn parsed(one: &BuiltIn) -> Result<Experiment> {
    let path = format!("scenarios/{}.toml", one.name);
    Ok(Experiment::new(ScenarioFile::parse(&path, one.text)?, Path::new(&path)))
}

fn in_directory(dir: &Path) -> Result<Vec<Experiment>> {
    let entries = std::fs::read_dir(dir).attempted(|| format!("read {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let file = scenario_file::read(&path, |_| {})?;
        if !file.published().is_empty() {
            all.push(Experiment::new(file, &path));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::reproduce::CATALOGUE;

    /// Excerpts at a tenth of the rate for the lab; they have the ids of other scenarios.
    const EXCERPTS: [&str; 2] = ["g-mtufair-short", "g-rttfair-short"];

    #[test]
    fn all_scenarios_with_published_figures_are_built_in() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let names = |all: Vec<Experiment>| -> BTreeSet<String> {
            all.iter().map(|one| one.file.name().to_owned()).collect()
        };
        let mut in_folder = names(experiments(Some(&dir)).unwrap());
        in_folder.retain(|name| !EXCERPTS.contains(&name.as_str()));
        assert_eq!(names(experiments(None).unwrap()), in_folder);
    }

    #[test]
    fn every_result_has_a_figure_or_a_reason() {
        let all = experiments(None).unwrap();
        let with: BTreeSet<&str> =
            all.iter().flat_map(|s| s.file.published()).map(|p| p.id.as_str()).collect();
        for entry in CATALOGUE {
            assert_eq!(entry.not_run.is_none(), with.contains(entry.id), "{}", entry.id);
        }
        for id in with {
            assert!(CATALOGUE.iter().any(|entry| entry.id == id), "{id} is not in the catalogue");
        }
    }
}
