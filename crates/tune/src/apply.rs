//! Applies settings and restores them. The process may be killed at any step: [`revert`] then restores
//! all settings.
//!
//! 1. Write the journal with all present values, and synchronize it.
//! 2. Write the sysctl file under a temporary name, and rename it.
//! 3. Write each setting, and read it back.
//! 4. Mark the journal complete.
//!
//! Reverting restores the settings in the opposite order, then the file, and removes the journal last.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use serde::Serialize;

use crate::{
    advice::{Advice, Goal},
    error::{Attempted, Error},
    host_paths::HostPaths,
    journal::{self, FileChange, Journal, SettingChange},
    overriding::overriding_lines,
    setting, sysctl,
};

/// Files in /etc/sysctl.d are readable by everyone.
const FILE_MODE: u32 = 0o644;

/// The settings to apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedSettings {
    /// The purpose in words, for the first line of the file and the journal.
    pub purpose: String,
    /// The path for which the host is tuned, for `check`.
    pub goal: Option<Goal>,
    /// Whether settings of the path's device are included.
    pub devices: bool,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

impl RequestedSettings {
    /// The sysctls that `advice` recommends to change.
    pub fn from_advice(advice: &Advice, goal: &Goal, purpose: &str) -> RequestedSettings {
        let settings = advice.changes().map(|(name, _, value)| (name.into(), value.into())).collect();
        RequestedSettings { purpose: purpose.into(), goal: Some(goal.clone()), devices: false, settings }
    }

    /// Adds the device settings that `advice` recommends to change.
    pub fn with_devices(mut self, advice: &Advice) -> RequestedSettings {
        self.devices = true;
        self.settings.extend(advice.device_changes().map(|(name, value)| (name, value.into())));
        self
    }

    /// The text of a file for /etc/sysctl.d. It has no device settings, which are not sysctls.
    pub fn file_text(&self) -> String {
        let mut text = format!(
            "# Written by longfat tune ({}); longfat tune --revert restores the previous settings.\n",
            self.purpose
        );
        for (name, value) in self.settings.iter().filter(|(name, _)| setting::is_sysctl(name)) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }
}

/// The outcome of [`revert`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// Settings that had another value than before, and were restored.
    pub settings: Vec<SettingChange>,
    /// Restored settings that another program had changed meanwhile, each with that program's value.
    pub changed_since: Vec<(String, String)>,
    /// The file that was restored: removed, or with its previous text.
    pub file: Option<std::path::PathBuf>,
    /// Lines of the file that another program added or changed meanwhile, and that are lost.
    pub file_lines: Vec<String>,
}

/// The outcome of [`apply`].
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The applied settings and their previous values.
    pub journal: Journal,
    /// Device settings that the device lacks or its driver rejected; they are unchanged.
    pub rejected: Vec<RejectedSetting>,
    /// Lines of other files, each after its path, that replace applied values when the machine starts.
    pub overriding: Vec<String>,
}

/// A device setting that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedSetting {
    /// Name, as in `eth0 rx ring`.
    pub name: String,
    /// The requested value.
    pub value: String,
    /// The kernel's error.
    pub why: String,
}

impl RejectedSetting {
    fn new(name: &str, value: &str, error: &impl std::fmt::Display) -> Self {
        RejectedSetting { name: name.into(), value: value.into(), why: error.to_string() }
    }
}

/// Applies settings. Settings of earlier calls remain, and `revert` restores the values before the first
/// call. Device settings that the driver rejects remain unchanged. `step` is called before each step with its
/// description.
///
/// # Errors
/// If a file or sysctl cannot be read or written. All settings are then restored to the values before the
/// first call, except for [`Error::RestoreFailed`].
pub fn apply(
    paths: &HostPaths,
    requested: &RequestedSettings,
    mut step: impl FnMut(&str),
) -> Result<Applied, Error> {
    step("create the journal's directory");
    let _lock = journal::lock(paths)?;
    let mut journal = match Journal::read(paths)? {
        Some(journal) => journal,
        None => Journal::new(&requested.purpose)?,
    };
    journal.purpose.clone_from(&requested.purpose);
    journal.goal.clone_from(&requested.goal);
    journal.devices |= requested.devices;
    let outcome = apply_all(paths, requested, &mut journal, &mut step);
    let error = match outcome {
        Ok(rejected) => {
            let overriding = overriding_lines(&journal);
            return Ok(Applied { journal, rejected, overriding });
        }
        Err(error) => error,
    };
    match restore(paths, &journal, &mut step) {
        Ok(_) => Err(error),
        Err(then) => Err(Error::RestoreFailed { first: Box::new(error), then: Box::new(then) }),
    }
}

