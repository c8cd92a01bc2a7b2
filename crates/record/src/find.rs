//! Finds records in the runs directory: all of them, or the one that a key names.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schema::nearest_names;

use crate::error::Context;
use crate::layout::{SCENARIO, SUMMARY, directory_name, id_of, partial_id};
use crate::{Error, Run};

/// One directory among the runs, whether it can be read or not.
#[derive(Debug)]
pub struct RunEntry {
    /// The scenario's name (the directory above).
    pub scenario: String,
    /// The run's id.
    pub id: String,
    /// The record's directory.
    pub path: PathBuf,
    /// Whether the run ended early or is still in progress, or has no summary.
    pub partial: bool,
    /// Whether the directory is a record, readable or damaged. Only such directories are removed.
    pub is_record: bool,
    /// The record, or why it cannot be read.
    pub run: Result<Run, Error>,
}

impl RunEntry {
    /// The location of the record: its directory, or its address in an object store.
    pub fn location(&self) -> String {
        let known = self.run.as_ref().map(Run::location);
        known.unwrap_or_else(|_| self.path.display().to_string())
    }

    /// The run as `scenario/id`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.scenario, self.id)
    }

    /// Newest last: by the second in the id, then by when the record was last written, then by name.
    fn order(&self) -> (String, SystemTime, String) {
        let second = self.id.split('-').next().unwrap_or_default().to_owned();
        let written = fs::metadata(self.path.join(SUMMARY))
            .and_then(|m| m.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        (second, written, self.name())
    }
}

/// All records below `runs_dir`, newest last; none if the directory does not exist. A record that cannot
/// be read is listed with its error.
///
/// # Errors
/// If a directory cannot be read.
pub fn list(runs_dir: &Path) -> Result<Vec<RunEntry>, Error> {
    let mut entries = Vec::new();
    for scenario_dir in subdirectories(runs_dir)? {
        let scenario = directory_name(&scenario_dir).unwrap_or_default();
        if scenario.starts_with('.') {
            continue;
        }
        for path in subdirectories(&scenario_dir)? {
            let name = directory_name(&path).unwrap_or_default();
            let (id, partial) = match partial_id(&name) {
                Some(id) => (id.to_owned(), true),
                None if name.starts_with('.') => continue,
                None => (id_of(&name).to_owned(), !path.join(SUMMARY).exists()),
            };
            let run = Run::open(&path);
            let partial = run.as_ref().map_or(partial, |run| run.partial);
            let is_record = run.is_ok() || is_damaged_record(&path);
            entries.push(RunEntry { scenario: scenario.clone(), id, path, partial, is_record, run });
        }
    }
    entries.sort_by_cached_key(RunEntry::order);
    Ok(entries)
}

/// Whether a directory whose summary cannot be read is a record: it has the name of an unfinished one, or a
/// scenario. Directories of other programs may have a file of the summary's name too.
fn is_damaged_record(path: &Path) -> bool {
    directory_name(path).is_some_and(|name| partial_id(&name).is_some()) || path.join(SCENARIO).exists()
}

/// The record that `key` names: a record's directory, an id or the beginning of one, `scenario/id`, `last`
/// (the newest complete run), `last~1` (the one before), or `scenario/last`.
///
/// # Errors
/// If no run or several runs match, or the record or a directory cannot be read.
pub fn find(runs_dir: &Path, key: &str) -> Result<Run, Error> {
    let as_path = Path::new(key);
    if as_path.join(SUMMARY).exists() {
        return Run::open(as_path);
    }
    find_entry(runs_dir, key)?.run
}

/// The entry of the list that `key` names, as in [`find`]. A directory must be one of the list.
///
/// # Errors
/// If no run or several runs match, or a directory cannot be read. A record that cannot be read is not an
/// error.
pub fn find_entry(runs_dir: &Path, key: &str) -> Result<RunEntry, Error> {
    select(list(runs_dir)?, &runs_dir.display().to_string(), key)
}

/// The entry of the list of `location` that `key` names.
pub(crate) fn select(mut entries: Vec<RunEntry>, location: &str, key: &str) -> Result<RunEntry, Error> {
    let index = match index_of_directory(&entries, Path::new(key)) {
        Some(index) => index,
        None => index_of(&entries, location, key)?,
    };
    Ok(entries.swap_remove(index))
}

/// The entry whose directory is `path`.
fn index_of_directory(entries: &[RunEntry], path: &Path) -> Option<usize> {
    let path = fs::canonicalize(path).ok()?;
    entries.iter().position(|entry| fs::canonicalize(&entry.path).is_ok_and(|own| own == path))
}

