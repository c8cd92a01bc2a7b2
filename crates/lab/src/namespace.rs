//! Network namespaces that exist only as long as a file descriptor refers to them, so they end with the
//! process.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::Mutex,
};

use crate::{Error, error::Attempted};

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// Creates an empty namespace.
    pub(crate) fn new() -> Result<Self, Error> {
        on_thread(|| {
            os::unshare_network().attempted(|| "create a network namespace".into())?;
            let path = "/proc/thread-self/ns/net";
            File::open(path).map(Namespace).attempted(|| format!("open {path}"))
        })
    }

    /// Runs `work` on a thread inside the namespace. Sockets and devices that it creates stay there.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        on_thread(|| {
            os::enter_network(self.0.as_fd()).attempted(|| "enter a network namespace".into())?;
            work()
        })
    }

    /// Its descriptor, for setns(2).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Its descriptor as a number, for netlink attributes such as IFLA_NET_NS_FD.
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

/// Checks that `threads` threads can exist at once, by starting and ending them.
///
/// # Errors
/// [`Error::NoThreads`] if the machine does not allow that many (RLIMIT_NPROC, a cgroup's pids.max): during a
/// run, a failure to start a thread would cause a panic.
pub(crate) fn check_threads(threads: usize) -> Result<(), Error> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // Threads wait for this lock; it is released however the scope ends.
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
    fn threads_within_the_limit_are_started_and_ended() {
        check_threads(50).unwrap();
        let error = Error::NoThreads { threads: 50, source: std::io::Error::from_raw_os_error(libc::EAGAIN) };
        assert!(
            error.is_missing() && error.to_string().starts_with("cannot start the 50 threads that this"),
            "{error}"
        );
    }
}
