//! What was changed, and what it was before: written and synchronized before anything is touched, removed when all is back.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    advice::Goal,
    error::{Attempted, Error},
    roots::{Roots, boot, namespace},
    setting,
};

const SCHEMA: &str = "longfat.tune-journal/1";

/// The journal of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    schema: String,
    /// The network namespace, and the machine's start, for which `settings` were read.
    namespace: u64,
    boot: String,
    /// Everything was set; false while settings are being made, and for ever if that was cut short.
    pub complete: bool,
    /// What it was for, in words.
    pub purpose: String,
    /// The path that it was for: what suited that path already is in no list of changes, and is checked all the same.
    #[serde(default)]
    pub goal: Option<Goal>,
    /// Settings of the path's device were wanted too.
    #[serde(default)]
    pub devices: bool,
    /// The file that was written.
    pub file: Option<FileChange>,
    /// In the order in which they were set.
    pub settings: Vec<SettingChange>,
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Its name; `eth0 tso` is a device's.
    pub name: String,
    /// What it was.
    pub before: String,
    /// What it was set to.
    pub after: String,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where.
    pub path: PathBuf,
    /// What was there: text and permission bits.
    pub before: Option<(String, u32)>,
    /// What was written.
    pub after: String,
    /// The directory was not there.
    pub made_directory: bool,
}

impl Journal {
    /// Of nothing yet.
    pub(crate) fn new(purpose: &str) -> Result<Journal, Error> {
        Ok(Journal {
            schema: SCHEMA.into(),
            namespace: namespace()?,
            boot: boot(),
            complete: false,
            purpose: purpose.into(),
            goal: None,
            devices: false,
            file: None,
            settings: Vec::new(),
        })
    }

    /// This host's, if there is one.
    pub fn read(roots: &Roots) -> Result<Option<Journal>, Error> {
        let path = roots.journal_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).attempted(|| format!("read {}", path.display())),
        };
        let bad = |why: String| Error::Journal { path: path.clone(), why };
        let journal: Journal = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if journal.schema != SCHEMA {
            return Err(bad(format!("it is of the form {}", journal.schema)));
        }
        if journal.boot == boot() && journal.namespace != namespace()? {
            return Err(Error::Elsewhere(path));
        }
        // It is read to be written back by root: it may name settings only.
        if let Some(odd) = journal.settings.iter().find(|change| !setting::is_known(&change.name)) {
            return Err(bad(format!("{:?} is no setting", odd.name)));
        }
        if journal.file.as_ref().is_some_and(|file| Some(&file.path) != roots.file.as_ref()) {
            return Err(bad("it names a file that is not ours".into()));
        }
        Ok(Some(journal))
    }

    /// Writes it, so that it is there after a crash of program or machine: whole, or as it was.
    pub(crate) fn write(&self, roots: &Roots) -> Result<(), Error> {
        let path = roots.journal_path();
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from);
        text.and_then(|text| write_whole(&path, text.as_bytes(), 0o600))
            .attempted(|| format!("write {}", path.display()))
    }
}

/// A lock of the journal's directory, which is made if need be; it ends when dropped.
pub(crate) fn lock(roots: &Roots) -> Result<File, Error> {
    let directory = &roots.state;
    match DirBuilder::new().mode(0o700).recursive(true).create(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
    .attempted(|| format!("make {}", directory.display()))?;
    let file = File::open(directory).attempted(|| format!("open {}", directory.display()))?;
    file.lock().attempted(|| format!("lock {}", directory.display()))?;
    Ok(file)
}

/// The file beside `path` in which it is made.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".longfat-new");
    path.with_file_name(name)
}

/// Replaces a file at once: others see all of it or what was there before, and so does a machine that lost its power.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = beside(path);
    let mut file = File::create(&beside)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_directory(path)
}

/// Makes what happened to a file's name last.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a file, which may be gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(directory: &Path) -> Roots {
        Roots {
            proc_sys: directory.join("proc"),
            file: None,
            state: directory.to_path_buf(),
            journal: "j.json".into(),
        }
    }

    #[test]
    fn a_journal_comes_back_and_garbage_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let roots = roots(directory.path());
        assert_eq!(Journal::read(&roots).unwrap(), None);
        let mut journal = Journal::new("10 Gb/s").unwrap();
        let change =
            SettingChange { name: "net.ipv4.tcp_rmem".into(), before: "1 2 3".into(), after: "1 2 4".into() };
        journal.settings.push(change);
        journal.write(&roots).unwrap();
        assert_eq!(Journal::read(&roots).unwrap(), Some(journal.clone()));
        for bad in ["", "{", "[]", &serde_json::to_string(&journal).unwrap().replace("net.ipv4", "kernel.")] {
            fs::write(roots.journal_path(), bad).unwrap();
            assert!(matches!(Journal::read(&roots), Err(Error::Journal { .. })), "{bad}");
        }
        let elsewhere = Journal { namespace: journal.namespace + 1, ..journal };
        elsewhere.write(&roots).unwrap();
        assert!(matches!(Journal::read(&roots), Err(Error::Elsewhere(_))));
        let before_a_restart = Journal { boot: "another".into(), ..elsewhere };
        before_a_restart.write(&roots).unwrap();
        assert_eq!(Journal::read(&roots).unwrap(), Some(before_a_restart));
    }
}
