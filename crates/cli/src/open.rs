//! Files as the command line names them.

use std::{fs::File, io::Read, path::Path};

use experiment::{Experiment, scenario_file};
use scenario::ScenarioFile;

use crate::{exit::Exit, output};

/// Reads and checks a scenario file, and says what of a MiniEdit topology means nothing here.
pub fn read_scenario(path: &Path) -> anyhow::Result<ScenarioFile> {
    Ok(scenario_file::read(path, |note| print_note(path, note))?)
}

/// The same of a scenario file that can be run.
pub fn read_experiment(path: &Path) -> anyhow::Result<Experiment> {
    Ok(Experiment::from_file_noting(path, |note| print_note(path, note))?)
}

fn print_note(path: &Path, note: &str) {
    output::note(&format!("{}: {note}", path.display()));
}

/// Another program's file of at most `most` bytes; `-` is standard input.
pub fn read_import(file: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let bad = |why: String| Exit::BadInput(format!("cannot read {}: {why}", file.display()));
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            let opened = File::open(file).map_err(|e| bad(e.to_string()))?;
            // A pipe or a device might never end.
            if !opened.metadata().map_err(|e| bad(e.to_string()))?.is_file() {
                return Err(bad("it is no file".into()).into());
            }
            Box::new(opened)
        }
    };
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(bad(format!("it is larger than {} MiB", most >> 20)).into());
    }
    Ok(bytes)
}

/// What an imported file's record is called: its name without its ending, or `otherwise` where it has none.
pub fn import_name(file: &Path, otherwise: &str) -> String {
    let stem = file.file_stem().filter(|_| file.as_os_str() != "-");
    stem.map_or(otherwise.into(), |stem| stem.to_string_lossy().into_owned())
}

/// `KEY=VALUE` of a `--set` option.
pub fn parse_set(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.trim().into(), value.trim().into()))
}
