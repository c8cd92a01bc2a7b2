//! Reads a file in order on a thread, and hashes it.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use crate::{
    Error,
    buffers::{Buffer, Buffers},
    error::failed,
    evidence::{Meter, Task},
};

/// Bytes of a piece. Pieces of this size are still in the processor's cache when they are sent.
const PIECE_BYTES: usize = 256 << 10;
/// Number of pieces that are read ahead.
const PIECES_AHEAD: usize = 64;

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
    pieces: Option<Receiver<Result<Buffer, Error>>>,
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
                read_all(&file, &path, hasher, (from, bytes), &sender)
            })
            .map_err(failed("cannot start a thread"))?;
        Ok(FileReader { pieces: Some(receiver), thread: Some(thread), meter: Arc::clone(meter) })
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Buffer>, Error> {
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

fn read_all(
    file: &File,
    path: &Path,
    mut hasher: blake3::Hasher,
    (from, bytes): (u64, u64),
    pieces: &SyncSender<Result<Buffer, Error>>,
) -> blake3::Hasher {
    let buffers = Buffers::default();
    let mut at = from;
    while at < bytes {
        let mut piece = buffers.take(PIECE_BYTES);
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
