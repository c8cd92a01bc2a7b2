//! A file that is being received: under a temporary name until it is complete.
//!
//! A thread writes it. Blocks of zeros are not written and become holes. Beside the file, `NAME.progress` has
//! the number of its first bytes that have arrived, so that a later transfer can continue. That number may
//! be too small. The bytes are verified before they are used: both ends compare hashes of them.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::ErrorKind,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Sender, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, UNIX_EPOCH},
};

use os::{AlignedBuffer, file::TEMPORARY_SUFFIX};

use crate::{
    Error,
    buffers::Buffers,
    error::failed,
    evidence::{Meter, Task},
    file_reader::hash_prefix,
    name::PROGRESS_SUFFIX,
    prefix_hash::PrefixHash,
};

/// Maximum number of bytes that wait to be written.
const MAX_QUEUED_BYTES: u64 = 64 << 20;
/// Maximum number of pieces that wait to be written.
const MAX_QUEUED_PIECES: usize = 1024;
/// Blocks of zeros of this size become holes.
const HOLE_BYTES: usize = 4096;
static ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];
/// The longest file name (NAME_MAX in linux/limits.h), bytes.
const MAX_FILE_NAME_BYTES: usize = 255;
/// Interval at which the progress is written.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Digits of the written progress.
const PROGRESS_DIGITS: usize = 20;

/// A file that is being received.
#[derive(Debug)]
pub(crate) struct PartialFile {
    path: PathBuf,
    temporary: PathBuf,
    progress_path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    /// Number of its first bytes that an earlier transfer stored.
    stored: u64,
}

/// Whether data arrives in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The writing thread hashes it.
    InOrder,
    /// Another thread reads the file up to the first gap and hashes it.
    AnyOrder,
}

impl PartialFile {
    /// Opens the temporary file of `path`, and hashes the part of `bytes` bytes that an earlier transfer
    /// stored, unless it is cancelled.
    pub(crate) fn open(path: PathBuf, bytes: u64, is_cancelled: &AtomicBool) -> Result<Self, Error> {
        if path.file_name().is_none() {
            return Err(Error::Name(path.display().to_string()));
        }
        if path.is_dir() {
            return Err(Error::Input(format!("cannot replace the directory {}", path.display())));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(format!("create {}", parent.display())))?;
        }
        let temporary = temporary_path(&path);
        let what = || format!("open {}", temporary.display());
        let file = open_locked(&path, &temporary)?;
        let mut progress_path = temporary.clone().into_os_string();
        progress_path.push(PROGRESS_SUFFIX);
        let progress_path = PathBuf::from(progress_path);
        let written_progress =
            fs::read_to_string(&progress_path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let length = file.metadata().map_err(failed(what()))?.len();
        let stored = written_progress.unwrap_or(0).min(length).min(bytes);
        let hasher = hash_prefix(&file, &temporary, stored, is_cancelled)?;
        Ok(PartialFile { path, temporary, progress_path, file, hasher, stored })
    }

    /// Number and hash of the bytes that it already has.
    pub(crate) fn stored_part(&self) -> (u64, String) {
        (self.stored, self.hasher.finalize().to_hex().to_string())
    }

