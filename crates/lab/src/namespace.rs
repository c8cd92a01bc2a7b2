//! Network namespaces held by nothing but a file descriptor: they die with the process.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
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
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
