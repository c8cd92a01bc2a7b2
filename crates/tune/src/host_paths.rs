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
    /// Dedicated directory of the journal.
    pub state_dir: PathBuf,
    /// File name of the journal.
    pub journal_name: String,
}

impl HostPaths {
    /// Paths for applying settings, without a sysctl file if `live`.
    ///
    /// # Errors
    /// If settings were applied in the other mode, with or without a file, and not yet reverted.
    pub fn for_apply(live: bool) -> Result<HostPaths, Error> {
        let paths = HostPaths::of_this_host(live)?;
        let with_file = paths.sysctl_file.is_none();
        let other = HostPaths::of_this_host(!live)?;
        match other != paths && other.journal_path().exists() {
            true => Err(Error::FileModeMismatch { with_file }),
            false => Ok(paths),
        }
    }

    /// Paths for settings that are changed for the duration of a run, apart from those of `longfat tune`: without a
    /// sysctl file, and with a journal in /run that is named after the namespace.
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
        let (with_file, live) = (HostPaths::of_this_host(false)?, HostPaths::of_this_host(true)?);
        Ok(if live.journal_path().exists() { live } else { with_file })
    }

    /// Paths on this machine. Without a sysctl file (`live`, and always on a host of a lab) the journal is in
    /// /run and named after the namespace, because such changes last only as long as the namespace, or until
    /// a reboot.
    fn of_this_host(live: bool) -> Result<HostPaths, Error> {
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
