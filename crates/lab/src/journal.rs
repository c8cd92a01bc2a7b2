//! The journal: which labs run on this machine.
//!
//! A lab's namespaces, devices and sockets are held by its process alone and end with it, however it ends.
//! Only its entry here can outlast it; [`Journal::clean`] removes it. The owner holds a lock (flock(2)) on
//! its entry as long as it runs, so the owner of an unlocked entry is dead. This also holds for owners in
//! other PID namespaces (on a host of a standing lab, in a container), whose process ids are not valid here.
//! The file is named `lab-NAMESPACE-PID.json`, because processes of different namespaces can have the same
//! id.
//!
//! Earlier versions wrote `lab-PID.json` without a lock. Such an entry is judged by the owner's process id
//! and start time (ids are reused, the pair is not); in other PID namespaces only by its control socket, and
//! it is not removed there.
//!
//! A run changes nothing on the machine outside its own namespaces; a change that could outlast it would have
//! to be written to the entry first.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
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
pub struct JournalEntry {
    /// The owner's process id.
    pub pid: u32,
    /// The owner's start time, in clock ticks since boot (proc(5), field 22 of stat).
    pub start_time: u64,
    /// The PID namespace in which both are valid (inode of /proc/self/ns/pid); 0 on kernels without PID
    /// namespaces.
    #[serde(default)]
    pub pid_namespace: u64,
    /// Name of its scenario.
    pub scenario: String,
    /// Name and control socket, if it is a standing lab (`longfat lab up`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingLab>,
}

/// Name and control socket of a standing lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingLab {
    /// Its name, unique among the standing labs of a user.
    pub name: String,
    /// Its control socket.
    pub socket: PathBuf,
}

/// The directory of entries: /run/longfat for root, a private one for other users.
#[derive(Debug, Clone)]
pub struct Journal(PathBuf);

/// Removes its entry when dropped.
#[derive(Debug)]
pub struct JournalGuard {
    path: PathBuf,
    socket: PathBuf,
    /// The entry's file, locked until it is closed.
    _entry: File,
}

impl JournalGuard {
    /// The path for the control socket of a standing lab.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Result of [`Journal::clean`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CleanupReport {
    /// Removed entries, whose owners no longer run.
    pub removed: Vec<JournalEntry>,
    /// Running labs, whose entries were not touched.
    pub alive: Vec<JournalEntry>,
}

