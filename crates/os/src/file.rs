//! Files that other processes read while they are replaced.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Ends the names of temporary files.
pub const TEMPORARY_SUFFIX: &str = ".longfat-new";

/// The temporary file, in the same directory, in which `path` is written before the rename.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(TEMPORARY_SUFFIX);
    path.with_file_name(name)
}

/// Replaces a file atomically: other processes, and the machine after a power failure, see either the old or
/// the new contents.
///
/// # Errors
/// If the directory cannot be written to, or the disk is full.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_path(path);
    // Restricted from the start: no other user can open a secret before the mode is set.
    let mut file = File::options().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
    // Sets the mode regardless of the umask, and also for a file that a killed process left.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(path)
}

/// Makes a change of the file's name durable (fsync(2) of its directory).
///
/// # Errors
/// If the directory cannot be opened or synchronized.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a file, if it exists.
///
/// # Errors
/// If it exists and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_its_mode_and_no_temporary_file_remains() {
        let directory = std::env::temp_dir().join(format!("longfat-os-file-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("file");
        for text in ["first", "second"] {
            replace(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        sync_directory(Path::new("name-alone")).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        fs::remove_dir(&directory).unwrap();
    }
}
