//! Registrations that outlive the program, until `longfat cc unload`: links pinned in a BPF file system.
//!
//! If the machine has a writable BPF file system (/sys/fs/bpf), the pins are in its directory `longfat`.
//! Otherwise one is mounted at /run/longfat/bpf, and unmounted when the last pin is removed. Pins and
//! registrations do not survive a reboot.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{Error, Registration, error::Attempted, kernel_controls, names, sys};

/// Mount point of the machine's BPF file system, if there is one.
const SYSTEM_BPF_FS: &str = "/sys/fs/bpf";
/// Mount point of longfat's BPF file system, in the directory that root's labs use as well.
const LONGFAT_BPF_FS: &str = "/run/longfat/bpf";
/// The folder of pins in either file system. (The kernel creates files in a new file system.)
const FOLDER: &str = "longfat";
/// The kernel needs less time to end a registration, unless another process holds the link.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// A pinned registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// Its name in the kernel, and of its folder.
    pub name: String,
    /// All names, if the object file defines several congestion controls.
    pub names: Vec<String>,
    /// The folder.
    pub folder: PathBuf,
}

/// Makes a registration outlive this process.
///
/// # Errors
/// If the BPF file system cannot be mounted or written, or the link cannot be pinned.
pub fn pin(mut registration: Registration) -> Result<Pinned, Error> {
    let _alone = lock()?;
    let root = make_root()?;
    let name = registration.name().to_string();
    let names = registration.names().to_vec();
    let folder = root.join(&name);
    make_directory(&folder).attempted(|| format!("make {}", folder.display()))?;
    for (name, link) in registration.links_mut() {
        let path = folder.join(name);
        if let Err(error) = link.pin(&path).attempted(|| format!("pin {}", path.display())) {
            // All or nothing. If the removal fails, the next `cc list` shows the remaining pins.
            let _ = remove(&folder);
            let _ = tidy();
            return Err(error);
        }
    }
    Ok(Pinned { name, names, folder })
}

/// All pinned registrations, by name.
///
/// # Errors
/// If the folder of pins cannot be read.
pub fn pinned() -> Result<Vec<Pinned>, Error> {
    let mut found = Vec::new();
    for root in roots() {
        for folder in entries(&root)? {
            let of = entries(&folder)?;
            let names = of.iter().map(|p| file_name(p)).collect();
            found.push(Pinned { name: file_name(&folder), names, folder });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Removes a pinned registration. Sockets that use it keep it until they are closed.
///
/// # Errors
/// [`Error::NotLoaded`] if there is no such pin; otherwise if it cannot be removed.
pub fn unpin(name: &str) -> Result<Pinned, Error> {
    names::check(name)?;
    let _alone = lock()?;
    let found = pinned()?.into_iter().find(|p| p.name == name || p.names.iter().any(|n| n == name));
    let found = found.ok_or_else(|| Error::NotLoaded { name: name.into() })?;
    remove(&found.folder).attempted(|| format!("remove {}", found.folder.display()))?;
    tidy()?;
    wait_until_unregistered(&found.names)?;
    Ok(found)
}

/// Waits until the names are free: a worker of the kernel ends the registration of a link some time after its
/// last pin is removed (kernel/bpf/syscall.c, bpf_link_put).
fn wait_until_unregistered(names: &[String]) -> Result<(), Error> {
    let deadline = Instant::now() + UNREGISTER_TIMEOUT;
    while kernel_controls()?.available.iter().any(|name| names.contains(name)) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The existing folders of pins, in the machine's file system and in longfat's.
fn roots() -> Vec<PathBuf> {
    let mounted = [SYSTEM_BPF_FS, LONGFAT_BPF_FS].into_iter().filter(|at| sys::is_bpf_fs(Path::new(at)));
    mounted.map(|at| Path::new(at).join(FOLDER)).filter(|root| root.is_dir()).collect()
}

/// The folder for new pins.
fn make_root() -> Result<PathBuf, Error> {
    let machines = Path::new(SYSTEM_BPF_FS);
    if sys::is_bpf_fs(machines) {
        let root = machines.join(FOLDER);
        match make_directory(&root) {
            // Some containers have a read-only one: longfat mounts another.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            made => return made.attempted(|| format!("make {}", root.display())).map(|()| root),
        }
    }
    let ours = Path::new(LONGFAT_BPF_FS);
    if !sys::is_bpf_fs(ours) {
        make_directory(ours).attempted(|| format!("make {LONGFAT_BPF_FS}"))?;
        sys::mount_bpf_fs(ours).attempted(|| format!("mount a BPF file system at {LONGFAT_BPF_FS}"))?;
    }
    let root = ours.join(FOLDER);
    make_directory(&root).attempted(|| format!("make {}", root.display()))?;
    Ok(root)
}

/// Removes empty folders of pins, and unmounts longfat's BPF file system if it is unused.
fn tidy() -> Result<(), Error> {
    for root in roots() {
        if entries(&root)?.is_empty() {
            fs::remove_dir(&root).attempted(|| format!("remove {}", root.display()))?;
        }
    }
    let ours = Path::new(LONGFAT_BPF_FS);
    if sys::is_bpf_fs(ours) && !ours.join(FOLDER).exists() {
        sys::unmount(ours).attempted(|| format!("unmount {LONGFAT_BPF_FS}"))?;
        fs::remove_dir(ours).attempted(|| format!("remove {LONGFAT_BPF_FS}"))?;
    }
    Ok(())
}

fn remove(folder: &Path) -> io::Result<()> {
    for pin in fs::read_dir(folder)? {
        fs::remove_file(pin?.path())?;
    }
    fs::remove_dir(folder)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    let mut found = read().attempted(|| format!("read {}", directory.display()))?;
    found.sort();
    Ok(found)
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Serializes programs that pin or remove at the same time.
fn lock() -> Result<File, Error> {
    let directory = Path::new(LONGFAT_BPF_FS).parent().unwrap_or(Path::new("/run"));
    let locked = || -> io::Result<File> {
        make_directory(directory)?;
        let directory = File::open(directory)?;
        directory.lock()?;
        Ok(directory)
    };
    locked().attempted(|| format!("lock {}", directory.display()))
}
