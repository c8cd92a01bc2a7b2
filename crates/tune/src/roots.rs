//! Where settings, files and the journal are.

use std::{fs, io, os::unix::fs::MetadataExt, path::PathBuf};

use crate::{
    error::{Attempted, Error},
    inspect::is_lab_host,
    sys,
};

/// Directories of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// /proc/sys.
    pub proc_sys: PathBuf,
    /// The file that makes settings survive a restart; `None`: only live values are changed.
    pub file: Option<PathBuf>,
    /// The journal's directory, of its own.
    pub state: PathBuf,
    /// The journal's name in it.
    pub journal: String,
}

impl Roots {
    /// Those to apply settings with.
    ///
    /// # Errors
    /// Where settings were applied the other way, with or without a file, and are still there.
    pub fn to_apply(live: bool) -> Result<Roots, Error> {
        let roots = Roots::of_this_host(live)?;
        let with_file = roots.file.is_none();
        let other = Roots::of_this_host(!live)?;
        match other != roots && other.journal_path().exists() {
            true => Err(Error::SetOtherwise { with_file }),
            false => Ok(roots),
        }
    }

    /// Those with which settings were applied.
    pub fn applied() -> Result<Roots, Error> {
        let (with_file, live) = (Roots::of_this_host(false)?, Roots::of_this_host(true)?);
        Ok(if live.journal_path().exists() { live } else { with_file })
    }

    /// Those of this machine. What is changed without a file (`live`, and always on a host of a lab) is journalled in /run,
    /// under the namespace's number, because it ends with the namespace or the machine.
    fn of_this_host(live: bool) -> Result<Roots, Error> {
        let proc_sys = PathBuf::from("/proc/sys");
        if live || is_lab_host() {
            let journal = format!("tune-{}.json", namespace()?);
            return Ok(Roots { proc_sys, file: None, state: "/run/longfat-tune".into(), journal });
        }
        Ok(Roots {
            proc_sys,
            file: Some("/etc/sysctl.d/90-longfat.conf".into()),
            state: "/var/lib/longfat-tune".into(),
            journal: "tune.json".into(),
        })
    }

    /// The journal's file.
    pub fn journal_path(&self) -> PathBuf {
        self.state.join(&self.journal)
    }
}

/// A number of this thread's network namespace.
pub(crate) fn namespace() -> Result<u64, Error> {
    // Before Linux 5.14 the inode has to do, which a later namespace may have again.
    let inode = || -> io::Result<u64> { Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()) };
    sys::namespace_cookie().or_else(|_| inode()).attempted(|| "find this network namespace".into())
}

/// A text that changes when the machine restarts.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}
