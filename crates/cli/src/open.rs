//! Files named on the command line.

use std::{fs::File, io::Read, path::Path};

use experiment::{EngineChoice, Experiment, scenario_file};
use scenario::ScenarioFile;
use units::{KernelVersion, KernelVersionError};

use crate::{exit::Exit, output, path_flags::PathFlags};

/// Reads and checks a scenario file; notes which parts of a MiniEdit topology have no effect.
pub fn read_scenario(path: &Path) -> anyhow::Result<ScenarioFile> {
    Ok(scenario_file::read(path, |note| print_note(path, note))?)
}

/// Reads and checks a scenario file as [`read_scenario`] does; returns an experiment.
pub fn read_experiment(path: &Path) -> anyhow::Result<Experiment> {
    Ok(Experiment::from_file_noting(path, |note| print_note(path, note))?)
}

/// The experiment of a scenario file, or without a file on the path that flags describe.
pub fn experiment_of(file: Option<&Path>, flags: &PathFlags) -> anyhow::Result<Experiment> {
    match (file, flags.given()) {
        (Some(file), None) => read_experiment(file),
        (None, Some(_)) if flags.rate.is_some() && flags.rtt.is_some() => {
            Ok(Experiment::on_simple_path(&flags.path())?)
        }
        (None, Some(flag)) => {
            Err(Exit::BadInput(format!("{flag} describes a path without a file; it needs --rate and --rtt"))
                .into())
        }
        (Some(file), Some(flag)) => Err(Exit::BadInput(format!(
            "{flag} describes a path without a file; change the values of {} with --set KEY=VALUE",
            file.display()
        ))
        .into()),
        (None, None) => Err(Exit::BadInput(
            "give a scenario file, the name of a built-in scenario (`longfat scenario list`), or a path by \
             --rate and --rtt"
                .into(),
        )
        .into()),
    }
}

/// Prints a sentence about a file on standard error.
pub fn print_note(path: &Path, note: &str) {
    output::note(&format!("{}: {note}", path.display()));
}

/// Reads another program's file of at most `max_bytes`; `-` is standard input.
pub fn read_import(file: &Path, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let bad = |why: String| Exit::BadInput(format!("cannot read {}: {why}", file.display()));
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            let opened = File::open(file).map_err(|e| bad(e.to_string()))?;
            // A pipe or a device might never end.
            if !opened.metadata().map_err(|e| bad(e.to_string()))?.is_file() {
                return Err(bad("not a regular file".into()).into());
            }
            Box::new(opened)
        }
    };
    let mut bytes = Vec::new();
    source.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
    if bytes.len() as u64 > max_bytes {
        return Err(bad(format!("larger than {} MiB", max_bytes >> 20)).into());
    }
    Ok(bytes)
}

/// The name of an imported file's record: the file name without extension, or `fallback` for standard input.
pub fn import_name(file: &Path, fallback: &str) -> String {
    let stem = file.file_stem().filter(|_| file.as_os_str() != "-");
    stem.map_or(fallback.into(), |stem| stem.to_string_lossy().into_owned())
}

/// Refuses `--ports` if none of the engines is the lab: only the lab has ports.
pub fn check_ports(ports: Option<lab::Backend>, engines: &[EngineChoice]) -> anyhow::Result<()> {
    if ports.is_none() || engines.contains(&EngineChoice::Lab) {
        return Ok(());
    }
    Err(Exit::BadInput("only the lab has --ports: add --engine lab".into()).into())
}

/// Parses the Linux version that the simulator is to use. A patched kernel can be set for a host only, not
/// for a run.
pub fn parse_simulated_kernel(text: &str) -> Result<KernelVersion, String> {
    match text.trim().ends_with("-web100") {
        true => {
            Err(format!("a patched kernel is a host's: write --set 'hosts.*.kernel=\"{}\"'", text.trim()))
        }
        false => text.parse().map_err(|error: KernelVersionError| error.to_string()),
    }
}

/// `KEY=VALUE` of a `--set` option.
pub fn parse_set(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE, as in duration=5s"))?;
    Ok((key.trim().into(), value.trim().into()))
}
