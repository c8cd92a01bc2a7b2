//! The journal: which settings were changed, and their previous values. It is written and synchronized before
//! any change, and removed when all settings are restored.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{
    advice::Goal,
    error::{Attempted, Error},
    host_paths::{HostPaths, boot_id, namespace_id},
    setting,
};

const SCHEMA: &str = "longfat.tune-journal/1";

/// The journal of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    schema: String,
    /// The network namespace, and the boot ID, for which the values were read.
    namespace: u64,
    boot: String,
    /// Whether all settings were applied; false while they are being applied, and permanently if that was
    /// interrupted.
    pub complete: bool,
    /// The purpose, in words.
    pub purpose: String,
    /// The path for which the host was tuned. `check` uses it to check settings that were good enough and so
    /// are not among the changes.
    #[serde(default)]
    pub goal: Option<Goal>,
    /// Whether settings of the path's device were requested too.
    #[serde(default)]
    pub devices: bool,
    /// The sysctl file that was written.
    pub file: Option<FileChange>,
    /// The changed settings, in the order in which they were applied.
    pub settings: Vec<SettingChange>,
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Name of the sysctl, or of the device setting, as in `eth0 tso`.
    pub name: String,
    /// The previous value.
    pub before: String,
    /// The new value.
    pub after: String,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path of the file.
    pub path: PathBuf,
    /// Previous text and permission bits; `None` if there was no file.
    pub before: Option<(String, u32)>,
    /// The new text.
    pub after: String,
    /// Whether the directory was created too.
    pub made_directory: bool,
}

impl Journal {
    /// A journal without changes.
    pub(crate) fn new(purpose: &str) -> Result<Journal, Error> {
        Ok(Journal {
            schema: SCHEMA.into(),
            namespace: namespace_id()?,
            boot: boot_id(),
            complete: false,
            purpose: purpose.into(),
            goal: None,
            devices: false,
            file: None,
            settings: Vec::new(),
        })
    }

    /// Reads this host's journal; `None` if there is none.
    ///
    /// # Errors
    /// If the journal cannot be read, is malformed, or belongs to another network namespace.
    pub fn read(paths: &HostPaths) -> Result<Option<Journal>, Error> {
        let path = paths.journal_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).attempted(|| format!("read {}", path.display())),
        };
        let invalid = |why: String| Error::Journal { path: path.clone(), why };
        let journal: Journal = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
        if journal.schema != SCHEMA {
            return Err(invalid(format!("its schema is {}", journal.schema)));
        }
        if journal.boot == boot_id() && journal.namespace != namespace_id()? {
            let file = journal.file.and(paths.sysctl_file.clone());
            return Err(Error::OtherNamespace { journal: path, file });
        }
        // Root writes these values back, so only permitted names are accepted.
        if let Some(unknown) = journal.settings.iter().find(|change| !setting::is_permitted(&change.name)) {
            return Err(invalid(format!("{:?} is not a setting that longfat changes", unknown.name)));
        }
        if journal.file.as_ref().is_some_and(|file| Some(&file.path) != paths.sysctl_file.as_ref()) {
            return Err(invalid("it names a file that longfat does not write".into()));
        }
        Ok(Some(journal))
    }

    /// Writes the journal atomically and durably: after a crash of the program or the machine the file has
    /// either the new or the old contents.
    pub(crate) fn write(&self, paths: &HostPaths) -> Result<(), Error> {
        let path = paths.journal_path();
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from);
        text.and_then(|text| os::file::replace(&path, text.as_bytes(), 0o600))
            .attempted(|| format!("write {}", path.display()))
    }
}

/// Locks the journal's directory, and creates it if it is missing. Dropping the file releases the lock.
pub(crate) fn lock(paths: &HostPaths) -> Result<File, Error> {
    let directory = &paths.state_dir;
    loop {
        match DirBuilder::new().mode(0o700).recursive(true).create(directory) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
        .attempted(|| format!("create {}", directory.display()))?;
        let file = match File::open(directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other.attempted(|| format!("open {}", directory.display()))?,
        };
        file.lock().attempted(|| format!("lock {}", directory.display()))?;
        // The previous holder of the lock may have removed the empty directory. The lock is then on an inode
        // without a name.
        let locked = file.metadata().attempted(|| format!("read {}", directory.display()))?;
        let is_current = fs::metadata(directory)
            .is_ok_and(|found| (found.dev(), found.ino()) == (locked.dev(), locked.ino()));
        if is_current {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn paths(directory: &Path) -> HostPaths {
        HostPaths {
            proc_sys: directory.join("proc"),
            sysctl_file: None,
            state_dir: directory.to_path_buf(),
            journal_name: "j.json".into(),
        }
    }

    #[test]
    fn a_journal_round_trips_and_invalid_text_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let paths = paths(directory.path());
        assert_eq!(Journal::read(&paths).unwrap(), None);
        let mut journal = Journal::new("10 Gb/s").unwrap();
        let change =
            SettingChange { name: "net.ipv4.tcp_rmem".into(), before: "1 2 3".into(), after: "1 2 4".into() };
        journal.settings.push(change);
        journal.write(&paths).unwrap();
        assert_eq!(Journal::read(&paths).unwrap(), Some(journal.clone()));
        for bad in ["", "{", "[]", &serde_json::to_string(&journal).unwrap().replace("net.ipv4", "kernel.")] {
            fs::write(paths.journal_path(), bad).unwrap();
            assert!(matches!(Journal::read(&paths), Err(Error::Journal { .. })), "{bad}");
        }
        let other_namespace = Journal { namespace: journal.namespace + 1, ..journal };
        other_namespace.write(&paths).unwrap();
        let error = Journal::read(&paths).unwrap_err();
        let path = paths.journal_path();
        assert!(
            matches!(&error, Error::OtherNamespace { journal, file: None } if *journal == path),
            "{error}"
        );
        assert!(error.to_string().ends_with(&format!("remove {}", path.display())), "{error}");
        let earlier_boot = Journal { boot: "another".into(), ..other_namespace };
        earlier_boot.write(&paths).unwrap();
        assert_eq!(Journal::read(&paths).unwrap(), Some(earlier_boot));
    }

    /// A process that restores everything removes the empty directory while another one waits for its lock.
    #[test]
    fn a_lock_applies_to_the_directory_that_exists_now() {
        let directory = tempfile::tempdir().unwrap();
        let paths = paths(&directory.path().join("state"));
        let journal = Journal::new("10 Gb/s").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _lock = lock(&paths).unwrap();
                        journal.write(&paths).unwrap();
                        fs::remove_file(paths.journal_path()).unwrap();
                        fs::remove_dir(&paths.state_dir).unwrap();
                    }
                });
            }
        });
    }
}