    /// Begins to write at byte `from`: 0, or the number that [`PartialFile::stored_part`] returned.
    pub(crate) fn start(mut self, from: u64, order: Order, meter: &Arc<Meter>) -> Result<FileWriter, Error> {
        if from != self.stored {
            self.hasher = blake3::Hasher::new();
        }
        if from != self.stored && from != 0 {
            return Err(Error::Protocol(format!("the data begins at byte {from}")));
        }
        // Also data that arrived out of order before the interruption.
        self.file.set_len(from).map_err(failed(format!("truncate {}", self.temporary.display())))?;
        let progress_file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.progress_path)
            .map_err(failed(format!("open {}", self.progress_path.display())))?;
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = sync_channel(MAX_QUEUED_PIECES);
        let duplicate = || self.file.try_clone().map_err(failed("duplicate a descriptor"));
        let hashing = match order {
            Order::InOrder => None,
            Order::AnyOrder => {
                let (path, hasher) = (self.temporary.clone(), self.hasher.clone());
                Some(PrefixHash::start(duplicate()?, path, hasher, from, meter)?)
            }
        };
        let writer = Writer {
            file: duplicate()?,
            path: self.temporary.clone(),
            progress_file,
            hasher: (order == Order::InOrder).then(|| self.hasher.clone()),
            complete: hashing.as_ref().and_then(PrefixHash::ends),
            progress_written: Instant::now(),
            shared: Arc::clone(&shared),
        };
        writer.write_progress(from)?;
        let thread = thread::Builder::new().name("file writer".into());
        let writing = Arc::clone(meter);
        let run = move || {
            let _working = writing.begin(Task::File);
            writer.run(&receiver)
        };
        let thread = thread.spawn(run).map_err(failed("start a thread"))?;
        let threads = Threads { pieces: Some(sender), writer: Some(thread), hashing };
        let meter = Arc::clone(meter);
        Ok(FileWriter { partial: self, threads, shared, progress_written: Instant::now(), meter })
    }

    /// Gives the complete file its name.
    fn commit(self, mode: u32, modified_ns: i64) -> Result<(), Error> {
        let what = format!("store {}", self.path.display());
        let permissions = fs::Permissions::from_mode(mode & 0o777);
        self.file.set_permissions(permissions).map_err(failed(what.clone()))?;
        let since_1970 = Duration::from_nanos(modified_ns.unsigned_abs());
        let modified = match modified_ns < 0 {
            true => UNIX_EPOCH.checked_sub(since_1970),
            false => UNIX_EPOCH.checked_add(since_1970),
        };
        if let Some(modified) = modified {
            self.file.set_modified(modified).map_err(failed(what.clone()))?;
        }
        self.file.sync_all().map_err(failed(what.clone()))?;
        fs::rename(&self.temporary, &self.path).map_err(failed(what.clone()))?;
        os::file::sync_directory(&self.path).map_err(failed(what.clone()))?;
        os::file::remove(&self.progress_path).map_err(failed(what))
    }

    /// Removes the received data.
    fn discard(self) -> Result<(), Error> {
        let what = format!("remove {}", self.temporary.display());
        os::file::remove(&self.progress_path).map_err(failed(what.clone()))?;
        os::file::remove(&self.temporary).map_err(failed(what))
    }
}

/// The temporary file of `path`. Names with which it would be too long are replaced by their hash.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let longest = MAX_FILE_NAME_BYTES - 1 - TEMPORARY_SUFFIX.len() - PROGRESS_SUFFIX.len();
    if name.len() > longest {
        let hash = blake3::hash(name.as_encoded_bytes()).to_hex();
        return path.with_file_name(format!(".{hash}{TEMPORARY_SUFFIX}"));
    }
    os::file::temporary_path(path)
}

/// Opens and locks the temporary file of `path`.
fn open_locked(path: &Path, temporary: &Path) -> Result<File, Error> {
    let what = || format!("open {}", temporary.display());
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(temporary)
            .map_err(failed(what()))?;
        file.try_lock().map_err(|error| lock_error(error, path))?;
        let opened = file.metadata().map_err(failed(what()))?;
        // Before the lock, another transfer may have given the file its final name, or removed it.
        match fs::symlink_metadata(temporary) {
            Ok(named) if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(what())(error)),
        }
    }
}

/// The error of a lock: of another transfer, or of the file system, which may have no locks.
fn lock_error(error: TryLockError, path: &Path) -> Error {
    match error {
        TryLockError::WouldBlock => Error::Input(format!("another transfer receives {}", path.display())),
        TryLockError::Error(source) => failed(format!("lock the partial file of {}", path.display()))(source),
    }
}

#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicU64,
    buffers: Buffers,
    error: Mutex<Option<Error>>,
}

enum Piece {
    Data(u64, AlignedBuffer),
    /// Every byte before this one was queued.
    Complete(u64),
}

