//! Network namespaces held by nothing but a file descriptor: they die with the process.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::Mutex,
};

use crate::{Error, error::Attempted, sys};

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// Makes an empty namespace.
    pub(crate) fn new() -> Result<Self, Error> {
        on_thread(|| {
            sys::unshare_network().attempted(|| "make a network namespace".into())?;
            let path = "/proc/thread-self/ns/net";
            File::open(path).map(Namespace).attempted(|| format!("open {path}"))
        })
    }

    /// Runs `work` on a thread inside the namespace. Sockets and devices that it makes stay there.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        on_thread(|| {
            sys::enter_network(self.0.as_fd()).attempted(|| "enter a network namespace".into())?;
            work()
        })
    }

    /// For others to enter.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// For netlink, which moves devices between namespaces by descriptor.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().spawn_scoped(scope, work);
        match started.map_err(|source| Error::NoThreads { threads: 1, source })?.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Starts `threads` threads at once and ends them.
///
/// # Errors
/// [`Error::NoThreads`] where the machine does not allow that many (RLIMIT_NPROC, a cgroup's pids.max): later, in the middle of
/// a run, that would be a panic.
pub(crate) fn check_threads(threads: usize) -> Result<(), Error> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // Threads wait for this; it opens however the scope ends.
        let _closed = gate.lock();
        (0..threads).try_for_each(|_| {
            let wait = || drop(gate.lock());
            let started = std::thread::Builder::new().spawn_scoped(scope, wait);
            started.map(drop).map_err(|source| Error::NoThreads { threads, source })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_can_be_had_are_tried_and_ended() {
        check_threads(50).unwrap();
        let error = Error::NoThreads { threads: 50, source: std::io::Error::from_raw_os_error(libc::EAGAIN) };
        assert!(
            error.is_missing() && error.to_string().starts_with("cannot start 50 threads at once"),
            "{error}"
        );
    }
}