fn apply_all(
    paths: &HostPaths,
    requested: &RequestedSettings,
    journal: &mut Journal,
    step: &mut impl FnMut(&str),
) -> Result<Vec<RejectedSetting>, Error> {
    if let Some((name, _)) = requested.settings.iter().find(|(name, _)| !setting::is_permitted(name)) {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied)).attempted(|| {
            format!("change {name}: only sysctls below net and device settings are permitted")
        });
    }
    journal.complete = false;
    let earlier = journal.settings.clone();
    let mut rejected = Vec::new();
    for (name, value) in &requested.settings {
        match journal.settings.iter_mut().find(|change| change.name == *name) {
            Some(change) => change.after.clone_from(value),
            None => match setting::read(paths, name) {
                Ok(before) => {
                    journal.settings.push(SettingChange { name: name.clone(), before, after: value.clone() });
                }
                Err(error) if !setting::is_sysctl(name) => {
                    rejected.push(RejectedSetting::new(name, value, &error));
                }
                Err(error) => return Err(error).attempted(|| format!("read {name}")),
            },
        }
    }
    let all = RequestedSettings {
        purpose: requested.purpose.clone(),
        goal: None,
        devices: false,
        settings: journal.settings.iter().map(|change| (change.name.clone(), change.after.clone())).collect(),
    };
    if let Some(path) = &paths.sysctl_file {
        journal.file = Some(match journal.file.take() {
            Some(file) => FileChange { after: all.file_text(), ..file },
            None => FileChange {
                path: path.clone(),
                before: read_existing(path)?,
                after: all.file_text(),
                made_directory: path.parent().is_some_and(|parent| !parent.exists()),
            },
        });
    }
    step("write the journal");
    journal.write(paths)?;
    if let Some(file) = &journal.file {
        step("create the file's directory");
        if let Some(parent) = file.path.parent() {
            fs::create_dir_all(parent).attempted(|| format!("create {}", parent.display()))?;
        }
        step("write the file");
        os::file::replace(&file.path, file.after.as_bytes(), FILE_MODE)
            .attempted(|| format!("write {}", file.path.display()))?;
    }
    for (name, value) in &requested.settings {
        if rejected.iter().any(|one| one.name == *name) {
            continue;
        }
        step(name);
        match set(paths, name, value) {
            Err(error) if !setting::is_sysctl(name) => {
                undo_rejected(paths, name, &earlier, journal)?;
                rejected.push(RejectedSetting::new(name, value, &error));
            }
            set => set?,
        }
    }
    step("complete the journal");
    journal.complete = true;
    journal.write(paths)?;
    step("end");
    Ok(rejected)
}

/// Restores a rejected setting, and its entry in the journal as it was in `earlier`.
fn undo_rejected(
    paths: &HostPaths,
    name: &str,
    earlier: &[SettingChange],
    journal: &mut Journal,
) -> Result<(), Error> {
    let Some(index) = journal.settings.iter().position(|change| change.name == name) else { return Ok(()) };
    let earlier_change = earlier.iter().find(|change| change.name == name);
    let before = earlier_change.map_or(&journal.settings[index].before, |change| &change.after).clone();
    if setting::read(paths, name).is_ok_and(|now| now != before) {
        setting::write(paths, name, &before).attempted(|| format!("restore {name} to \"{before}\""))?;
    }
    match earlier_change {
        Some(change) => journal.settings[index] = change.clone(),
        None => drop(journal.settings.remove(index)),
    }
    Ok(())
}

/// Writes a setting, and checks that the kernel accepted the value.
fn set(paths: &HostPaths, name: &str, value: &str) -> Result<(), Error> {
    let failed = |source| Error::SetFailed { name: name.into(), value: value.into(), source };
    setting::write(paths, name, value).map_err(failed)?;
    let actual = setting::read(paths, name).map_err(failed)?;
    if actual == sysctl::normalize_spaces(value) {
        return Ok(());
    }
    Err(Error::ValueNotAccepted { name: name.into(), value: value.into(), actual })
}

/// Reads the present value of a sysctl below `net` or of a device setting.
///
/// # Errors
/// If the name is not permitted, or the host does not have the setting.
pub fn read_setting(paths: &HostPaths, name: &str) -> io::Result<String> {
    if !setting::is_permitted(name) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    setting::read(paths, name)
}