fn index_of(entries: &[RunEntry], location: &str, key: &str) -> Result<usize, Error> {
    let (scenario, id) = match key.trim_end_matches('/').rsplit_once('/') {
        Some((scenario, id)) => (Some(scenario), id),
        None => (None, key),
    };
    let (directory, id) = (id, id_of(id));
    let scenario_runs: Vec<(usize, &RunEntry)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| scenario.is_none_or(|name| entry.scenario == name))
        .collect();
    if let Some(back) = steps_back(id) {
        let is_complete = |(_, entry): &&(usize, &RunEntry)| entry.run.is_ok() && !entry.partial;
        let complete: Vec<usize> =
            scenario_runs.iter().filter(is_complete).map(|(index, _)| *index).collect();
        let found = complete.iter().rev().nth(back).copied();
        return found
            .ok_or_else(|| not_found(location, key, format!("there are {} complete runs", complete.len())));
    }
    let matching = |is_match: &dyn Fn(&str) -> bool| -> Vec<usize> {
        scenario_runs.iter().filter(|(_, entry)| is_match(&entry.id)).map(|(index, _)| *index).collect()
    };
    let mut matches = matching(&|own| own == id);
    if matches.is_empty() && !id.is_empty() {
        matches = matching(&|own| own.starts_with(id));
    }
    // A copy of a store beside the record itself: `ID` and `run=ID`.
    let is_one_run = matches.windows(2).all(|pair| entries[pair[0]].name() == entries[pair[1]].name());
    if is_one_run && matches.len() > 1 {
        let is_named = |index: &usize| directory_name(&entries[*index].path).as_deref() == Some(directory);
        if let Some(named) = matches.iter().copied().find(is_named) {
            return Ok(named);
        }
    }
    match matches.as_slice() {
        [] => Err(not_found(location, key, hint(entries, key))),
        [index] => Ok(*index),
        several => Err(Error::Ambiguous {
            key: key.to_owned(),
            candidates: several
                .iter()
                .map(|index| if is_one_run { entries[*index].location() } else { entries[*index].name() })
                .collect(),
        }),
    }
}

/// The scenario and the id of each record, without reading the records: for the completion of the shell.
///
/// # Errors
/// If a directory cannot be read.
pub fn names(runs_dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut names = Vec::new();
    for scenario_dir in subdirectories(runs_dir)? {
        let scenario = directory_name(&scenario_dir).unwrap_or_default();
        for path in subdirectories(&scenario_dir)? {
            let name = directory_name(&path).unwrap_or_default();
            let id = partial_id(&name).unwrap_or_else(|| id_of(&name));
            if !scenario.starts_with('.') && !id.starts_with('.') && path.join(SUMMARY).exists() {
                names.push((scenario.clone(), id.to_owned()));
            }
        }
    }
    Ok(names)
}

/// 0 for `last`, 1 for `last~1`.
fn steps_back(id: &str) -> Option<usize> {
    match id.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

fn not_found(location: &str, key: &str, hint: String) -> Error {
    Error::NotFound { key: key.to_owned(), location: location.to_owned(), hint }
}

/// The runs whose names are nearest to `key`.
fn hint(entries: &[RunEntry], key: &str) -> String {
    if entries.is_empty() {
        return "there are no runs".to_owned();
    }
    let last = key.trim_end_matches('/').rsplit('/').next().unwrap_or(key);
    let scenario_runs = entries.iter().filter(|entry| entry.scenario == last).count();
    if scenario_runs > 0 {
        return format!(
            "{last} is a scenario with {scenario_runs} runs: {last}/last is the newest, and {last}/ is all of them where a command takes \
             several runs"
        );
    }
    if last.starts_with("las") {
        return format!(
            "last is the newest of {}, last~1 the one before; `longfat ls` lists them",
            entries.len()
        );
    }
    let names: Vec<String> = match key.contains('/') {
        true => entries.iter().map(RunEntry::name).collect(),
        false => entries.iter().map(|entry| entry.id.clone()).collect(),
    };
    // If several are equally near, the newest come first.
    let near = nearest_names(key, names.iter().rev().map(String::as_str));
    format!("the nearest of {} are {}; `longfat ls` lists them", entries.len(), near.join(", "))
}

/// The directories in `dir`, by name; none if `dir` does not exist.
fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let reader = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("read", dir)?,
    };
    let mut found = Vec::new();
    for entry in reader {
        let path = entry.context("read", dir)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