/// The file's writing thread.
struct Writer {
    file: File,
    path: PathBuf,
    progress_file: File,
    hasher: Option<blake3::Hasher>,
    /// Receives the number of bytes before the first gap.
    complete: Option<Sender<u64>>,
    progress_written: Instant,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, pieces: &std::sync::mpsc::Receiver<Piece>) -> Option<blake3::Hasher> {
        while let Ok(piece) = pieces.recv() {
            let result = match piece {
                Piece::Data(offset, bytes) => {
                    let result = self.write(offset, &bytes);
                    self.shared.queued_bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                    self.shared.buffers.put_back(bytes);
                    result
                }
                Piece::Complete(bytes) => self.write_progress_if_due(bytes),
            };
            if let Err(error) = result {
                *self.shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return None;
            }
        }
        self.hasher
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (begin, end) in data_ranges(offset, bytes) {
            self.file
                .write_all_at(&bytes[begin..end], offset + begin as u64)
                .map_err(failed(format!("write {}", self.path.display())))?;
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
            self.write_progress_if_due(offset + bytes.len() as u64)?;
        }
        Ok(())
    }

    fn write_progress_if_due(&mut self, bytes: u64) -> Result<(), Error> {
        if self.progress_written.elapsed() < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.progress_written = Instant::now();
        // Zeros at the end are not written: the file must be as long as the written progress.
        let what = || format!("write {}", self.path.display());
        if self.file.metadata().map_err(failed(what()))?.len() < bytes {
            self.file.set_len(bytes).map_err(failed(what()))?;
        }
        if let Some(complete) = &self.complete {
            // A hashing thread that has failed reports its error at the end.
            let _ = complete.send(bytes);
        }
        self.write_progress(bytes)
    }

    /// A single write of constant length, so that a killed process leaves the old number or the new one.
    fn write_progress(&self, bytes: u64) -> Result<(), Error> {
        let text = format!("{bytes:0PROGRESS_DIGITS$}\n");
        let what = failed(format!("write the progress of {}", self.path.display()));
        self.progress_file.write_all_at(text.as_bytes(), 0).map_err(what)
    }
}

/// The parts of `bytes` that are not whole blocks of zeros; `offset` is their position in the file.
fn data_ranges(offset: u64, bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let to_boundary = HOLE_BYTES - ((offset + at as u64) % HOLE_BYTES as u64) as usize;
        let end = bytes.len().min(at + to_boundary);
        let is_hole = bytes[at..end] == ZEROS;
        if !is_hole {
            match ranges.last_mut() {
                Some((_, last)) if *last == at => *last = end,
                _ => ranges.push((at, end)),
            }
        }
        at = end;
    }
    ranges
}

/// The threads of a [`FileWriter`]. They hold the file's lock, because they have the file open: they end with
/// the transfer, so that the next transfer of this file can begin at once.
struct Threads {
    pieces: Option<SyncSender<Piece>>,
    writer: Option<JoinHandle<Option<blake3::Hasher>>>,
    hashing: Option<PrefixHash>,
}

impl Threads {
    /// Waits until everything is written; `None` if the thread has failed.
    fn join_writer(&mut self) -> Option<Option<blake3::Hasher>> {
        self.pieces = None;
        self.writer.take()?.join().ok()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.join_writer();
    }
}

/// A file that a thread writes.
pub(crate) struct FileWriter {
    partial: PartialFile,
    threads: Threads,
    shared: Arc<Shared>,
    progress_written: Instant,
    meter: Arc<Meter>,
}

impl FileWriter {
    /// Writes bytes; waits while the queue is full.
    pub(crate) fn write(&self, offset: u64, bytes: impl Into<AlignedBuffer>) -> Result<(), Error> {
        self.meter.wait_for_file(|| self.write_when_possible(offset, bytes.into()))
    }

    fn write_when_possible(&self, offset: u64, bytes: AlignedBuffer) -> Result<(), Error> {
        while self.is_full() {
            thread::sleep(Duration::from_millis(1));
        }
        self.shared.queued_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.queue(Piece::Data(offset, bytes))
    }

    /// Writes periodically that every byte before `bytes` has arrived; those from `unwritten` on are not
    /// queued.
    pub(crate) fn complete_if_due(&mut self, bytes: u64, unwritten: u64) -> Result<(), Error> {
        if self.progress_written.elapsed() < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.progress_written = Instant::now();
        self.queue(Piece::Complete(bytes.min(unwritten)))
    }

