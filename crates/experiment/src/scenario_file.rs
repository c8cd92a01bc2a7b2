//! Reads scenario files: TOML, a MiniEdit topology (.mn), or a built-in scenario by its name.

use std::{fs, io::ErrorKind, path::Path};

use scenario::{Imported, Scenario, ScenarioFile, import_mn};

use crate::{Error, Result, built_in};

/// Reads and checks a scenario file, or the built-in scenario of this name. `note` receives a sentence about
/// each ignored setting of a MiniEdit topology.
///
/// # Errors
/// The file cannot be read or has mistakes.
pub fn read(path: &Path, note: impl Fn(&str)) -> Result<ScenarioFile> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    if is_mn(path) {
        let imported = import(path, &text)?;
        imported.notes.iter().for_each(|text| note(text));
        return Ok(ScenarioFile::parse(&name, &imported.toml)?);
    }
    parse(path, &text)
}

/// Parses and checks the text of a scenario file at `path`, which need not exist.
///
/// # Errors
/// The text has mistakes, or a file that it names cannot be read.
pub fn parse(path: &Path, text: &str) -> Result<ScenarioFile> {
    Ok(ScenarioFile::parse_with(&path.display().to_string(), text, &reader_relative_to(path))?)
}

/// Resolves the base or a variant of a scenario file with overridden values.
///
/// # Errors
/// A value or the variant is invalid for this file.
pub fn resolve(
    file: &ScenarioFile,
    path: &Path,
    variant: Option<&str>,
    sets: &[(String, String)],
) -> Result<Scenario> {
    Ok(file.resolve_with(variant, sets, &reader_relative_to(path))?)
}

/// The folder to which the names of files in the scenario file at `path` are relative: that of the scenario
/// file. A built-in scenario names no files; for those in values that replace its own (`--set`) it is the
/// working directory.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|_| built_in::in_place_of(path).is_none()).unwrap_or(Path::new(""))
}

/// Returns a function that reads files in the folder of the scenario file at `path`.
fn reader_relative_to(path: &Path) -> impl Fn(&str) -> std::result::Result<String, String> {
    let folder = folder(path).to_owned();
    move |file| {
        let file = folder.join(file);
        // Reading a pipe or a device might never end.
        match fs::metadata(&file).map_err(|e| e.to_string())?.is_file() {
            true => fs::read_to_string(&file).map_err(|e| e.to_string()),
            false => Err("not a regular file".into()),
        }
    }
}

/// Reads a MiniEdit topology as a scenario file.
///
/// # Errors
/// The file cannot be read or is not a MiniEdit topology.
pub fn read_mn(path: &Path) -> Result<Imported> {
    import(path, &read_text(path)?)
}

fn import(path: &Path, text: &str) -> Result<Imported> {
    let stem = path.file_stem().map_or("topology".into(), |s| s.to_string_lossy());
    import_mn(text, &stem).map_err(|e| Error::BadInput(format!("{}: {e}", path.display())))
}

/// Whether a file is a MiniEdit topology, by its name.
pub fn is_mn(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mn"))
}

/// The text of a file; if the file does not exist, of the built-in scenario of this name.
///
/// # Errors
/// The file cannot be read, and there is no such built-in scenario.
pub fn read_text(path: &Path) -> Result<String> {
    if let Some(built_in) = built_in::in_place_of(path) {
        return Ok(built_in.text.into());
    }
    if let Some(topology) = built_in::topology(path) {
        return Ok(topology.into());
    }
    let bytes = fs::read(path).map_err(|e| {
        let help = if e.kind() == ErrorKind::NotFound { built_in::help(path) } else { String::new() };
        Error::BadInput(format!("cannot read {}: {e}{help}", path.display()))
    })?;
    if path.extension().is_some_and(|e| e == "py") {
        return Err(Error::BadInput(format!(
            "{0} is a Python program; if it builds a Mininet network, convert it: longfat scenario import mininet {0} -o {1}",
            path.display(),
            path.with_extension("toml").display()
        )));
    }
    let kind = if is_mn(path) { "a MiniEdit topology" } else { "TOML" };
    String::from_utf8(bytes)
        .map_err(|e| Error::BadInput(format!("{} is not {kind}: it is not UTF-8 text ({e})", path.display())))
}
