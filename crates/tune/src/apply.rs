//! Sets settings and puts them back. Each step may be the last one: whatever is cut short, [`revert`] puts everything back.
//!
//! 1. The journal is written with all values as they are, and synchronized.
//! 2. The file is written beside its place and renamed.
//! 3. Each setting is written and read back.
//! 4. The journal is marked complete.
//!
//! To revert: settings in the opposite order, the file, and the journal last.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use serde::Serialize;

use crate::{
    advice::{Advice, Goal},
    error::{Attempted, Error},
    journal::{self, FileChange, Journal, SettingChange},
    roots::Roots,
    setting, sysctl,
};

/// Files in /etc/sysctl.d are for all to read.
const FILE_MODE: u32 = 0o644;

/// What is to be set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What for, in words: the first lines of the file, and in the journal.
    pub purpose: String,
    /// The path, for `check`.
    pub goal: Option<Goal>,
    /// Settings of the path's device are wanted too.
    pub devices: bool,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

impl Wanted {
    /// The sysctls that an advice would change.
    pub fn of(advice: &Advice, goal: &Goal, purpose: &str) -> Wanted {
        let settings = advice.changes().map(|(name, _, value)| (name.into(), value.into())).collect();
        Wanted { purpose: purpose.into(), goal: Some(goal.clone()), devices: false, settings }
    }

    /// And what it would change of devices.
    pub fn with_devices(mut self, advice: &Advice) -> Wanted {
        self.devices = true;
        self.settings.extend(advice.device_changes().map(|(name, value)| (name, value.into())));
        self
    }

    /// As a file of /etc/sysctl.d, without what is of devices. Settings that an earlier one had and this has not stay in it.
    pub fn file_text(&self) -> String {
        let mut text =
            format!("# Written by longfat tune ({}); longfat tune --revert takes it back.\n", self.purpose);
        for (name, value) in self.settings.iter().filter(|(name, _)| setting::is_sysctl(name)) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }
}

/// What was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// Settings that were not as before.
    pub settings: Vec<SettingChange>,
    /// Of these, those that somebody had changed after us, with the value that they had.
    pub changed_since: Vec<(String, String)>,
    /// The file is as before: gone, or with its old text.
    pub file: Option<std::path::PathBuf>,
    /// Lines of it that somebody had added or changed after us, and that are gone with it.
    pub file_lines: Vec<String>,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// What was set, and how it was before.
    pub journal: Journal,
    /// What the device cannot have, or its driver refuses: it is as it was.
    pub refused: Vec<Refused>,
}

/// A device's setting that did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// As `eth0 rx ring`.
    pub name: String,
    /// What was wanted.
    pub value: String,
    /// What the kernel said.
    pub why: String,
}

impl Refused {
    fn new(name: &str, value: &str, error: &impl std::fmt::Display) -> Self {
        Refused { name: name.into(), value: value.into(), why: error.to_string() }
    }
}

/// Sets what is wanted. What an earlier call set stays, and the values before that one are what `revert` puts back. A device's setting that
/// it refuses is left as it was. `step` is told what comes next, before it comes.
///
/// # Errors
/// After which everything is as it was before the first call, unless the error says otherwise.
pub fn apply(roots: &Roots, wanted: &Wanted, mut step: impl FnMut(&str)) -> Result<Applied, Error> {
    step("make the journal's directory");
    let _lock = journal::lock(roots)?;
    let mut journal = match Journal::read(roots)? {
        Some(journal) => journal,
        None => Journal::new(&wanted.purpose)?,
    };
    journal.purpose.clone_from(&wanted.purpose);
    journal.goal.clone_from(&wanted.goal);
    journal.devices |= wanted.devices;
    let outcome = make(roots, wanted, &mut journal, &mut step);
    let error = match outcome {
        Ok(refused) => return Ok(Applied { journal, refused }),
        Err(error) => error,
    };
    match put_back(roots, &journal, &mut step) {
        Ok(_) => Err(error),
        Err(then) => Err(Error::NotPutBack { first: Box::new(error), then: Box::new(then) }),
    }
}

fn make(
    roots: &Roots,
    wanted: &Wanted,
    journal: &mut Journal,
    step: &mut impl FnMut(&str),
) -> Result<Vec<Refused>, Error> {
    journal.complete = false;
    let earlier = journal.settings.clone();
    let mut refused = Vec::new();
    for (name, value) in &wanted.settings {
        match journal.settings.iter_mut().find(|change| change.name == *name) {
            Some(change) => change.after.clone_from(value),
            None => match setting::read(roots, name) {
                Ok(before) => {
                    journal.settings.push(SettingChange { name: name.clone(), before, after: value.clone() });
                }
                Err(error) if !setting::is_sysctl(name) => {
                    refused.push(Refused::new(name, value, &error));
                }
                Err(error) => return Err(error).attempted(|| format!("read {name}")),
            },
        }
    }
    let all = Wanted {
        purpose: wanted.purpose.clone(),
        goal: None,
        devices: false,
        settings: journal.settings.iter().map(|change| (change.name.clone(), change.after.clone())).collect(),
    };
    if let Some(path) = &roots.file {
        journal.file = Some(match journal.file.take() {
            Some(file) => FileChange { after: all.file_text(), ..file },
            None => FileChange {
                path: path.clone(),
                before: existing(path)?,
                after: all.file_text(),
                made_directory: path.parent().is_some_and(|parent| !parent.exists()),
            },
        });
    }
    step("write the journal");
    journal.write(roots)?;
    if let Some(file) = &journal.file {
        step("make the file's directory");
        if let Some(parent) = file.path.parent() {
            fs::create_dir_all(parent).attempted(|| format!("make {}", parent.display()))?;
        }
        step("write the file");
        journal::write_whole(&file.path, file.after.as_bytes(), FILE_MODE)
            .attempted(|| format!("write {}", file.path.display()))?;
    }
    for (name, value) in &wanted.settings {
        if refused.iter().any(|one| one.name == *name) {
            continue;
        }
        step(name);
        match set(roots, name, value) {
            Err(error) if !setting::is_sysctl(name) => {
                leave_out(roots, name, &earlier, journal)?;
                refused.push(Refused::new(name, value, &error));
            }
            set => set?,
        }
    }
    step("complete the journal");
    journal.complete = true;
    journal.write(roots)?;
    step("end");
    Ok(refused)
}