    fn queue(&self, piece: Piece) -> Result<(), Error> {
        match self.threads.pieces.as_ref().map(|pieces| pieces.send(piece)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.take_error()),
        }
    }

    /// A buffer of `length` arbitrary bytes for [`FileWriter::write`].
    pub(crate) fn buffer(&self, length: usize) -> AlignedBuffer {
        self.shared.buffers.take(length)
    }

    /// Whether the queue is full, so that [`FileWriter::write`] would wait.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog() >= 1.0 && !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.threads.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn take_error(&self) -> Error {
        let error = self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.unwrap_or_else(|| Error::Input("the thread that writes the file has failed".into()))
    }

    /// The share of the queue that is full, 0 to 1.
    pub(crate) fn backlog(&self) -> f64 {
        self.shared.queued_bytes.load(Ordering::Relaxed) as f64 / MAX_QUEUED_BYTES as f64
    }

    /// Waits until everything is written, and returns the hash of the whole file and the file, unless it is
    /// cancelled.
    pub(crate) fn finish(self, bytes: u64, is_cancelled: &AtomicBool) -> Result<(String, WholeFile), Error> {
        let meter = Arc::clone(&self.meter);
        meter.wait_for_file(|| self.finish_writing(bytes, is_cancelled))
    }

    fn finish_writing(mut self, bytes: u64, is_cancelled: &AtomicBool) -> Result<(String, WholeFile), Error> {
        let joined = self.threads.join_writer();
        if self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).is_some() || joined.is_none() {
            return Err(self.take_error());
        }
        let (file, temporary) = (&self.partial.file, &self.partial.temporary);
        file.set_len(bytes).map_err(failed(format!("write {}", temporary.display())))?;
        let hasher = match (joined.flatten(), self.threads.hashing.take()) {
            (Some(hasher), _) => hasher,
            (None, Some(hashing)) => hashing.finish(bytes, is_cancelled)?,
            (None, None) => hash_prefix(file, temporary, bytes, is_cancelled)?,
        };
        Ok((hasher.finalize().to_hex().to_string(), WholeFile(self.partial)))
    }
}

/// A file whose bytes have all arrived.
pub(crate) struct WholeFile(PartialFile);

impl WholeFile {
    /// Gives the file its name, durably.
    pub(crate) fn commit(self, mode: u32, modified_ns: i64) -> Result<(), Error> {
        self.0.commit(mode, modified_ns)
    }

    /// Removes it: its contents are wrong.
    pub(crate) fn discard(self) -> Result<(), Error> {
        self.0.discard()
    }