impl Journal {
    /// This user's journal.
    pub fn of_this_user() -> Self {
        if os::is_root() && Path::new("/run").is_dir() {
            return Journal("/run/longfat".into());
        }
        Journal::below(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), os::effective_ids().0)
    }

    /// The journal of `user` in this directory for runtime files, or else in the directory for temporary
    /// files. After `su` the variable can name the directory of another user.
    fn below(runtime: Option<PathBuf>, user: u32) -> Self {
        let is_usable =
            |found: fs::Metadata| found.is_dir() && (found.uid() == user || found.mode() & 0o002 != 0);
        match runtime.filter(|directory| fs::metadata(directory).is_ok_and(is_usable)) {
            Some(directory) => Journal(directory.join("longfat")),
            None => Journal(std::env::temp_dir().join(format!("longfat-{user}"))),
        }
    }

    /// A journal in the given directory.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Journal(directory.into())
    }

    /// The journal's directory, which only this user can write to. It is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be created, or others may write to it.
    pub fn private_directory(&self) -> Result<PathBuf, Error> {
        self.make_directory().attempted(|| format!("create {}", self.0.display()))?;
        Ok(self.0.clone())
    }

    /// Registers this process as the owner of a lab.
    ///
    /// # Errors
    /// If the entry cannot be written, or others may write to the journal's directory.
    pub fn enter(&self, scenario: &str) -> Result<JournalGuard, Error> {
        let _lock = self.lock_for_writing()?;
        self.write_entry(scenario, None)
    }

    /// Registers this process as the owner of the standing lab `name`.
    ///
    /// # Errors
    /// See [`Journal::enter`]; and [`Error::AlreadyUp`] if a lab of this name is up.
    pub fn enter_standing(&self, scenario: &str, name: &str) -> Result<JournalGuard, Error> {
        // Held until this lab's entry is written: if two start at once with the same name, one is refused.
        let _lock = self.lock_for_writing()?;
        if self.remove_dead()?.alive.iter().filter_map(|e| e.standing.as_ref()).any(|s| s.name == name) {
            return Err(Error::AlreadyUp { name: name.into() });
        }
        let guard = self.write_entry(scenario, Some(name))?;
        // An earlier process with the same id may have left a socket.
        let _ = fs::remove_file(&guard.socket);
        Ok(guard)
    }

    /// Creates the directory if it is missing, and locks it.
    fn lock_for_writing(&self) -> Result<File, Error> {
        self.make_directory().attempted(|| format!("create {}", self.0.display()))?;
        self.lock().attempted(|| format!("lock {}", self.0.display()))
    }

    /// Writes and locks this process's entry. The caller has locked the directory.
    fn write_entry(&self, scenario: &str, name: Option<&str>) -> Result<JournalGuard, Error> {
        let pid = std::process::id();
        let start_time = start_time(pid).attempted(|| "read this process's start time".into())?;
        let pid_namespace = pid_namespace();
        let file = |extension: &str| self.0.join(format!("lab-{pid_namespace}-{pid}.{extension}"));
        let (path, socket) = (file("json"), file("sock"));
        let standing = name.map(|name| StandingLab { name: name.into(), socket: socket.clone() });
        let entry = JournalEntry { pid, start_time, pid_namespace, scenario: scenario.into(), standing };
        let temporary = self.0.join(format!(".lab-{pid_namespace}-{pid}.json"));
        let text = serde_json::to_string(&entry).map_err(io::Error::from);
        let entry = text
            .and_then(|text| {
                let mut file = File::create(&temporary)?;
                file.lock()?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                fs::rename(&temporary, &path)?;
                Ok(file)
            })
            .attempted(|| format!("write {}", path.display()))?;
        Ok(JournalGuard { path, socket, _entry: entry })
    }

    /// Creates the directory with access for its owner only; an existing one of another user is refused.
    fn make_directory(&self) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.0)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.check_owner(),
            other => other,
        }
    }

    /// Fails unless only this user can write entries here: entries decide which files are removed, and to
    /// which socket commands are sent.
    fn check_owner(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.0)?;
        let why = match () {
            () if !found.is_dir() => "not a directory",
            () if found.uid() != os::effective_ids().0 => {
                "it belongs to another user; set XDG_RUNTIME_DIR to a directory that you own"
            }
            () if found.mode() & 0o022 != 0 => {
                "other users can write to it; remove that permission with chmod go-w"
            }
            () => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Locks the directory until the returned file is dropped. Entries are written and removed only under
    /// this lock.
    fn lock(&self) -> io::Result<File> {
        let directory = File::open(&self.0)?;
        directory.lock()?;
        Ok(directory)
    }

    /// Removes the entries and sockets of owners that no longer run.
    ///
    /// # Errors
    /// [`Error::Journal`] for a file that is not an entry; [`Error::System`] if the directory cannot be used
    /// or an entry cannot be read or removed.
    pub fn clean(&self) -> Result<CleanupReport, Error> {
        let locked = self.check_owner().attempted(|| format!("use {}", self.0.display()));
        match locked.and_then(|()| self.lock().attempted(|| format!("lock {}", self.0.display()))) {
            Ok(_lock) => self.remove_dead(),
            Err(e) if e.os_error() == Some(libc::ENOENT) => Ok(CleanupReport::default()),
            Err(e) => Err(e),
        }
    }

    /// Removes what dead owners left behind. The caller has locked the directory.
    fn remove_dead(&self) -> Result<CleanupReport, Error> {
        let mut cleaned = CleanupReport::default();
        let directory = fs::read_dir(&self.0).attempted(|| format!("read {}", self.0.display()))?;
        for file in directory {
            let path = file.attempted(|| format!("read {}", self.0.display()))?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if is_unfinished_of_dead_owner(name) {
                // An earlier version may have removed it already.
                let _ = fs::remove_file(&path);
            }
            let Some(owner) = name.strip_prefix("lab-").and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            let (file, text) = match open_entry(&path) {
                Ok(opened) => opened,
                // Its owner has just ended.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e).attempted(|| format!("read {}", path.display())),
            };
            let entry: JournalEntry = serde_json::from_str(&text)
                .map_err(|e| Error::Journal { path: path.clone(), why: e.to_string() })?;
            let state = match owner.contains('-') {
                true => state_by_lock(&file).attempted(|| format!("lock {}", path.display()))?,
                false => state_by_process(&entry),
            };
            match state {
                OwnerState::Running => {
                    cleaned.alive.push(entry);
                    continue;
                }
                OwnerState::Unknown => continue,
                OwnerState::Dead => {}
            }
            // Not every entry has a socket.
            let _ = fs::remove_file(path.with_extension("sock"));
            match fs::remove_file(&path) {
                Ok(()) => cleaned.removed.push(entry),
                // Its owner has just ended.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).attempted(|| format!("remove {}", path.display())),
            }
        }
        Ok(cleaned)
    }
}

