//! The outbox of one program: a directory of records, and the thread that uploads it.
//!
//! A lock marks the outbox of a running program. If a program was killed or could not reach the store at its
//! end, the next program that writes to the same place takes over its outbox: it uploads the records that are
//! missing in the store, removes there the data that the program had not completed (see `journal.rs`), and
//! removes the outbox. The lock protects the uploads and the unfinished records of a running program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::{Error, ID_SUFFIX_FILE};

use crate::client::Client;
use crate::directories::Directories;
use crate::upload::Uploader;

/// Pause between uploads. Writers write a part of a running measurement once a second or less often.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause after an upload that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The outbox of this program.
#[derive(Debug)]
pub(crate) struct Outbox {
    directory: PathBuf,
    end: Sender<()>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Outbox {
    /// Creates the outbox, and begins to upload the files that are written to it.
    pub(crate) fn start(client: &Arc<Client>, directories: &Directories) -> Result<Self, Error> {
        let tag = tag()?;
        let directory = directories.outboxes.join(&tag);
        let failed = |action| {
            let path = directory.clone();
            move |source| Error::Io { action, path, source }
        };
        fs::create_dir_all(&directories.outboxes).map_err(failed("create"))?;
        // Locked first: other programs take an outbox that is not locked for an abandoned one.
        let lock = open_lock(&directory).map_err(failed("create"))?;
        // On file systems without locks no outbox counts as abandoned.
        let _ = lock.try_lock();
        fs::create_dir(&directory).map_err(failed("create"))?;
        fs::write(directory.join(ID_SUFFIX_FILE), tag).map_err(failed("write"))?;
        let uploader = Uploader::new(&directory)?;
        let (end, requests) = channel();
        let worker = Worker {
            client: Arc::clone(client),
            directories: directories.clone(),
            directory: directory.clone(),
            _lock: lock,
        };
        let thread =
            thread::Builder::new().name("upload".into()).spawn(move || worker.run(uploader, &requests));
        Ok(Outbox { directory: directory.clone(), end, thread: thread.map_err(failed("upload"))? })
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Uploads the remainder and removes the outbox.
    pub(crate) fn finish(self) -> Result<(), Error> {
        // Fails only if the thread has ended.
        let _ = self.end.send(());
        let uploaded = self.thread.join().unwrap_or_else(|_| {
            Err(Error::Io {
                action: "upload",
                path: self.directory.clone(),
                source: std::io::Error::other("the thread panicked"),
            })
        });
        uploaded.map_err(|error| remaining(error, &self.directory))
    }
}

/// Adds the directory of the records that could not be uploaded to the error.
fn remaining(error: Error, outbox: &Path) -> Error {
    match error {
        Error::Store { action, url, reason } => Error::Store {
            action,
            url,
            reason: format!(
                "{reason}. The records remain in {}; the next command that writes records there uploads them",
                outbox.display()
            ),
        },
        other => other,
    }
}

/// The file whose lock marks the outbox of a running program. It is beside the outbox, and exists before and
/// after it.
fn lock_path(outbox: &Path) -> PathBuf {
    let tag = outbox.file_name().unwrap_or_default().to_string_lossy();
    outbox.with_file_name(format!(".{tag}.lock"))
}

/// Opens this file, or creates it. NFS locks only files that are open for writing.
pub(crate) fn open_lock(outbox: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(lock_path(outbox))
}

/// A random name of 24 bits. It becomes the end of the records' ids, which also contain the second.
fn tag() -> Result<String, Error> {
    os::random_hex(3).map_err(|source| Error::Io { action: "read", path: "/dev/urandom".into(), source })
}

#[derive(Debug)]
struct Worker {
    client: Arc<Client>,
    directories: Directories,
    directory: PathBuf,
    _lock: File,
}

impl Worker {
    fn run(self, mut uploader: Uploader, requests: &Receiver<()>) -> Result<(), Error> {
        if let Err(error) = self.take_over_abandoned() {
            tracing::warn!("cannot upload the records of an earlier program: {error}");
        }
        let mut pause = PAUSE;
        while let Err(RecvTimeoutError::Timeout) = requests.recv_timeout(pause) {
            pause = match self.client.wait(uploader.upload(&self.client)) {
                Ok(()) => PAUSE,
                Err(error) => {
                    tracing::warn!("{error}; trying again");
                    RETRY_PAUSE
                }
            };
        }
        self.end(uploader, &self.directory)
    }

    /// Uploads the remainder of an outbox, and removes it.
    fn end(&self, mut uploader: Uploader, outbox: &Path) -> Result<(), Error> {
        let tag = outbox.file_name().unwrap_or_default().to_string_lossy();
        self.client.wait(async {
            uploader.upload(&self.client).await?;
            uploader.write_index(&self.client, &tag).await
        })?;
        // From now on no record of the outbox may be removed from the store, even if it is no longer here.
        uploader.remove_journal()?;
        uploader.move_to(&self.directories.cache);
        let failed = |source| Error::Io { action: "remove", path: outbox.to_owned(), source };
        fs::remove_dir_all(outbox).map_err(failed)?;
        // An empty file without its outbox does no harm.
        let _ = fs::remove_file(lock_path(outbox));
        Ok(())
    }

    /// Takes over the outboxes of programs that have ended.
    fn take_over_abandoned(&self) -> Result<(), Error> {
        for entry in fs::read_dir(&self.directories.outboxes).into_iter().flatten().flatten() {
            let directory = entry.path();
            // Locks are hidden files.
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_hidden || directory == self.directory {
                continue;
            }
            let Ok(lock) = open_lock(&directory) else { continue };
            if lock.try_lock().is_err() {
                continue;
            }
            match directory.exists() {
                true => self.end(Uploader::take_over(&directory)?, &directory)?,
                // Its owner, or another program that took it over, has just removed it.
                false => drop(fs::remove_file(lock_path(&directory))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_different_and_valid_in_ids() {
        let tags: std::collections::BTreeSet<String> = (0..32).map(|_| tag().unwrap()).collect();
        assert!(tags.len() > 30, "{tags:?}");
        assert!(tags.iter().all(|tag| tag.len() == 6 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
}
