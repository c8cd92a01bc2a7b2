//! Which labs live on this machine.
//!
//! A lab's namespaces, devices and sockets are held by its process alone and die with it, however it
//! ends. What can outlast it is its entry here, with the owner's process id and start time (ids are
//! used again, the pair is not), which [`Journal::clean`] removes. Process ids mean something in their own process
//! namespace only (a host of a standing lab has another, so has a container): entries of other ones are left alone. A run changes nothing of the machine
//! outside its own namespaces; what ever would, must be noted in the entry first.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{DirBuilderExt, MetadataExt},
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, error::Attempted};

/// One lab's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The owner's process id.
    pub pid: u32,
    /// The owner's start, in clock ticks since the machine's (proc(5), field 22 of stat).
    pub start_time: u64,
    /// The PID namespace in which these mean something (inode of /proc/self/ns/pid); 0 on kernels without them.
    #[serde(default)]
    pub pid_namespace: u64,
    /// What it runs.
    pub scenario: String,
    /// The lab's name and control socket, where it stays up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// How to find a lab that stays up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name; only one lab of a user has it.
    pub name: String,
    /// Its control socket.
    pub socket: PathBuf,
}

/// The directory of entries: /run/longfat for root, else one of the user's own.
#[derive(Debug, Clone)]
pub struct Journal(PathBuf);

/// Removes its entry when dropped.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    socket: PathBuf,
}

impl Guard {
    /// Where the control socket of a lab that stays up is to be.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// What a clean-up found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Entries of dead owners, now removed.
    pub removed: Vec<Entry>,
    /// Labs that live, and were left alone.
    pub alive: Vec<Entry>,
}

impl Journal {
    /// This user's journal.
    pub fn of_this_user() -> Self {
        if crate::sys::is_root() && Path::new("/run").is_dir() {
            return Journal("/run/longfat".into());
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(dir) if Path::new(&dir).is_dir() => Journal(Path::new(&dir).join("longfat")),
            _ => Journal(std::env::temp_dir().join(format!("longfat-{}", crate::sys::effective_ids().0))),
        }
    }

