//! Network namespaces whose connections are watched.
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use crate::{Error, error::Attempted};

/// An open network namespace, and the name that its connections are shown with.
#[derive(Debug)]
pub struct NetNamespace {
    name: String,
    namespace: OwnedFd,
    inode: u32,
}

impl NetNamespace {
    /// The namespace of this process; its name is empty.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn current() -> Result<NetNamespace, Error> {
        NetNamespace::open_path(String::new(), "/proc/thread-self/ns/net")
    }

    /// Opens a namespace given the path of its file, a process in it, or its name under /run/netns.
    ///
    /// # Errors
    /// If there is no such namespace, or this user may not open it.
    pub fn open(text: &str) -> Result<NetNamespace, Error> {
        let path = match text.parse::<u32>() {
            Ok(pid) => format!("/proc/{pid}/ns/net"),
            Err(_) if text.contains('/') => text.to_string(),
            Err(_) => format!("/run/netns/{text}"),
        };
        NetNamespace::open_path(text.into(), &path)
    }

    /// The namespaces that this user sees: of all threads, and those with a name.
    pub(crate) fn all_visible() -> Vec<NetNamespace> {
        let entries = |directory: &Path| {
            fs::read_dir(directory)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect::<Vec<_>>()
        };
        let is_process = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
        };
        let processes = entries("/proc".as_ref()).into_iter().filter(is_process);
        let threads = processes.flat_map(|process| entries(&process.join("task")));
        let paths = threads.map(|thread| thread.join("ns/net")).chain(entries("/run/netns".as_ref()));
        let mut inodes = BTreeSet::new();
        let new = paths.filter(|path| fs::metadata(path).is_ok_and(|file| inodes.insert(file.ino())));
        // The thread may have ended in the meantime.
        new.filter_map(|path| NetNamespace::open_path(String::new(), path.to_str()?).ok()).collect()
    }

    /// A namespace given its descriptor.
    ///
    /// # Errors
    /// If fstat(2) of the descriptor fails.
    pub fn new(name: String, namespace: OwnedFd) -> Result<NetNamespace, Error> {
        let file = File::from(namespace);
        let inode = file.metadata().attempted(|| format!("stat the network namespace {name}"))?.ino();
        Ok(NetNamespace { name, namespace: file.into(), inode: inode as u32 })
    }

    fn open_path(name: String, path: &str) -> Result<NetNamespace, Error> {
        let file = File::open(path).attempted(|| format!("open the network namespace {path}"))?;
        NetNamespace::new(name, file.into())
    }

    /// The name that its connections are shown with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number of the namespace (inode of its nsfs file).
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Runs `work` on a thread inside the namespace. Sockets that it opens stay in that namespace.
    ///
    /// # Errors
    /// If this user may not enter the namespace (CAP_SYS_ADMIN), or `work` fails.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let inside = || {
            let current = File::open("/proc/thread-self/ns/net").and_then(|file| file.metadata());
            // Entering the thread's own namespace would need a privilege without any effect.
            if current.is_ok_and(|current| current.ino() as u32 != self.inode) {
                os::enter_network(&self.namespace)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_opened_by_process_and_path() {
        let current = NetNamespace::current().unwrap();
        let ours = NetNamespace::open(&std::process::id().to_string()).unwrap();
        assert_eq!(current.inode(), ours.inode());
        assert_eq!(ours.run(|| Ok(1)).unwrap(), 1);
        let none = NetNamespace::open("no-such-namespace").unwrap_err().to_string();
        assert!(
            none.starts_with("cannot open the network namespace /run/netns/no-such-namespace:"),
            "{none}"
        );
        assert!(NetNamespace::open("/dev/null").unwrap().run(|| Ok(())).is_err());
    }
}