/// Whether only root may read a setting, so that its value must not be disclosed to other users or hosts.
pub fn is_secret_setting(paths: &HostPaths, name: &str) -> bool {
    setting::is_permitted(name) && setting::is_secret(paths, name)
}

/// Reads a file's text and permissions; `None` if it does not exist.
fn read_existing(path: &Path) -> Result<Option<(String, u32)>, Error> {
    let read = || Ok((fs::read_to_string(path)?, fs::metadata(path)?.permissions().mode() & 0o7777));
    match read() {
        Ok(found) => Ok(Some(found)),
        Err(e) if io::Error::kind(&e) == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).attempted(|| format!("read {}", path.display())),
    }
}

/// Restores all settings; returns `None` if there is no journal. Settings that this host no longer has are
/// skipped.
///
/// # Errors
/// If the journal is invalid or of another network namespace, or a setting or file cannot be restored: the
/// first such error. All other settings are restored then; the file and the journal remain.
pub fn revert(paths: &HostPaths, mut step: impl FnMut(&str)) -> Result<Option<Reverted>, Error> {
    if !paths.state_dir.exists() {
        return Ok(None);
    }
    let _lock = journal::lock(paths)?;
    match Journal::read(paths)? {
        Some(journal) => restore(paths, &journal, &mut step).map(Some),
        None => {
            remove_journal(paths, &mut step)?;
            Ok(None)
        }
    }
}

fn restore(paths: &HostPaths, journal: &Journal, step: &mut impl FnMut(&str)) -> Result<Reverted, Error> {
    let mut reverted = Reverted::default();
    let mut first_error = None;
    for change in journal.settings.iter().rev() {
        // One setting that cannot be restored must not leave the others changed.
        if let Err(error) = restore_setting(paths, change, &mut reverted, step) {
            first_error.get_or_insert(error);
        }
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    if let Some(file) = &journal.file {
        reverted.file_lines = foreign_lines(file);
        step("restore the file");
        restore_file(file).attempted(|| format!("restore {}", file.path.display()))?;
        reverted.file = Some(file.path.clone());
    }
    remove_journal(paths, step)?;
    Ok(reverted)
}

fn restore_setting(
    paths: &HostPaths,
    change: &SettingChange,
    reverted: &mut Reverted,
    step: &mut impl FnMut(&str),
) -> Result<(), Error> {
    let now = match setting::read(paths, &change.name) {
        Err(e) if setting::is_gone(paths, &change.name, &e) => return Ok(()),
        other => other.attempted(|| format!("read {}", change.name))?,
    };
    if now == change.before {
        return Ok(());
    }
    step(&change.name);
    setting::write(paths, &change.name, &change.before)
        .attempted(|| format!("restore {} to \"{}\"", change.name, change.before))?;
    if now != sysctl::normalize_spaces(&change.after) {
        reverted.changed_since.push((change.name.clone(), now));
    }
    reverted.settings.push(change.clone());
    Ok(())
}

/// Lines of the file that longfat did not write.
fn foreign_lines(file: &FileChange) -> Vec<String> {
    let now = fs::read(&file.path).unwrap_or_default();
    let now = String::from_utf8_lossy(&now);
    let lines = now.lines().filter(|line| !line.trim().is_empty());
    lines.filter(|line| file.after.lines().all(|own| own != *line)).map(Into::into).collect()
}

fn restore_file(file: &FileChange) -> io::Result<()> {
    if file.path.parent().is_some_and(|parent| !parent.exists()) {
        return Ok(());
    }
    match &file.before {
        Some((text, mode)) => os::file::replace(&file.path, text.as_bytes(), *mode)?,
        None => os::file::remove(&file.path)?,
    }
    os::file::remove(&os::file::temporary_path(&file.path))?;
    os::file::sync_directory(&file.path)?;
    match file.path.parent() {
        // rmdir fails if it is not empty: others may have created files there.
        Some(parent) if file.made_directory => drop(fs::remove_dir(parent)),
        _ => {}
    }
    Ok(())
}

/// Removes the journal and its directory.
fn remove_journal(paths: &HostPaths, step: &mut impl FnMut(&str)) -> Result<(), Error> {
    let path = paths.journal_path();
    step("remove the journal");
    os::file::remove(&os::file::temporary_path(&path))
        .and_then(|()| os::file::remove(&path))
        .and_then(|()| os::file::sync_directory(&path))
        .attempted(|| format!("remove {}", path.display()))?;
    step("remove the journal's directory");
    // rmdir fails if it is not empty: it may contain another namespace's journal.
    let _ = fs::remove_dir(&paths.state_dir);
    step("end");
    Ok(())
}