/// A setting that did not take is as it was, and the journal has it as it was in `earlier`.
fn leave_out(
    roots: &Roots,
    name: &str,
    earlier: &[SettingChange],
    journal: &mut Journal,
) -> Result<(), Error> {
    let Some(place) = journal.settings.iter().position(|change| change.name == name) else { return Ok(()) };
    let was = earlier.iter().find(|change| change.name == name);
    let before = was.map_or(&journal.settings[place].before, |change| &change.after).clone();
    if setting::read(roots, name).is_ok_and(|now| now != before) {
        setting::write(roots, name, &before).attempted(|| format!("put {name} back to \"{before}\""))?;
    }
    match was {
        Some(change) => journal.settings[place] = change.clone(),
        None => drop(journal.settings.remove(place)),
    }
    Ok(())
}

/// Writes a setting and checks that it took.
fn set(roots: &Roots, name: &str, value: &str) -> Result<(), Error> {
    let failed = |source| Error::Setting { name: name.into(), value: value.into(), source };
    setting::write(roots, name, value).map_err(failed)?;
    let got = setting::read(roots, name).map_err(failed)?;
    if got == sysctl::normal(value) {
        return Ok(());
    }
    Err(Error::NotTaken { name: name.into(), value: value.into(), got })
}

/// A file's text and permissions.
fn existing(path: &Path) -> Result<Option<(String, u32)>, Error> {
    let read = || Ok((fs::read_to_string(path)?, fs::metadata(path)?.permissions().mode() & 0o7777));
    match read() {
        Ok(found) => Ok(Some(found)),
        Err(e) if io::Error::kind(&e) == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).attempted(|| format!("read {}", path.display())),
    }
}

/// Puts everything back; nothing where there is no journal.
pub fn revert(roots: &Roots, mut step: impl FnMut(&str)) -> Result<Option<Reverted>, Error> {
    if !roots.state.exists() {
        return Ok(None);
    }
    let _lock = journal::lock(roots)?;
    match Journal::read(roots)? {
        Some(journal) => put_back(roots, &journal, &mut step).map(Some),
        None => {
            clean(roots, &mut step)?;
            Ok(None)
        }
    }
}

fn put_back(roots: &Roots, journal: &Journal, step: &mut impl FnMut(&str)) -> Result<Reverted, Error> {
    let mut reverted = Reverted::default();
    for change in journal.settings.iter().rev() {
        let now = match setting::read(roots, &change.name) {
            Err(e) if setting::is_gone(&change.name, &e) => continue,
            other => other.attempted(|| format!("read {}", change.name))?,
        };
        if now == change.before {
            continue;
        }
        if now != sysctl::normal(&change.after) {
            reverted.changed_since.push((change.name.clone(), now));
        }
        step(&change.name);
        setting::write(roots, &change.name, &change.before)
            .attempted(|| format!("put {} back to \"{}\"", change.name, change.before))?;
        reverted.settings.push(change.clone());
    }
    if let Some(file) = &journal.file {
        reverted.file_lines = others_lines(file);
        step("put the file back");
        put_file_back(file).attempted(|| format!("put {} back as it was", file.path.display()))?;
        reverted.file = Some(file.path.clone());
    }
    clean(roots, step)?;
    Ok(reverted)
}

/// Lines of the file that were not written by us.
fn others_lines(file: &FileChange) -> Vec<String> {
    let now = fs::read(&file.path).unwrap_or_default();
    let now = String::from_utf8_lossy(&now);
    let lines = now.lines().filter(|line| !line.trim().is_empty());
    lines.filter(|line| file.after.lines().all(|own| own != *line)).map(Into::into).collect()
}

fn put_file_back(file: &FileChange) -> io::Result<()> {
    if file.path.parent().is_some_and(|parent| !parent.exists()) {
        return Ok(());
    }
    match &file.before {
        Some((text, mode)) => journal::write_whole(&file.path, text.as_bytes(), *mode)?,
        None => journal::remove(&file.path)?,
    }
    journal::remove(&journal::beside(&file.path))?;
    journal::sync_directory(&file.path)?;
    match file.path.parent() {
        // Only if it is empty: others may have put files there.
        Some(parent) if file.made_directory => drop(fs::remove_dir(parent)),
        _ => {}
    }
    Ok(())
}

/// Removes the journal and its directory.
fn clean(roots: &Roots, step: &mut impl FnMut(&str)) -> Result<(), Error> {
    let path = roots.journal_path();
    step("remove the journal");
    journal::remove(&journal::beside(&path))
        .and_then(|()| journal::remove(&path))
        .and_then(|()| journal::sync_directory(&path))
        .attempted(|| format!("remove {}", path.display()))?;
    step("remove the journal's directory");
    // Only if it is empty: another namespace's journal may be there.
    let _ = fs::remove_dir(&roots.state);
    step("end");
    Ok(())
}
