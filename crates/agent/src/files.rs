//! Files of the state directory: written completely or not at all, readable by their owner only.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use crate::Error;

/// Adds the operation and the file to an error.
pub(crate) fn failed<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |cause| Error::File { operation, path: path.into(), cause }
}

/// Creates a directory and its missing parents.
pub(crate) fn create_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create", path))
}

/// Replaces a file; if the process is killed, either the old or the new file is complete.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Result<(), Error> {
    os::file::replace(path, text, 0o600).map_err(failed("write", path))
}

/// Creates a file; fails if it exists.
pub(crate) fn create(path: &Path, text: &[u8]) -> Result<(), Error> {
    if path.exists() {
        return Err(failed("create", path)(io::ErrorKind::AlreadyExists.into()));
    }
    replace(path, text)
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(failed("read", path))
}
