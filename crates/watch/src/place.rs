//! The network namespaces that are watched.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    os::unix::fs::MetadataExt,
};

use crate::{Error, error::Attempted};

/// A network namespace under the name that its connections are shown with.
#[derive(Debug)]
pub struct Place {
    name: String,
    namespace: OwnedFd,
    inode: u32,
}

impl Place {
    /// The namespace of this process; its name is empty.
    ///
    /// # Errors
    /// Where /proc is not mounted.
    pub fn here() -> Result<Place, Error> {
        Place::of_path(String::new(), "/proc/thread-self/ns/net")
    }

    /// A namespace by the path of its file, by a process in it, or by its name under /run/netns.
    ///
    /// # Errors
    /// Where there is none.
    pub fn find(text: &str) -> Result<Place, Error> {
        let path = match text.parse::<u32>() {
            Ok(pid) => format!("/proc/{pid}/ns/net"),
            Err(_) if text.contains('/') => text.to_string(),
            Err(_) => format!("/run/netns/{text}"),
        };
        Place::of_path(text.into(), &path)
    }

    /// A namespace by its descriptor.
    ///
    /// # Errors
    /// Where the descriptor tells nothing of itself.
    pub fn new(name: String, namespace: OwnedFd) -> Result<Place, Error> {
        let file = File::from(namespace);
        let inode = file.metadata().attempted(|| format!("look at the network namespace {name}"))?.ino();
        Ok(Place { name, namespace: file.into(), inode: inode as u32 })
    }

    fn of_path(name: String, path: &str) -> Result<Place, Error> {
        let file = File::open(path).attempted(|| format!("open the network namespace {path}"))?;
        Place::new(name, file.into())
    }

    /// What its connections are shown with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that the kernel knows it by.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Does it on a thread inside the namespace; what is opened there stays there.
    ///
    /// # Errors
    /// Where this user may not enter, or `work` fails.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let inside = || {
            let here = File::open("/proc/thread-self/ns/net").and_then(|file| file.metadata());
            // Where we are already, no privilege is needed.
            if here.is_ok_and(|here| here.ino() as u32 != self.inode) {
                enter(&self.namespace)
                    .attempted(|| format!("enter the network namespace {} (root is needed)", self.name))?;
            }
            work()
        };
        std::thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call, which concerns the calling thread alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_process_and_path() {
        let here = Place::here().unwrap();
        let ours = Place::find(&std::process::id().to_string()).unwrap();
        assert_eq!(here.inode(), ours.inode());
        assert_eq!(ours.run(|| Ok(1)).unwrap(), 1);
        let none = Place::find("no-such-namespace").unwrap_err().to_string();
        assert!(
            none.starts_with("cannot open the network namespace /run/netns/no-such-namespace:"),
            "{none}"
        );
        assert!(Place::find("/dev/null").unwrap().run(|| Ok(())).is_err());
    }
}
