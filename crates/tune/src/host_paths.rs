//! Paths of a host's settings, of the sysctl file and of the journal.

use std::{fs, io, os::unix::fs::MetadataExt, path::PathBuf};

use crate::{
    error::{Attempted, Error},
    inspect::is_lab_host,
    sys,
};

/// Paths of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPaths {
    /// /proc/sys.
    pub proc_sys: PathBuf,
    /// The file of sysctl.d that keeps settings across reboots; `None` if only live values are changed.
    pub sysctl_file: Option<PathBuf>,
    /// The journal's dedicated directory.
    pub state_dir: PathBuf,
    /// File name of the journal.
    pub journal_name: String,
}

impl HostPaths {
    /// Paths for settings that are changed for the duration of a run, apart from those of `longfat tune`:
    /// without a sysctl file, and with a journal in /run that is named after the namespace.
    ///
    /// # Errors
    /// If the network namespace cannot be identified.
    pub fn for_run() -> Result<HostPaths, Error> {
        Ok(HostPaths {
            proc_sys: "/proc/sys".into(),
            sysctl_file: None,
            state_dir: "/run/longfat-run".into(),
            journal_name: format!("settings-{}.json", namespace_id()?),
        })
    }

    /// The paths with which settings were applied.
    ///
    /// # Errors
    /// If the network namespace cannot be identified.
    pub fn of_applied() -> Result<HostPaths, Error> {
        Ok(HostPaths::applied(HostPaths::of_this_host(true)?, HostPaths::of_this_host(false)?))
    }

    /// The paths of the two modes with which settings were applied.
    fn applied(live: HostPaths, with_file: HostPaths) -> HostPaths {
        match live.journal_path().try_exists() {
            Ok(false) => with_file,
            // Without the right to see the journal it must not count as absent: reading it reports the
            // missing right.
            Ok(true) | Err(_) => live,
        }
    }

    /// Paths on this machine. Without a sysctl file (`live`, and always on a host of a lab) the journal is in
    /// /run and named after the namespace, because such changes last only as long as the namespace, or until
    /// a reboot.
    pub(crate) fn of_this_host(live: bool) -> Result<HostPaths, Error> {
        let proc_sys = PathBuf::from("/proc/sys");
        if live || is_lab_host() {
            let journal_name = format!("tune-{}.json", namespace_id()?);
            let state_dir = "/run/longfat-tune".into();
            return Ok(HostPaths { proc_sys, sysctl_file: None, state_dir, journal_name });
        }
        Ok(HostPaths {
            proc_sys,
            sysctl_file: Some("/etc/sysctl.d/90-longfat.conf".into()),
            state_dir: "/var/lib/longfat-tune".into(),
            journal_name: "tune.json".into(),
        })
    }

    /// Path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.state_dir.join(&self.journal_name)
    }
}

/// Identifies this thread's network namespace.
pub(crate) fn namespace_id() -> Result<u64, Error> {
    // Before Linux 5.14 there is no cookie, and the inode may be reused by a later namespace.
    let inode = || -> io::Result<u64> { Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()) };
    sys::namespace_cookie().or_else(|_| inode()).attempted(|| "identify this network namespace".into())
}

/// The kernel's boot ID, which changes when the machine restarts.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    pub fn paths(directory: &Path, sysctl_file: Option<&str>, journal_name: &str) -> HostPaths {
        HostPaths {
            proc_sys: directory.join("proc"),
            sysctl_file: sysctl_file.map(|name| directory.join(name)),
            state_dir: directory.join("state"),
            journal_name: journal_name.into(),
        }
    }

    #[test]
    fn a_journal_that_cannot_be_seen_does_not_count_as_absent() {
        let directory = tempfile::tempdir().unwrap();
        let with_file = paths(directory.path(), Some("90-longfat.conf"), "tune.json");
        let live = paths(directory.path(), None, "tune-1.json");
        let applied = || HostPaths::applied(live.clone(), with_file.clone());
        assert_eq!(applied(), with_file);
        // The error is another one than for an ordinary user, because root may see everything.
        fs::write(&live.state_dir, "not a directory").unwrap();
        assert_eq!(applied(), live);
        fs::remove_file(&live.state_dir).unwrap();
        fs::create_dir(&live.state_dir).unwrap();
        fs::write(live.journal_path(), "{}").unwrap();
        assert_eq!(applied(), live);
    }
}
