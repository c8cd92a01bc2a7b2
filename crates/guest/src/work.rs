//! Work directories of kernel builds, inside the cache. Each has a file that the building process locks
//! (flock(2)); the kernel releases the lock when the process ends, and the next command then removes the
//! directory.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Error, Result, error::Attempted};

/// Prefix of names of work directories; names of kernels never begin with a dot.
const PREFIX: &str = ".work-";
/// The file that is locked while the directory is in use.
const LOCK: &str = "lock";
/// Locked while work directories are created or removed.
const CACHE_LOCK: &str = ".lock";

/// A directory that is removed when this value is dropped, or by the next command if this process is killed.
#[derive(Debug)]
pub(crate) struct WorkDirectory {
    path: PathBuf,
    _lock: File,
}

impl WorkDirectory {
    /// Creates a work directory in the cache.
    pub(crate) fn create(cache: &Path) -> Result<Self> {
        fs::create_dir_all(cache).attempted(|| format!("create {}", cache.display()))?;
        let _cache_lock = lock_cache(cache)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = cache.join(format!("{PREFIX}{}-{:x}", std::process::id(), now.as_nanos()));
        fs::create_dir(&path).attempted(|| format!("create {}", path.display()))?;
        let lock = File::create(path.join(LOCK))
            .and_then(|lock| lock.lock().map(|()| lock))
            .attempted(|| format!("lock {}", path.join(LOCK).display()))?;
        let work = WorkDirectory { path, _lock: lock };
        work.create_directory("tmp")?;
        Ok(work)
    }

    /// The path of `name` in the work directory.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a directory in the work directory.
    pub(crate) fn create_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.join(name);
        fs::create_dir_all(&path).attempted(|| format!("create {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // If this fails, the next command removes the directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the work directories of killed processes, and returns their number.
pub(crate) fn remove_leftovers(cache: &Path) -> Result<usize> {
    let entries = match fs::read_dir(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read.attempted(|| format!("list {}", cache.display()))?,
    };
    let is_work = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) && path.is_dir()
    };
    let directories: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_work).collect();
    if directories.is_empty() {
        return Ok(0);
    }
    let _cache_lock = match lock_cache(cache) {
        // The cache belongs to another user, who can clean it.
        Err(Error::Os { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            return Ok(0);
        }
        locked => locked?,
    };
    let mut removed = 0;
    for directory in directories.iter().filter(|directory| !is_in_use(directory)) {
        match fs::remove_dir_all(directory) {
            Ok(()) => removed += 1,
            // The process that used it has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            failed => failed.attempted(|| format!("remove {}", directory.display()))?,
        }
    }
    Ok(removed)
}

fn is_in_use(directory: &Path) -> bool {
    match File::open(directory.join(LOCK)) {
        Ok(lock) => matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => false,
    }
}

/// Locks the cache. Without this a directory could be removed between its creation and its locking.
fn lock_cache(cache: &Path) -> Result<File> {
    let path = cache.join(CACHE_LOCK);
    File::create(&path)
        .and_then(|lock| lock.lock().map(|()| lock))
        .map_err(|source| Error::Os { what: format!("lock {}", path.display()), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_work_directories_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(remove_leftovers(&cache.path().join("none")).unwrap(), 0);
        let live = WorkDirectory::create(cache.path()).unwrap();
        for dead in [".work-1-a", ".work-2-b"] {
            fs::create_dir_all(cache.path().join(dead).join("tree/arch")).unwrap();
        }
        File::create(cache.path().join(".work-2-b").join(LOCK)).unwrap();
        fs::create_dir(cache.path().join("6.1.192")).unwrap();
        assert_eq!(remove_leftovers(cache.path()).unwrap(), 2);
        assert!(live.path.is_dir() && cache.path().join("6.1.192").is_dir());
        let path = live.path.clone();
        drop(live);
        assert!(!path.exists());
        assert_eq!(remove_leftovers(cache.path()).unwrap(), 0);
    }
}