    /// A journal in a directory of one's own.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Journal(directory.into())
    }

    /// Enters this process as the owner of a lab.
    pub fn enter(&self, scenario: &str) -> Result<Guard, Error> {
        self.write_entry(scenario, None)
    }

    /// Enters this process as the owner of a lab that stays up under `name`.
    ///
    /// # Errors
    /// Also where a lab of this name is up.
    pub fn enter_standing(&self, scenario: &str, name: &str) -> Result<Guard, Error> {
        self.make_directory().attempted(|| format!("make {}", self.0.display()))?;
        // Held until this lab's entry is written: of two that begin at once with one name, one is refused.
        let _lock = self.lock().attempted(|| format!("lock {}", self.0.display()))?;
        if self.clean()?.alive.iter().filter_map(|e| e.standing.as_ref()).any(|s| s.name == name) {
            return Err(Error::AlreadyUp { name: name.into() });
        }
        let guard = self.write_entry(scenario, Some(name))?;
        // The process that had our number may have left one.
        let _ = fs::remove_file(&guard.socket);
        Ok(guard)
    }

    fn write_entry(&self, scenario: &str, name: Option<&str>) -> Result<Guard, Error> {
        self.make_directory().attempted(|| format!("make {}", self.0.display()))?;
        let pid = std::process::id();
        let start_time = start_time(pid).attempted(|| "read this process's start time".into())?;
        let socket = self.0.join(format!("lab-{pid}.sock"));
        let standing = name.map(|name| Standing { name: name.into(), socket: socket.clone() });
        let pid_namespace = pid_namespace();
        let entry = Entry { pid, start_time, pid_namespace, scenario: scenario.into(), standing };
        let path = self.0.join(format!("lab-{pid}.json"));
        let beside = self.0.join(format!(".lab-{pid}.json"));
        let text = serde_json::to_string(&entry).map_err(io::Error::from);
        text.and_then(|text| {
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        })
        .attempted(|| format!("write {}", path.display()))?;
        Ok(Guard { path, socket })
    }

    /// The directory, for its owner alone; another user's is refused.
    fn make_directory(&self) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.0)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.check_owner(),
            other => other,
        }
    }

    /// An error unless nobody but this user can have put entries here: they say which files are removed, and where
    /// commands come from.
    fn check_owner(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.0)?;
        let why = match () {
            () if !found.is_dir() => "it is no directory",
            () if found.uid() != crate::sys::effective_ids().0 => {
                "it belongs to somebody else; set XDG_RUNTIME_DIR to a directory of your own"
            }
            () if found.mode() & 0o022 != 0 => "others may write there; take that away with chmod go-w",
            () => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// A lock of the directory that ends when dropped.
    fn lock(&self) -> io::Result<File> {
        let directory = File::open(&self.0)?;
        directory.lock()?;
        Ok(directory)
    }

    /// Removes what dead owners left and spares what lives.
    pub fn clean(&self) -> Result<Cleaned, Error> {
        let mut cleaned = Cleaned::default();
        match self.check_owner() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(cleaned),
            other => other.attempted(|| format!("use {}", self.0.display()))?,
        }
        let here = pid_namespace();
        let directory = match fs::read_dir(&self.0) {
            Ok(directory) => directory,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(cleaned),
            Err(e) => return Err(e).attempted(|| format!("read {}", self.0.display())),
        };
        for file in directory {
            let path = file.attempted(|| format!("read {}", self.0.display()))?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if let Some(pid) = owner_of_unfinished(name)
                && start_time(pid).is_err()
            {
                // Killed before its entry was whole; somebody else may have removed it already.
                let _ = fs::remove_file(&path);
            }
            if !(name.starts_with("lab-") && name.ends_with(".json")) {
                continue;
            }
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                // Its owner has just finished.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e).attempted(|| format!("read {}", path.display())),
            };
            let entry: Entry = serde_json::from_str(&text)
                .map_err(|e| Error::Journal { path: path.clone(), why: e.to_string() })?;
            // 0: from before this field was written, or from a kernel without PID namespaces.
            if entry.pid_namespace != here && entry.pid_namespace != 0 {
                if answers(&entry) {
                    cleaned.alive.push(entry);
                }
                continue;
            }
            if start_time(entry.pid).is_ok_and(|start| start == entry.start_time) {
                cleaned.alive.push(entry);
                continue;
            }
            // Where it is gone already there is nothing to do.
            let _ = fs::remove_file(path.with_extension("sock"));
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(e).attempted(|| format!("remove {}", path.display()));
                }
                _ => cleaned.removed.push(entry),
            }
        }
        Ok(cleaned)
    }
}

/// Whether a standing lab listens at its socket.
fn answers(entry: &Entry) -> bool {
    entry.standing.as_ref().is_some_and(|standing| UnixStream::connect(&standing.socket).is_ok())
}

/// This process's PID namespace; 0 on kernels without CONFIG_PID_NS, where process ids mean the same everywhere.
fn pid_namespace() -> u64 {
    namespace_inode(Path::new("/proc/self/ns/pid"))
}

fn namespace_inode(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.ino())
}

/// The right to poll at real-time priority and to have a processor for oneself: one lab of a machine has it
/// at a time, whoever runs it. `None` where another lab has it; it ends when dropped or with the process.
pub(crate) fn take_spin_right() -> Option<UnixListener> {
    take_right("longfat-spin")
}

/// An abstract socket's name can be bound once, and leaves nothing behind.
fn take_right(name: &str) -> Option<UnixListener> {
    let address = SocketAddr::from_abstract_name(name).ok()?;
    UnixListener::bind_addr(&address).ok()
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If it fails the next clean-up finds the entry of a dead owner.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.socket);
    }
}

/// The process that an entry's unfinished file belongs to, by its name.
fn owner_of_unfinished(name: &str) -> Option<u32> {
    name.strip_prefix(".lab-")?.strip_suffix(".json")?.parse().ok()
}

