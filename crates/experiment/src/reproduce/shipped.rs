//! The scenarios with published figures, and their built-in copies.

use std::path::{Path, PathBuf};

use scenario::ScenarioFile;

use crate::{
    Experiment, Result,
    built_in::{BUILT_IN, BuiltIn},
    error::Attempted,
    scenario_file,
};

/// The built-in scenarios with published figures.
const WITH_FIGURES: [&str; 27] = [
    "areas",
    "closed-forms",
    "g-endbuf",
    "g-mtu",
    "g-mtufair",
    "g-mtufair-short",
    "g-multi",
    "g-multi-transfer",
    "g-recover",
    "g-rttfair",
    "g-rttfair-short",
    "h-100m",
    "h-900",
    "h-burst",
    "h-gigabit",
    "h-lab",
    "h-pathbuff",
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

    /// The engines of the texts per engine.
    const ENGINES: [&str; 5] = ["model", "sim", "lab", "kernel", "hosts"];

    #[test]
    fn all_scenarios_with_published_figures_are_built_in() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let names = |all: Vec<Experiment>| -> BTreeSet<String> {
            all.iter().map(|one| one.file.name().to_owned()).collect()
        };
        assert_eq!(names(experiments(None).unwrap()), names(experiments(Some(&dir)).unwrap()));
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

    /// An experiment that shows the cause of a miss can be repeated: it is a variant of the file, or a
    /// command with a built-in scenario.
    fn check_experiment(file: &ScenarioFile, id: &str, text: &str) {
        let variants = |file: &ScenarioFile| file.variants().map(str::to_owned).collect::<Vec<_>>();
        let words: Vec<&str> = text.split(' ').collect();
        let ["longfat", command, name, options @ ..] = &words[..] else {
            assert!(variants(file).contains(&text.to_owned()), "{id}: there is no variant {text:?}");
            return;
        };
        assert!(["run", "sweep"].contains(command), "{id}: {text}");
        let other = BUILT_IN.iter().find(|one| one.name == *name).map(|one| one.parse().unwrap());
        let other = other.unwrap_or_else(|| panic!("{id}: there is no scenario {name:?}"));
        for pair in options.windows(2).filter(|pair| pair[0] == "--variant") {
            for variant in pair[1].split(',') {
                assert!(
                    variants(&other).contains(&variant.to_owned()),
                    "{id}: {name} has no variant {variant:?}"
                );
            }
        }
    }

    #[test]
    fn every_documented_miss_has_an_experiment() {
        for one in experiments(None).unwrap() {
            for figure in one.file.published() {
                let id = format!("{} {}", one.file.name(), figure.id);
                for engine in ENGINES.iter().filter(|engine| figure.known_miss.of(engine).is_some()) {
                    let text = figure.experiment.of(engine);
                    assert!(text.is_some(), "{id}: the miss of {engine} has no experiment");
                }
                let texts = ENGINES.iter().filter_map(|engine| figure.experiment.of(engine));
                texts.for_each(|text| check_experiment(&one.file, &id, text));
            }
        }
    }
}
