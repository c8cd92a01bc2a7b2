//! Chooses the directory of a guest's memory file: UML maps an unlinked file as the guest's physical memory.
//! The directory must have enough space and not be mounted noexec; a tmpfs is best.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{Error, sys};

/// The first suitable directory for `bytes` of memory. The file is sparse, so the guest may need less; but a
/// full /dev/shm (64 MB in most containers) kills the guest.
pub(crate) fn choose(bytes: u64) -> Result<PathBuf, Error> {
    choose_with(std::env::var_os("TMPDIR"), bytes)
}

/// `own`: the value of the variable TMPDIR.
fn choose_with(own: Option<OsString>, bytes: u64) -> Result<PathBuf, Error> {
    // The kernel has another working directory than this process.
    let own = own.and_then(|dir| std::path::absolute(dir).ok());
    let candidates = ["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from);
    let mut tried = Vec::new();
    for dir in own.into_iter().chain(candidates) {
        match why_unsuitable(&dir, bytes) {
            None => return Ok(dir),
            Some(why) => tried.push(format!("{} {why}", dir.display())),
        }
    }
    Err(Error::NoMemory { needed_mib: bytes >> 20, tried: tried.join(", ") })
}

fn why_unsuitable(dir: &Path, bytes: u64) -> Option<String> {
    let Ok(system) = sys::file_system(dir) else { return Some("does not exist".into()) };
    if system.noexec {
        return Some("is mounted noexec".into());
    }
    if system.free_bytes < bytes {
        return Some(format!("has {} MB free", system.free_bytes >> 20));
    }
    (!sys::is_writable(dir)).then(|| "is not writable".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_directory_is_passed_as_absolute() {
        let dir = choose_with(Some(".".into()), 1 << 20).unwrap();
        assert!(dir.is_absolute(), "{}", dir.display());
        assert!(choose_with(Some(OsString::new()), 1 << 20).is_ok());
    }

    #[test]
    fn a_directory_without_space_is_named() {
        assert!(choose(1 << 20).is_ok());
        let error = choose(1 << 62).unwrap_err().to_string();
        assert!(error.contains("/var/tmp has ") && error.contains("TMPDIR"), "{error}");
        assert_eq!(why_unsuitable(Path::new("/nonexistent"), 1).as_deref(), Some("does not exist"));
    }
}
