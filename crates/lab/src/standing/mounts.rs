//! What the hosts of a standing lab see of the file system: the machine's, with a private /run and /etc/hosts.
//!
//! Nothing of it exists outside the lab's mount namespace, and it goes with it:
//! - /run: the machine's entries, and beside them
//!   - /run/netns/HOST, so that `ip netns exec HOST` works inside the lab,
//!   - /run/lab/hosts, mounted over /etc/hosts: every host's name,
//!   - /run/lab/bin/tc, this program: emulated ports understand tc (see `tc.rs`),
//!   - /run/lab/control, a link to the lab's control socket.
//! - the real tc, if there is one, is covered by this program and lies in /run/lab/real.

use std::{
    ffi::OsString,
    fs, io,
    os::{fd::AsRawFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use super::isolate::{bind, mount_tmpfs, unshare_mounts};
use crate::{Error, check::standing_remedy, error::Attempted, namespace::Namespace};

/// The lab's own directory, inside its mount namespace.
pub(crate) const LAB_DIRECTORY: &str = "/run/lab";
/// Where the real tc lies inside the lab.
pub const REAL_TC: &str = "/run/lab/real/tc";
/// The lab's control socket, seen from inside.
pub const CONTROL: &str = "/run/lab/control";
/// Programs of ours that stand before the machine's on the path.
pub const PROGRAMS: &str = "/run/lab/bin";

/// Gives this process (of one thread) its own view of the file system and prepares it.
/// `hosts` is the text for /etc/hosts, `control` the control socket's path.
pub(crate) fn prepare(hosts: &str, control: &Path) -> Result<(), Error> {
    unshare_mounts().map_err(no_standing("make a mount namespace"))?;
    private_run().map_err(no_standing("make a private /run"))?;
    let lab = Path::new(LAB_DIRECTORY);
    let made = || -> io::Result<()> {
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
    made().attempted(|| format!("make {LAB_DIRECTORY}"))?;
    cover_tc().attempted(|| "put longfat in front of tc".into())
}

/// An error of what only labs that stay up need.
pub(crate) fn no_standing(attempted: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| {
        let remedy = standing_remedy(source.raw_os_error().unwrap_or(0));
        Error::NoStanding { attempted, source, remedy }
    }
}

/// Names a host's network namespace for `ip netns`.
pub(crate) fn name_namespace(host: &str, namespace: &Namespace) -> Result<(), Error> {
    let at = Path::new("/run/netns").join(host);
    let from = PathBuf::from(format!("/proc/self/fd/{}", namespace.raw_fd()));
    fs::write(&at, "").and_then(|()| bind(&from, &at)).attempted(|| format!("make {}", at.display()))
}

/// A file system of memory over /run, with everything that was there.
fn private_run() -> io::Result<()> {
    let run = Path::new("/run");
    let old = fs::File::open(run)?;
    let names: Vec<OsString> =
        fs::read_dir(run)?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
    mount_tmpfs(run)?;
    let old = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd()));
    for name in names.iter().filter(|n| *n != "netns" && *n != "lab") {
        let (from, to) = (old.join(name), run.join(name));
        // What vanishes meanwhile, or may not be bound, is missing inside the lab and nowhere else.
        let _ = adopt(&from, &to);
    }
    Ok(())
}

fn adopt(from: &Path, to: &Path) -> io::Result<()> {
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

/// Has this program answer as tc, however it is called: by name, by path, or through sudo.
fn cover_tc() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    symlink(&program, Path::new(PROGRAMS).join("tc"))?;
    let directories = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
    let found = directories.iter().find_map(|d| fs::canonicalize(Path::new(d).join("tc")).ok());
    // Where tc is one name of a program of many (BusyBox) the others must stay.
    let is_tc_alone = |tc: &PathBuf| *tc != program && tc.file_name().is_some_and(|name| name == "tc");
    let Some(tc) = found.filter(is_tc_alone) else { return Ok(()) };
    fs::write(REAL_TC, "")?;
    bind(&tc, Path::new(REAL_TC))?;
    bind(&program, &tc)
}
