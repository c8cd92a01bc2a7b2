//! Which process owns a connection: sockets are known by their inode, which /proc/PID/fd tells.

use std::{collections::HashMap, fs, path::Path};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The program's name, at most 15 bytes (proc(5), comm).
    pub name: String,
}

/// The owners of sockets, as of the last look. Of processes that this user may not see it knows nothing.
#[derive(Debug, Default)]
pub struct Processes {
    by_inode: HashMap<u32, Process>,
}

impl Processes {
    /// Looks again. Costs some microseconds for each open file of the machine.
    pub fn refresh(&mut self) {
        self.by_inode.clear();
        let Ok(entries) = fs::read_dir("/proc") else { return };
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            self.add(pid, &entry.path());
        }
    }

    /// The owner of a socket. Where several share it, the first one.
    pub fn of_inode(&self, inode: u32) -> Option<&Process> {
        self.by_inode.get(&inode)
    }

    fn add(&mut self, pid: u32, directory: &Path) {
        let Ok(files) = fs::read_dir(directory.join("fd")) else { return };
        let mut name = None;
        for file in files.flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let inode = target
                .to_str()
                .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok());
            let Some(inode) = inode else { continue };
            let name = name.get_or_insert_with(|| {
                fs::read_to_string(directory.join("comm")).unwrap_or_default().trim_end().to_string()
            });
            self.by_inode.entry(inode).or_insert_with(|| Process { pid, name: name.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn our_own_socket_is_ours() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
        let inode = fs::metadata(path).unwrap().ino() as u32;
        let mut processes = Processes::default();
        assert_eq!(processes.of_inode(inode), None);
        processes.refresh();
        assert_eq!(processes.of_inode(inode).unwrap().pid, std::process::id());
    }
}
