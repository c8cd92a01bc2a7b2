//! Scenario files as people name them: TOML, a MiniEdit topology (.mn), or a sweep that comes with the program.

use std::{fs, path::Path};

use scenario::{Imported, Scenario, ScenarioFile, import_mn};

use crate::{Error, Result, presets};

/// Reads and checks a scenario file, or the sweep of this name that comes with the program. `note` gets what a MiniEdit
/// topology has that means nothing here.
///
/// # Errors
/// Where it cannot be read or has mistakes.
pub fn read(path: &Path, note: impl Fn(&str)) -> Result<ScenarioFile> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    if is_mn(path) {
        let imported = import(path, &text)?;
        imported.notes.iter().for_each(|text| note(text));
        return Ok(ScenarioFile::parse(&name, &imported.toml)?);
    }
    Ok(ScenarioFile::parse_with(&name, &text, &beside(path))?)
}

/// The base or a variant of a scenario file with changed values over it.
///
/// # Errors
/// Where they do not fit together.
pub fn resolve(
    file: &ScenarioFile,
    path: &Path,
    variant: Option<&str>,
    sets: &[(String, String)],
) -> Result<Scenario> {
    Ok(file.resolve_with(variant, sets, &beside(path))?)
}

/// The folder of the scenario file at `path`.
pub fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads files in the folder of the scenario file at `path`.
fn beside(path: &Path) -> impl Fn(&str) -> std::result::Result<String, String> {
    let folder = folder(path).to_owned();
    move |file| {
        let file = folder.join(file);
        // A pipe or a device might never end.
        match fs::metadata(&file).map_err(|e| e.to_string())?.is_file() {
            true => fs::read_to_string(&file).map_err(|e| e.to_string()),
            false => Err("it is no file".into()),
        }
    }
}

/// Reads a MiniEdit topology as a scenario file.
///
/// # Errors
/// Where it cannot be read or is none.
pub fn read_mn(path: &Path) -> Result<Imported> {
    import(path, &read_text(path)?)
}

fn import(path: &Path, text: &str) -> Result<Imported> {
    let stem = path.file_stem().map_or("topology".into(), |s| s.to_string_lossy());
    import_mn(text, &stem).map_err(|e| Error::BadInput(format!("{}: {e}", path.display())))
}

fn is_mn(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mn"))
}

/// The text of a file; where there is none, of the preset with this name.
fn read_text(path: &Path) -> Result<String> {
    if !path.exists()
        && let Some(text) = presets::find(path)
    {
        return Ok(text.into());
    }
    let bytes =
        fs::read(path).map_err(|e| Error::BadInput(format!("cannot read {}: {e}", path.display())))?;
    let kind = if is_mn(path) { "a MiniEdit topology" } else { "TOML" };
    String::from_utf8(bytes)
        .map_err(|e| Error::BadInput(format!("{} is not {kind}: it is not UTF-8 text ({e})", path.display())))
}