/// A process's start time; an error if there is no such process, or only its remains.
fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name is in brackets and may itself contain brackets and blanks.
    let (_, rest) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return Err(io::ErrorKind::NotFound.into());
    }
    fields.get(19).and_then(|f| f.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_dead_are_cleaned_and_the_living_spared() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        assert_eq!(journal.clean().unwrap(), Cleaned::default());
        let guard = journal.enter("mine").unwrap();
        // Our process id with another start time: whoever had the id before is dead.
        let mut dead = journal.clean().unwrap().alive.pop().unwrap();
        dead.start_time += 1;
        let path = directory.path().join("lab-1.json");
        fs::write(&path, serde_json::to_string(&dead).unwrap()).unwrap();
        // No process has this number: the kernel's largest is 4,194,304.
        let unfinished = directory.path().join(".lab-4194305.json");
        fs::write(&unfinished, "{").unwrap();
        let cleaned = journal.clean().unwrap();
        assert_eq!((cleaned.alive.len(), cleaned.removed), (1, vec![dead]));
        assert!(!path.exists() && !unfinished.exists());
        drop(guard);
        assert_eq!(journal.clean().unwrap(), Cleaned::default());
    }

    /// To this process the other's id is nobody's.
    #[test]
    fn entries_of_other_process_namespaces_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let socket = directory.path().join("lab-4194305.sock");
        let entry = Entry {
            pid: 4_194_305,
            start_time: 1,
            pid_namespace: pid_namespace() + 1,
            scenario: "elsewhere".into(),
            standing: Some(Standing { name: "elsewhere".into(), socket: socket.clone() }),
        };
        let path = directory.path().join("lab-4194305.json");
        fs::write(&path, serde_json::to_string(&entry).unwrap()).unwrap();
        assert_eq!(journal.clean().unwrap(), Cleaned::default());
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(journal.clean().unwrap().alive, [entry], "one that listens is up");
        assert!(path.exists() && socket.exists());
    }

    /// Linux without CONFIG_PID_NS has no /proc/self/ns/pid.
    #[test]
    fn on_a_kernel_without_pid_namespaces_process_ids_are_enough() {
        assert_eq!(namespace_inode(Path::new("/proc/self/ns/no-such-kind")), 0);
        assert_ne!(namespace_inode(Path::new("/proc/self/ns/net")), 0);
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let write = |pid: u32, start_time| {
            let entry = Entry { pid, start_time, pid_namespace: 0, scenario: "s".into(), standing: None };
            let path = directory.path().join(format!("lab-{pid}.json"));
            fs::write(path, serde_json::to_string(&entry).unwrap()).unwrap();
            entry
        };
        let pid = std::process::id();
        let alive = write(pid, start_time(pid).unwrap());
        let dead = write(4_194_305, 1);
        assert_eq!(journal.clean().unwrap(), Cleaned { removed: vec![dead], alive: vec![alive] });
    }

    #[test]
    fn a_directory_that_others_may_write_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let precious = directory.path().join("precious");
        fs::write(&precious, "").unwrap();
        let standing = Some(Standing { name: "trap".into(), socket: precious.clone() });
        let planted = Entry { pid: 1, start_time: 1, pid_namespace: 0, scenario: "trap".into(), standing };
        let path = directory.path().join("lab-1.json");
        fs::write(&path, serde_json::to_string(&planted).unwrap()).unwrap();
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(journal.clean().is_err() && journal.enter_standing("x", "x").is_err());
        assert!(path.exists());
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(journal.clean().unwrap().removed, [planted]);
        assert!(precious.exists(), "only the journal's own sockets are removed");
    }

    #[test]
    fn of_two_labs_with_one_name_that_begin_at_once_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let lock = journal.lock().unwrap();
        let guard = std::thread::scope(|scope| {
            let second = scope.spawn(|| journal.enter_standing("x", "x"));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!second.is_finished(), "it waits for the lock");
            drop(lock);
            second.join().unwrap().unwrap()
        });
        assert!(matches!(journal.enter_standing("x", "x"), Err(Error::AlreadyUp { .. })));
        drop(guard);
    }

    #[test]
    fn a_killed_owner_is_dead_before_its_parent_buries_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(start_time(child.id()).is_ok());
        child.kill().unwrap();
        let dead = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            start_time(child.id()).is_err()
        });
        assert!(dead);
        child.wait().unwrap();
    }

    #[test]
    fn what_is_no_entry_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("lab-7.json"), "{}").unwrap();
        let error = Journal::at(directory.path()).clean().unwrap_err();
        assert!(error.to_string().contains("lab-7.json"), "{error}");
    }

    #[test]
    fn one_lab_at_a_time_may_spin() {
        let name = format!("longfat-test-{}", std::process::id());
        let first = take_right(&name).unwrap();
        assert!(take_right(&name).is_none());
        drop(first);
        assert!(take_right(&name).is_some());
    }
}
