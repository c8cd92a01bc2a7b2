//! Which process owns a connection: a search of /proc/PID/fd for the socket's inode.

use std::{collections::HashMap, fs, os::fd::RawFd, path::Path};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// The program's name, at most 15 bytes (proc(5), comm).
    pub name: String,
}

/// The owners of sockets at the time of the last [`SocketOwners::refresh`]. Processes of other users are
/// missing without root.
#[derive(Debug, Default)]
pub struct SocketOwners {
    by_inode: HashMap<u32, (Process, RawFd)>,
}

impl SocketOwners {
    /// Searches /proc again. Costs some microseconds for each open file of the machine.
    pub fn refresh(&mut self) {
        self.by_inode.clear();
        let Ok(entries) = fs::read_dir("/proc") else { return };
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            self.add(pid, &entry.path());
        }
    }

    /// The process that owns the socket with this inode; the first one where several share it.
    pub fn owner(&self, inode: u32) -> Option<&Process> {
        self.by_inode.get(&inode).map(|(process, _)| process)
    }

    /// The owner's process ID, and its descriptor of the socket with this inode.
    pub(crate) fn descriptor(&self, inode: u32) -> Option<(u32, RawFd)> {
        self.by_inode.get(&inode).map(|(process, fd)| (process.pid, *fd))
    }

    fn add(&mut self, pid: u32, directory: &Path) {
        let Ok(files) = fs::read_dir(directory.join("fd")) else { return };
        let mut name = None;
        for file in files.flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let inode = target
                .to_str()
                .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok());
            let fd = file.file_name().to_str().and_then(|name| name.parse().ok());
            let (Some(inode), Some(fd)) = (inode, fd) else { continue };
            let name = name.get_or_insert_with(|| {
                fs::read_to_string(directory.join("comm")).unwrap_or_default().trim_end().to_string()
            });
            self.by_inode.entry(inode).or_insert_with(|| (Process { pid, name: name.clone() }, fd));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn this_process_owns_its_socket() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
        let inode = fs::metadata(path).unwrap().ino() as u32;
        let mut owners = SocketOwners::default();
        assert_eq!(owners.owner(inode), None);
        owners.refresh();
        assert_eq!(owners.owner(inode).unwrap().pid, std::process::id());
    }
}