/// Whether the owner of an entry runs.
enum OwnerState {
    Running,
    Dead,
    /// The owner is in another PID namespace, and its entry is not locked.
    Unknown,
}

fn open_entry(path: &Path) -> io::Result<(File, String)> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((file, text))
}

/// The owner holds an exclusive lock until it ends.
fn state_by_lock(entry: &File) -> io::Result<OwnerState> {
    match entry.try_lock_shared() {
        Ok(()) => Ok(OwnerState::Dead),
        Err(TryLockError::WouldBlock) => Ok(OwnerState::Running),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// The state of the owner of an earlier version's entry.
fn state_by_process(entry: &JournalEntry) -> OwnerState {
    // 0: written by a version without this field, or on a kernel without PID namespaces.
    let is_elsewhere = entry.pid_namespace != 0 && entry.pid_namespace != pid_namespace();
    match () {
        () if is_elsewhere && is_listening(entry) => OwnerState::Running,
        () if is_elsewhere => OwnerState::Unknown,
        () if start_time(entry.pid).is_ok_and(|start| start == entry.start_time) => OwnerState::Running,
        () => OwnerState::Dead,
    }
}

/// Whether a standing lab listens at its socket.
fn is_listening(entry: &JournalEntry) -> bool {
    entry.standing.as_ref().is_some_and(|standing| UnixStream::connect(&standing.socket).is_ok())
}

/// This process's PID namespace; 0 on kernels without CONFIG_PID_NS, where process ids are valid everywhere.
fn pid_namespace() -> u64 {
    namespace_inode(Path::new("/proc/self/ns/pid"))
}

fn namespace_inode(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.ino())
}

/// Acquires the machine-wide busy-poll lock: its holder may poll at real-time priority on a dedicated
/// processor. One lab of a machine holds it at a time. `None` if a lab of any user holds it. Drop, or the end
/// of the process, releases it.
pub(crate) fn acquire_busy_poll_lock() -> Option<UnixListener> {
    acquire_lock("longfat-spin")
}

/// Binds an abstract socket's name, which only one process can do, and which leaves no file behind.
fn acquire_lock(name: &str) -> Option<UnixListener> {
    let address = SocketAddr::from_abstract_name(name).ok()?;
    UnixListener::bind_addr(&address).ok()
}

impl Drop for JournalGuard {
    fn drop(&mut self) {
        // If it fails, the next clean-up removes the entry.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Whether this is the name of an entry that was not completed because its owner was killed. The directory is
/// locked, so no process completes it now; only earlier versions (`.lab-PID.json`) wrote without the lock.
fn is_unfinished_of_dead_owner(name: &str) -> bool {
    let owner = name.strip_prefix(".lab-").and_then(|name| name.strip_suffix(".json"));
    owner.is_some_and(|owner| match owner.parse() {
        Ok(pid) => start_time(pid).is_err(),
        Err(_) => owner.contains('-'),
    })
}

/// A process's start time; an error if there is no such process, or if it is a zombie.
fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name is in parentheses and may itself contain parentheses and blanks.
    let (_, after_name) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return Err(io::ErrorKind::NotFound.into());
    }
    fields.get(19).and_then(|f| f.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::PermissionsExt,
        process::{Command, Stdio},
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_runtime_directory_of_another_user_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let below = |user: u32| Journal::below(Some(directory.path().into()), user).0;
        let own = os::effective_ids().0;
        assert_eq!(below(own), directory.path().join("longfat"));
        assert_eq!(below(own + 1), std::env::temp_dir().join(format!("longfat-{}", own + 1)));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(below(own + 1), directory.path().join("longfat"), "others may write to it");
        assert_eq!(Journal::below(None, own).0, std::env::temp_dir().join(format!("longfat-{own}")));
    }

    #[test]
    fn only_entries_of_dead_owners_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        assert_eq!(journal.clean().unwrap(), CleanupReport::default());
        assert_eq!(Journal::at(directory.path().join("none")).clean().unwrap(), CleanupReport::default());
        let guard = journal.enter("mine").unwrap();
        // Our process id with another start time, as an earlier version wrote it: the process that had the id
        // before no longer runs.
        let mut dead = journal.clean().unwrap().alive.pop().unwrap();
        dead.start_time += 1;
        let path = directory.path().join("lab-1.json");
        fs::write(&path, serde_json::to_string(&dead).unwrap()).unwrap();
        // No process has this number: the kernel's largest is 4,194,304.
        let unfinished =
            [".lab-4194305.json", ".lab-4026531836-1.json"].map(|name| directory.path().join(name));
        unfinished.iter().for_each(|path| fs::write(path, "{").unwrap());
        let cleaned = journal.clean().unwrap();
        assert_eq!((cleaned.alive.len(), cleaned.removed), (1, vec![dead]));
        assert!(!path.exists() && unfinished.iter().all(|path| !path.exists()));
        drop(guard);
        assert_eq!(journal.clean().unwrap(), CleanupReport::default());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    /// In this process's namespace no process has that id.
    fn entry_of_another_namespace(socket: &Path) -> JournalEntry {
        JournalEntry {
            pid: 4_194_305,
            start_time: 1,
            pid_namespace: pid_namespace() + 1,
            scenario: "elsewhere".into(),
            standing: Some(StandingLab { name: "elsewhere".into(), socket: socket.into() }),
        }
    }

    #[test]
    fn the_lock_shows_whether_an_owner_in_another_pid_namespace_runs() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let path = directory.path().join(format!("lab-{}-4194305.json", pid_namespace() + 1));
        let socket = path.with_extension("sock");
        let entry = entry_of_another_namespace(&socket);
        fs::write(&path, serde_json::to_string(&entry).unwrap()).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let owner = File::open(&path).unwrap();
        owner.lock().unwrap();
        assert_eq!(
            journal.clean().unwrap(),
            CleanupReport { alive: vec![entry.clone()], ..Default::default() }
        );
        assert!(matches!(journal.enter_standing("x", "elsewhere"), Err(Error::AlreadyUp { .. })));
        drop((owner, listener));
        assert_eq!(journal.clean().unwrap(), CleanupReport { removed: vec![entry], ..Default::default() });
        assert!(!path.exists() && !socket.exists());
    }

    #[test]
    fn entries_of_earlier_versions_in_other_pid_namespaces_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let socket = directory.path().join("lab-4194305.sock");
        let entry = entry_of_another_namespace(&socket);
        let path = directory.path().join("lab-4194305.json");
        fs::write(&path, serde_json::to_string(&entry).unwrap()).unwrap();
        assert_eq!(journal.clean().unwrap(), CleanupReport::default());
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(journal.clean().unwrap().alive, [entry], "a lab that listens is up");
        assert!(path.exists() && socket.exists());
    }

    /// Environment variable with the journal's directory, for [`in_a_pid_namespace`].
    const INNER: &str = "LONGFAT_TEST_JOURNAL";

    /// Both owners are process 1 of their namespace, as in two containers that share /run/longfat.
    #[test]
    fn owners_with_the_same_process_id_in_two_namespaces_have_separate_entries() {
        let unshare = ["--pid", "--fork", "--kill-child"];
        if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
            testing::skip(testing::Missing::Privilege, "only root may create a PID namespace");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let mut owners = [(); 2].map(|()| {
            let inner = ["--exact", "journal::tests::in_a_pid_namespace", "--ignored"];
            let mut command = Command::new("unshare");
            command.args(unshare).arg(std::env::current_exe().unwrap()).args(inner);
            command.env(INNER, directory.path()).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        });
        let wait_for = |is_reached: &dyn Fn(&CleanupReport) -> bool| {
            (0..3000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                Some(journal.clean().unwrap()).filter(is_reached)
            })
        };
        let up = wait_for(&|report| report.alive.len() == 2);
        owners[0].kill().unwrap();
        let after = wait_for(&|report| !report.removed.is_empty());
        owners.iter_mut().for_each(|owner| {
            let _ = owner.kill();
            owner.wait().unwrap();
        });
        let up = up.expect("both have an entry");
        assert_eq!((up.alive[0].pid, up.alive[1].pid), (1, 1));
        assert_ne!(up.alive[0].pid_namespace, up.alive[1].pid_namespace);
        let after = after.expect("the entry of the killed owner is removed");
        assert_eq!((after.removed.len(), after.alive.len()), (1, 1), "{after:?}");
    }

    /// Not a test by itself: the test above runs it in a PID namespace, until it is killed.
    #[test]
    #[ignore = "a part of another test"]
    fn in_a_pid_namespace() {
        let Some(directory) = std::env::var_os(INNER) else { return };
        let _guard = Journal::at(directory).enter("in a namespace").unwrap();
        let _ = io::stdin().read(&mut [0]);
    }

    /// Linux without CONFIG_PID_NS has no /proc/self/ns/pid.
    #[test]
    fn on_a_kernel_without_pid_namespaces_process_ids_identify_owners() {
        assert_eq!(namespace_inode(Path::new("/proc/self/ns/no-such-kind")), 0);
        assert_ne!(namespace_inode(Path::new("/proc/self/ns/net")), 0);
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let write = |pid: u32, start_time| {
            let entry =
                JournalEntry { pid, start_time, pid_namespace: 0, scenario: "s".into(), standing: None };
            let path = directory.path().join(format!("lab-{pid}.json"));
            fs::write(path, serde_json::to_string(&entry).unwrap()).unwrap();
            entry
        };
        let pid = std::process::id();
        let alive = write(pid, start_time(pid).unwrap());
        let dead = write(4_194_305, 1);
        assert_eq!(journal.clean().unwrap(), CleanupReport { removed: vec![dead], alive: vec![alive] });
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path());
        let precious = directory.path().join("precious");
        fs::write(&precious, "").unwrap();
        let standing = Some(StandingLab { name: "trap".into(), socket: precious.clone() });
        let planted =
            JournalEntry { pid: 1, start_time: 1, pid_namespace: 0, scenario: "trap".into(), standing };
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
    fn concurrent_starts_with_the_same_name_refuse_one_lab() {
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
    fn a_killed_owner_is_dead_before_its_parent_reaps_it() {
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
    fn an_invalid_entry_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("lab-7.json"), "{}").unwrap();
        let error = Journal::at(directory.path()).clean().unwrap_err();
        assert!(error.to_string().contains("lab-7.json"), "{error}");
    }

    #[test]
    fn one_lab_at_a_time_holds_the_busy_poll_lock() {
        let name = format!("longfat-test-{}", std::process::id());
        let first = acquire_lock(&name).unwrap();
        assert!(acquire_lock(&name).is_none());
        drop(first);
        assert!(acquire_lock(&name).is_some());
    }
}
