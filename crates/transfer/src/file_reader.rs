//! Reads a file ahead of its sender on a thread, and hashes it.

use std::{
    fs::File,
    io::ErrorKind,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use os::AlignedBuffer;

use crate::{
    Error,
    error::failed,
    evidence::{Meter, Task},
};

/// Bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;
/// Number of pieces that are read ahead.
const PIECES_AHEAD: usize = 16;
/// Bytes that are read and hashed together: few enough for the processor's cache.
const READ_BYTES: usize = 256 << 10;

/// The hash of a file's first `bytes` bytes, unless it is cancelled.
pub(crate) fn hash_prefix(
    file: &File,
    path: &Path,
    bytes: u64,
    is_cancelled: &AtomicBool,
) -> Result<blake3::Hasher, Error> {
    let mut hashing = FileHasher::new(blake3::Hasher::new());
    hashing.add(file, path, 0..bytes, is_cancelled)?;
    Ok(hashing.finish())
}

/// Hashes parts of a file, which it reads into one buffer.
pub(crate) struct FileHasher {
    hasher: blake3::Hasher,
    buffer: AlignedBuffer,
}

impl FileHasher {
    /// Continues a hash.
    pub(crate) fn new(hasher: blake3::Hasher) -> Self {
        FileHasher { hasher, buffer: AlignedBuffer::with_capacity(READ_BYTES) }
    }

    /// Adds a part of a file, unless it is cancelled.
    pub(crate) fn add(
        &mut self,
        file: &File,
        path: &Path,
        part: Range<u64>,
        is_cancelled: &AtomicBool,
    ) -> Result<(), Error> {
        let mut at = part.start;
        while at < part.end {
            if is_cancelled.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            self.buffer.resize(READ_BYTES);
            let length = READ_BYTES.min(usize::try_from(part.end - at).unwrap_or(usize::MAX));
            let count = match file.read_at(&mut self.buffer[..length], at) {
                Ok(0) => return Err(Error::Shrunk(path.display().to_string())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(format!("read {}", path.display()))(error)),
            };
            self.hasher.update(&self.buffer[..count]);
            at += count as u64;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> blake3::Hasher {
        self.hasher
    }
}

/// A file that a thread reads and hashes, ahead of its sender. The sender reads it again, from the page
/// cache: passing the bytes from one processor's cache to another's costs more.
pub(crate) struct FileReader {
    file: Arc<File>,
    path: PathBuf,
    pieces: Option<Receiver<Result<Range<u64>, Error>>>,
    thread: Option<JoinHandle<blake3::Hasher>>,
    meter: Arc<Meter>,
}

impl FileReader {
    /// Reads from byte `from` to `bytes`; `hasher` has the bytes before.
    pub(crate) fn start(
        file: File,
        path: PathBuf,
        hasher: blake3::Hasher,
        (from, bytes): (u64, u64),
        meter: &Arc<Meter>,
    ) -> Result<Self, Error> {
        let (sender, receiver) = sync_channel(PIECES_AHEAD);
        let file = Arc::new(file);
        let (reading, read_file, read_path) = (Arc::clone(meter), Arc::clone(&file), path.clone());
        let read = move || {
            let _working = reading.begin(Task::File);
            read_ahead((&read_file, &read_path), hasher, from..bytes, &sender)
        };
        let thread = thread::Builder::new().name("file reader".into());
        let thread = thread.spawn(read).map_err(failed("start a thread"))?;
        let meter = Arc::clone(meter);
        Ok(FileReader { file, path, pieces: Some(receiver), thread: Some(thread), meter })
    }

    /// The next part of the file that has been read; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Range<u64>>, Error> {
        let receive = || self.pieces.as_ref().and_then(|pieces| pieces.recv().ok());
        self.meter.wait_for_file(receive).transpose()
    }

    /// Reads a part of the file that [`FileReader::next`] has returned.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        match self.meter.wait_for_file(|| self.file.read_exact_at(buffer, offset)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(self.shrunk()),
            Err(error) => Err(failed(format!("read {}", self.path.display()))(error)),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The error of a file that has become shorter.
    pub(crate) fn shrunk(&self) -> Error {
        Error::Shrunk(self.path.display().to_string())
    }

    /// The hash of the whole file; all of it has been returned by [`FileReader::next`].
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

fn read_ahead(
    (file, path): (&File, &Path),
    hasher: blake3::Hasher,
    part: Range<u64>,
    pieces: &SyncSender<Result<Range<u64>, Error>>,
) -> blake3::Hasher {
    let mut hashing = FileHasher::new(hasher);
    let never = AtomicBool::new(false);
    let mut at = part.start;
    while at < part.end {
        let piece = at..part.end.min(at + PIECE_BYTES);
        at = piece.end;
        let result = hashing.add(file, path, piece.clone(), &never).map(|()| piece);
        let is_error = result.is_err();
        if pieces.send(result).is_err() || is_error {
            break;
        }
    }
    hashing.finish()
}
