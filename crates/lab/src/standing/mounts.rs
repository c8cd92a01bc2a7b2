//! The file system that hosts of a standing lab see: the machine's, with a private /run and /etc/hosts.
//!
//! All mounts are inside the lab's mount namespace and end with it:
//! - /run: the machine's entries, and in addition
//!   - /run/netns/HOST, so that `ip netns exec HOST` works inside the lab,
//!   - /run/lab/hosts, mounted over /etc/hosts: the names of all hosts,
//!   - /run/lab/bin/tc, this program, which handles tc commands for emulated ports (see `tc.rs`),
//!   - /run/lab/control, a symbolic link to the lab's control socket.
//! - tc: this program is mounted over the real tc, if there is one, which is then at /run/lab/real/tc.

use std::{
    ffi::OsString,
    fs, io,
    os::{fd::AsRawFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use super::isolate::{bind, mount_tmpfs, unshare_mounts};
use crate::{Error, error::Attempted, namespace::Namespace, namespace_limits::standing_remedy};

/// The lab's directory, inside its mount namespace.
pub(crate) const LAB_DIRECTORY: &str = "/run/lab";
/// Path of the real tc inside the lab.
pub const REAL_TC: &str = "/run/lab/real/tc";
/// Path of the lab's control socket inside the lab.
pub const CONTROL: &str = "/run/lab/control";
/// Directory of programs that replace the machine's; it comes first in PATH.
pub const PROGRAMS: &str = "/run/lab/bin";

/// Moves this single-threaded process into a new mount namespace and prepares its mounts. `hosts` is the text
/// for /etc/hosts, `control` the control socket's path.
pub(crate) fn prepare(hosts: &str, control: &Path) -> Result<(), Error> {
    unshare_mounts().map_err(standing_lab_error("create a mount namespace"))?;
    mount_private_run().map_err(standing_lab_error("create a private /run"))?;
    let lab = Path::new(LAB_DIRECTORY);
    let fill = || -> io::Result<()> {
        for directory in [Path::new("/run/netns"), &lab.join("bin"), &lab.join("real")] {
            fs::create_dir_all(directory)?;
        }
        fs::write(lab.join("hosts"), hosts)?;
        symlink(control, CONTROL)?;
        if Path::new("/etc/hosts").exists() {
            bind(&lab.join("hosts"), Path::new("/etc/hosts"))?;
        }
        Ok(())
    };
    fill().attempted(|| format!("create {LAB_DIRECTORY}"))?;
    replace_tc().attempted(|| "mount longfat over tc".into())
}

/// The error for an operation that only standing labs need.
pub(crate) fn standing_lab_error(attempted: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| {
        let remedy = standing_remedy(source.raw_os_error().unwrap_or(0));
        Error::NoStanding { attempted, source, remedy }
    }
}

/// Names a host's network namespace for `ip netns`.
pub(crate) fn name_namespace(host: &str, namespace: &Namespace) -> Result<(), Error> {
    let at = Path::new("/run/netns").join(host);
    let from = PathBuf::from(format!("/proc/self/fd/{}", namespace.raw_fd()));
    fs::write(&at, "").and_then(|()| bind(&from, &at)).attempted(|| format!("create {}", at.display()))
}

/// Mounts a tmpfs over /run, with all previous entries bound into it.
fn mount_private_run() -> io::Result<()> {
    let run = Path::new("/run");
    let old = fs::File::open(run)?;
    let names: Vec<OsString> =
        fs::read_dir(run)?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
    mount_tmpfs(run)?;
    let old = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd()));
    for name in names.iter().filter(|n| *n != "netns" && *n != "lab") {
        let (from, to) = (old.join(name), run.join(name));
        // An entry that was removed meanwhile, or that cannot be bound, is absent inside the lab.
        let _ = bind_entry(&from, &to);
    }
    Ok(())
}

fn bind_entry(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        fs::write(to, "")?;
    }
    bind(from, to)
}

/// Replaces tc with this program, whether tc is called by name, by path, or through sudo.
fn replace_tc() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    symlink(&program, Path::new(PROGRAMS).join("tc"))?;
    let directories = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
    let found = directories.iter().find_map(|d| fs::canonicalize(Path::new(d).join("tc")).ok());
    // If tc is a link to a multi-call program (BusyBox), mounting over that would also replace its other
    // commands.
    let is_separate_program =
        |tc: &PathBuf| *tc != program && tc.file_name().is_some_and(|name| name == "tc");
    let Some(tc) = found.filter(is_separate_program) else { return Ok(()) };
    fs::write(REAL_TC, "")?;
    bind(&tc, Path::new(REAL_TC))?;
    bind(&program, &tc)
}