    /// Its final name.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: PathBuf, bytes: u64) -> Result<PartialFile, Error> {
        PartialFile::open(path, bytes, &AtomicBool::new(false))
    }

    #[test]
    fn only_a_lock_of_another_process_is_another_transfer() {
        let path = Path::new("/data/file");
        let busy = lock_error(TryLockError::WouldBlock, path);
        assert!(busy.to_string().contains("another transfer receives /data/file"), "{busy}");
        let refused = TryLockError::Error(std::io::Error::from_raw_os_error(libc::ENOLCK));
        let Error::Io(error) = lock_error(refused, path) else { panic!("not an error of the system") };
        assert_eq!(error.attempted, "lock the partial file of /data/file");
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOLCK));
    }

    #[test]
    fn only_aligned_blocks_of_zeros_become_holes() {
        let mut bytes = vec![0; 3 * HOLE_BYTES];
        assert_eq!(data_ranges(0, &bytes), []);
        assert_eq!(data_ranges(1, &bytes), [(0, HOLE_BYTES - 1), (3 * HOLE_BYTES - 1, 3 * HOLE_BYTES)]);
        bytes[HOLE_BYTES] = 1;
        assert_eq!(data_ranges(0, &bytes), [(HOLE_BYTES, 2 * HOLE_BYTES)]);
        assert_eq!(data_ranges(0, &[]), []);
    }

    #[test]
    fn a_file_is_absent_until_it_is_committed_and_continues_after_an_interruption() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/file");
        let zeros = 1 << 20;
        let mut content = vec![7u8; 100_000];
        content.resize(100_000 + zeros, 0);
        content.extend_from_slice(b"end");
        let bytes = content.len() as u64;

        let partial = open(path.clone(), bytes).unwrap();
        assert_eq!(partial.stored_part().0, 0);
        let writer = partial.start(0, Order::InOrder, &Meter::new()).unwrap();
        writer.write(0, content[..50_000].to_vec()).unwrap();
        std::thread::sleep(PROGRESS_INTERVAL * 2);
        writer.write(50_000, content[50_000..60_000].to_vec()).unwrap();
        assert!(open(path.clone(), bytes).is_err(), "another transfer holds the lock");
        drop(writer);
        assert!(!path.exists());

        let partial = open(path.clone(), bytes).unwrap();
        let (stored, hash) = partial.stored_part();
        assert_eq!(stored, 60_000);
        assert_eq!(hash, blake3::hash(&content[..60_000]).to_hex().to_string());
        let writer = partial.start(stored, Order::AnyOrder, &Meter::new()).unwrap();
        writer.write(90_000, content[90_000..].to_vec()).unwrap();
        writer.write(60_000, content[60_000..90_000].to_vec()).unwrap();
        let (hash, whole) = writer.finish(bytes, &AtomicBool::new(false)).unwrap();
        assert_eq!(hash, blake3::hash(&content).to_hex().to_string());
        whole.commit(0o640, 1_000_000_000).unwrap();
        assert_eq!(fs::read(&path).unwrap(), content);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.mtime()), (0o640, 1));
        assert!(metadata.blocks() * 512 < zeros as u64, "{} blocks", metadata.blocks());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_time_of_change_before_1970_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let writer = open(path.clone(), 0).unwrap().start(0, Order::InOrder, &Meter::new()).unwrap();
        let (_, whole) = writer.finish(0, &AtomicBool::new(false)).unwrap();
        whole.commit(0o600, -1_500_000_000).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-2, 500_000_000));
    }

    /// Zeros at the end of a complete part are a hole: the file is shorter than that part until its length is
    /// set.
    #[test]
    fn data_in_any_order_is_hashed_up_to_its_first_gap() {
        let directory = tempfile::tempdir().unwrap();
        let mut content: Vec<u8> = (0..3_000_000u32).map(|at| (at % 253) as u8).collect();
        content[500_000..1_000_000].fill(0);
        let bytes = content.len() as u64;
        let partial = open(directory.path().join("file"), bytes).unwrap();
        let mut writer = partial.start(0, Order::AnyOrder, &Meter::new()).unwrap();
        let write = |writer: &FileWriter, from: usize, to: usize| {
            writer.write(from as u64, content[from..to].to_vec()).unwrap();
        };
        write(&writer, 2_000_000, 2_500_000);
        write(&writer, 0, 1_000_000);
        let report = |writer: &mut FileWriter, complete| {
            std::thread::sleep(PROGRESS_INTERVAL + Duration::from_millis(20));
            writer.complete_if_due(complete, u64::MAX).unwrap();
        };
        report(&mut writer, 1_000_000);
        report(&mut writer, 1_000_000);
        write(&writer, 1_000_000, 2_000_000);
        report(&mut writer, 2_500_000);
        write(&writer, 2_500_000, 3_000_000);
        let (hash, whole) = writer.finish(bytes, &AtomicBool::new(false)).unwrap();
        assert_eq!(hash, blake3::hash(&content).to_hex().to_string());
        whole.discard().unwrap();
    }

    #[test]
    fn a_symbolic_link_is_not_accepted_as_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::os::unix::fs::symlink("/etc/hostname", os::file::temporary_path(&path)).unwrap();
        assert!(open(path, 9).is_err());
    }

    #[test]
    fn long_names_have_temporary_names_that_the_file_system_accepts() {
        let directory = tempfile::tempdir().unwrap();
        for length in [1, 232, 233, 234, 243, 255] {
            let path = directory.path().join("n".repeat(length));
            let writer = open(path.clone(), 3).unwrap().start(0, Order::InOrder, &Meter::new()).unwrap();
            writer.write(0, b"abc".to_vec()).unwrap();
            let (_, whole) = writer.finish(3, &AtomicBool::new(false)).unwrap();
            whole.commit(0o600, 0).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"abc", "{length}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6, "no temporary file is left");
    }

    /// Two transfers of one name, each of which gives the file its final name while the other one opens it.
    #[test]
    fn a_file_with_its_final_name_is_not_reopened_as_a_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let temporary = temporary_path(&path);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut locked = 0;
                    while locked < 1000 {
                        let Ok(file) = open_locked(&path, &temporary) else { continue };
                        let named = fs::metadata(&temporary).unwrap();
                        assert_eq!(named.ino(), file.metadata().unwrap().ino());
                        fs::rename(&temporary, &path).unwrap();
                        locked += 1;
                    }
                });
            }
        });
    }
}
