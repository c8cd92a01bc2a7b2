//! Threads that read a file in order and hash it.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
};

use crate::{
    Error,
    error::failed,
    evidence::{Meter, Task},
};

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// Number of pieces that are read ahead.
const PIECES_AHEAD: usize = 16;

/// The hash of a file's first `bytes` bytes, unless it is cancelled.
pub(crate) fn hash_prefix(
    file: &File,
    path: &Path,
    bytes: u64,
    is_cancelled: &AtomicBool,
) -> Result<blake3::Hasher, Error> {
    let mut hasher = blake3::Hasher::new();
    hash_range(file, path, &mut hasher, (0, bytes), is_cancelled)?;
    Ok(hasher)
}

/// Adds a file's bytes from `at` to `end` to a hash, unless it is cancelled.
pub(crate) fn hash_range(
    file: &File,
    path: &Path,
    hasher: &mut blake3::Hasher,
    (mut at, end): (u64, u64),
    is_cancelled: &AtomicBool,
) -> Result<(), Error> {
    if at >= end {
        return Ok(());
    }
    let mut buffer = vec![0; PIECE_BYTES];
    while at < end {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let count = read(file, path, &mut buffer, at, end)?;
        hasher.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(())
}

/// Reads at an offset, up to `end`.
fn read(file: &File, path: &Path, buffer: &mut [u8], at: u64, end: u64) -> Result<usize, Error> {
    let length = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
    loop {
        match file.read_at(&mut buffer[..length], at) {
            Ok(0) => return Err(Error::Shrunk(path.display().to_string())),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(format!("cannot read {}", path.display()))(error)),
        }
    }
}

/// A file that a thread reads.
pub(crate) struct FileReader {
    pieces: Option<Receiver<Result<Vec<u8>, Error>>>,
    thread: Option<JoinHandle<blake3::Hasher>>,
    meter: Arc<Meter>,
}

impl FileReader {
    /// Reads from byte `from` to `bytes`; `hasher` has the bytes before.
    pub(crate) fn start(
        file: File,
        path: PathBuf,
        hasher: blake3::Hasher,
        from: u64,
        bytes: u64,
        meter: &Arc<Meter>,
    ) -> Result<Self, Error> {
        let (sender, receiver) = sync_channel(PIECES_AHEAD);
        let thread = thread::Builder::new().name("file reader".into());
        let reading = Arc::clone(meter);
        let thread = thread
            .spawn(move || {
                let _working = reading.begin(Task::File);
                read_all(&file, &path, hasher, from, bytes, &sender)
            })
            .map_err(failed("cannot start a thread"))?;
        Ok(FileReader { pieces: Some(receiver), thread: Some(thread), meter: Arc::clone(meter) })
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let receive = || self.pieces.as_ref().and_then(|pieces| pieces.recv().ok());
        match self.meter.wait_for_file(receive) {
            Some(piece) => piece.map(Some),
            None => Ok(None),
        }
    }

    /// The hash of the whole file; all pieces were read.
    pub(crate) fn finish(mut self) -> Result<String, Error> {
        let thread = self.thread.take();
        let hasher = self.meter.wait_for_file(|| thread.and_then(|thread| thread.join().ok()));
        let hasher =
            hasher.ok_or_else(|| Error::Input("the thread that reads the file has failed".into()))?;
        Ok(hasher.finalize().to_hex().to_string())
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        // The thread ends when the channel has no receiver.
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // Its error was received as a piece.
            let _ = thread.join();
        }
    }
}

/// The hash of a file, computed on a thread as far as the file was sent. Hashing everything at once would take the processor from
/// the sender.
pub(crate) struct SentHash {
    sent: Option<Sender<u64>>,
    thread: Option<JoinHandle<Result<blake3::Hasher, Error>>>,
    is_cancelled: Arc<AtomicBool>,
    /// The thread hashes up to this byte.
    until: u64,
    meter: Arc<Meter>,
}

impl SentHash {
    /// Hashes from byte `from`; `hasher` has the bytes before.
    pub(crate) fn start(
        file: File,
        path: PathBuf,
        mut hasher: blake3::Hasher,
        from: u64,
        meter: &Arc<Meter>,
    ) -> Result<Self, Error> {
        let (sent, positions) = channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (hashing, cancelled) = (Arc::clone(meter), Arc::clone(&is_cancelled));
        let hash = move || {
            let _working = hashing.begin(Task::Hash);
            let mut at = from;
            for until in positions {
                hash_range(&file, &path, &mut hasher, (at, until), &cancelled)?;
                at = until;
            }
            Ok(hasher)
        };
        let thread = thread::Builder::new().name("file hash".into());
        let thread = thread.spawn(hash).map_err(failed("cannot start a thread"))?;
        Ok(SentHash {
            sent: Some(sent),
            thread: Some(thread),
            is_cancelled,
            until: from,
            meter: Arc::clone(meter),
        })
    }

    /// The file was sent up to byte `at`.
    pub(crate) fn sent(&mut self, at: u64) {
        if at >= self.until + PIECE_BYTES as u64 {
            self.hash_until(at);
        }
    }

    fn hash_until(&mut self, at: u64) {
        self.until = at;
        if let Some(sent) = &self.sent {
            // A thread that failed reports it at the end.
            let _ = sent.send(at);
        }
    }

    /// The hash of the whole file of `bytes` bytes.
    pub(crate) fn finish(mut self, bytes: u64) -> Result<String, Error> {
        self.hash_until(bytes);
        self.sent = None;
        let thread = self.thread.take();
        let hasher = self.meter.wait_for_file(|| thread.and_then(|thread| thread.join().ok()));
        let failure = || Error::Input("the thread that hashes the file has failed".into());
        Ok(hasher.ok_or_else(failure)??.finalize().to_hex().to_string())
    }
}

impl Drop for SentHash {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.sent = None;
        if let Some(thread) = self.thread.take() {
            // The transfer failed already.
            let _ = thread.join();
        }
    }
}

fn read_all(
    file: &File,
    path: &Path,
    mut hasher: blake3::Hasher,
    from: u64,
    bytes: u64,
    pieces: &SyncSender<Result<Vec<u8>, Error>>,
) -> blake3::Hasher {
    let mut at = from;
    while at < bytes {
        let mut piece = vec![0; PIECE_BYTES];
        let result = read(file, path, &mut piece, at, bytes).map(|count| {
            piece.truncate(count);
            hasher.update(&piece);
            at += count as u64;
            piece
        });
        let is_error = result.is_err();
        if pieces.send(result).is_err() || is_error {
            break;
        }
    }
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_hashed_only_after_they_were_sent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = 3 * PIECE_BYTES;
        std::fs::write(&path, vec![1; bytes]).unwrap();
        let file = || File::options().read(true).write(true).open(&path).unwrap();
        let meter = Arc::new(Meter::default());
        let from = PIECE_BYTES / 2;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&vec![1; from]);
        let mut hash = SentHash::start(file(), path.clone(), hasher, from as u64, &meter).unwrap();
        let sent = 2 * PIECE_BYTES;
        hash.sent(sent as u64);
        file().write_all_at(&vec![2; bytes - sent], sent as u64).unwrap();
        let expected = blake3::hash(&std::fs::read(&path).unwrap()).to_hex().to_string();
        assert_eq!(hash.finish(bytes as u64).unwrap(), expected);
    }
}
