//! Scenario files as the command line names them: TOML, or a MiniEdit topology (.mn).

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use scenario::{Imported, Scenario, ScenarioFile, import_mn};

use crate::{exit::Exit, output, presets};

/// Reads and checks a scenario file. What a MiniEdit topology has that means nothing here is told once.
pub fn read_scenario(path: &Path) -> anyhow::Result<ScenarioFile> {
    read_telling(path, |note| output::note(&format!("{}: {note}", path.display())))
}

/// The same of a file whose notes another process of ours has told.
pub fn read_told_scenario(path: &Path) -> anyhow::Result<ScenarioFile> {
    read_telling(path, |_| {})
}

fn read_telling(path: &Path, tell: impl Fn(&str)) -> anyhow::Result<ScenarioFile> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    if is_mn(path) {
        let imported = import(path, &text)?;
        imported.notes.iter().for_each(|note| tell(note));
        return Ok(ScenarioFile::parse(&name, &imported.toml).map_err(Exit::Scenario)?);
    }
    Ok(ScenarioFile::parse_with(&name, &text, &beside(path)).map_err(Exit::Scenario)?)
}

/// The base or a variant of a scenario file with `--set` values over it.
pub fn resolve(
    file: &ScenarioFile,
    path: &Path,
    variant: Option<&str>,
    sets: &[(String, String)],
) -> anyhow::Result<Scenario> {
    Ok(file.resolve_with(variant, sets, &beside(path)).map_err(Exit::Scenario)?)
}

/// The folder of the scenario file at `path`.
pub fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads files in the folder of the scenario file at `path`.
fn beside(path: &Path) -> impl Fn(&str) -> Result<String, String> {
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
pub fn read_mn(path: &Path) -> anyhow::Result<Imported> {
    import(path, &read_text(path)?)
}

fn import(path: &Path, text: &str) -> anyhow::Result<Imported> {
    let stem = path.file_stem().map_or("topology".into(), |s| s.to_string_lossy());
    Ok(import_mn(text, &stem).map_err(|e| Exit::BadInput(format!("{}: {e}", path.display())))?)
}

fn is_mn(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mn"))
}

/// The text of a file; where there is none, of the preset with this name.
fn read_text(path: &Path) -> anyhow::Result<String> {
    if !path.exists()
        && let Some(text) = presets::find(path)
    {
        return Ok(text.into());
    }
    let bytes = fs::read(path).map_err(|e| Exit::BadInput(format!("cannot read {}: {e}", path.display())))?;
    let kind = if is_mn(path) { "a MiniEdit topology" } else { "TOML" };
    Ok(String::from_utf8(bytes).map_err(|e| {
        Exit::BadInput(format!("{} is not {kind}: it is not UTF-8 text ({e})", path.display()))
    })?)
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
