//! Names of files as they cross the network: relative, and never outside of the receiver's directory.

use std::path::{Component, Path, PathBuf};

use os::file::TEMPORARY_SUFFIX;

use crate::Error;

/// The longest name, bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Ends the name of the file with the progress of a temporary file.
pub(crate) const PROGRESS_SUFFIX: &str = ".progress";

/// Whether a receiver uses names like this one for files that are not yet complete.
pub(crate) fn is_temporary(name: &str) -> bool {
    let name = name.strip_suffix(PROGRESS_SUFFIX).unwrap_or(name);
    name.starts_with('.') && name.ends_with(TEMPORARY_SUFFIX)
}

/// Joins a name of the peer to a directory. An empty name is the directory itself.
///
/// # Errors
/// If the name is absolute, leaves the directory, has characters that no file name has, or is one of a
/// receiver's temporary files.
pub(crate) fn join(directory: &Path, name: &str) -> Result<PathBuf, Error> {
    let invalid = || Error::Name(name.chars().take(200).collect());
    if name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(invalid());
    }
    let mut path = directory.to_path_buf();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) if part.to_str().is_some_and(is_temporary) => {
                return Err(Error::TemporaryName(name.chars().take(200).collect()));
            }
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(invalid()),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_the_directory() {
        let join = |name: &str| join(Path::new("/data"), name).ok();
        assert_eq!(join("a/b").unwrap(), Path::new("/data/a/b"));
        assert_eq!(join("").unwrap(), Path::new("/data"));
        assert_eq!(join("./a//b/").unwrap(), Path::new("/data/a/b"));
        for bad in ["/etc/passwd", "../x", "a/../../x", "..", "a\0b"] {
            assert_eq!(join(bad), None, "{bad:?}");
        }
        assert_eq!(join(&"a/".repeat(3000)), None);
        for temporary in [".a.longfat-new", "b/.a.longfat-new.progress", ".a.longfat-new/b"] {
            assert_eq!(join(temporary), None, "{temporary:?}");
        }
        assert!(join("a.longfat-new").is_some() && join(".a.progress").is_some());
    }
}
