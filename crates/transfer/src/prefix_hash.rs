//! Hashes on a thread the first part of a file, as far as it has arrived without gaps.

use std::{
    fs::File,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    Error,
    error::failed,
    evidence::{Meter, Task},
    file_reader::FileHasher,
};

/// The thread that hashes a file.
pub(crate) struct PrefixHash {
    ends: Option<Sender<u64>>,
    thread: Option<JoinHandle<Result<blake3::Hasher, Error>>>,
    /// The hash is not needed.
    is_cancelled: Arc<AtomicBool>,
}

impl PrefixHash {
    /// Hashes from byte `from`; `hasher` has the bytes before.
    pub(crate) fn start(
        file: File,
        path: PathBuf,
        hasher: blake3::Hasher,
        from: u64,
        meter: &Arc<Meter>,
    ) -> Result<Self, Error> {
        let (sender, ends) = channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        let working = Arc::clone(meter);
        let hash = move || {
            let _working = working.begin(Task::Hash);
            let mut hashing = FileHasher::new(hasher);
            let mut at = from;
            for end in ends {
                let end = at.max(end);
                hashing.add(&file, &path, at..end, &cancelled)?;
                at = end;
            }
            Ok(hashing.finish())
        };
        let thread = thread::Builder::new().name("file hash".into());
        let thread = thread.spawn(hash).map_err(failed("start a thread"))?;
        Ok(PrefixHash { ends: Some(sender), thread: Some(thread), is_cancelled })
    }

    /// Receives the bytes up to which the file can be hashed. The thread ends after these senders.
    pub(crate) fn ends(&self) -> Option<Sender<u64>> {
        self.ends.clone()
    }

    /// The hash of the whole file of `bytes` bytes, unless it is cancelled.
    pub(crate) fn finish(mut self, bytes: u64, is_cancelled: &AtomicBool) -> Result<blake3::Hasher, Error> {
        if let Some(ends) = self.ends.take() {
            // Fails only if the thread has failed, which `join` reports.
            let _ = ends.send(bytes);
        }
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if is_cancelled.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let joined = self.thread.take().and_then(|thread| thread.join().ok());
        joined.unwrap_or_else(|| Err(Error::Input("the thread that hashes the file has failed".into())))
    }
}

impl Drop for PrefixHash {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.ends = None;
        // It has ended, or its result is not needed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn bytes_are_hashed_only_after_they_have_arrived() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let (from, arrived, bytes) = (1_000, 300_000, 700_000);
        std::fs::write(&path, vec![1; bytes]).unwrap();
        let file = || File::options().read(true).write(true).open(&path).unwrap();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&vec![1; from]);
        let hash = PrefixHash::start(file(), path.clone(), hasher, from as u64, &Meter::new()).unwrap();
        hash.ends().unwrap().send(arrived as u64).unwrap();
        file().write_all_at(&vec![2; bytes - arrived], arrived as u64).unwrap();
        let hasher = hash.finish(bytes as u64, &AtomicBool::new(false)).unwrap();
        assert_eq!(hasher.finalize(), blake3::hash(&std::fs::read(&path).unwrap()));
    }
}
