//! Runs a program on a host of a standing lab, in the terminal that it was started from.

use std::{
    env,
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Command, ExitStatus},
};

use super::{
    control::ask_to_enter,
    isolate::{Kind, dress, enter, leave_signals_to},
    mounts::PROGRAMS,
};
use crate::{Error, error::Attempted};

/// The network namespace of `host` of the lab behind `socket`. Of a lab without root this process (which must have one thread
/// only) enters the lab's user namespace, without which it may not be entered. The inner error says why the lab refused.
///
/// # Errors
/// Where the lab does not answer, or its user namespace may not be entered.
pub fn network_of(socket: &Path, host: &str) -> Result<Result<OwnedFd, String>, Error> {
    let mut fds = match ask_to_enter(socket, host)? {
        Ok(fds) => fds,
        Err(why) => return Ok(Err(why)),
    };
    let network = fds.pop().ok_or_else(|| "it did not say where the host is".to_string());
    // User, mounts and processes are left of a lab without root.
    if let [user, _, _] = fds.as_slice() {
        enter(user.as_fd(), Kind::User).attempted(|| format!("enter the user namespace of {host}"))?;
    }
    Ok(network)
}

/// Runs `program` (the name first, then its arguments) on `host` of the lab behind `socket` and waits for it. The
/// process must have one thread only; it stays in the host's namespaces. The inner error says why the lab refused.
///
/// # Errors
/// Where the lab does not answer, the namespaces may not be entered, or the program does not start.
pub fn execute(socket: &Path, host: &str, program: &[OsString]) -> Result<Result<ExitStatus, String>, Error> {
    let fds = match ask_to_enter(socket, host)? {
        Ok(fds) => fds,
        Err(why) => return Ok(Err(why)),
    };
    let directory = env::current_dir();
    // The user namespace is only there of a lab without root, and must be entered first.
    let kinds = [Kind::User, Kind::Mount, Kind::Pid, Kind::Net];
    for (fd, kind) in fds.iter().zip(&kinds[kinds.len().saturating_sub(fds.len())..]) {
        enter(fd.as_fd(), *kind).attempted(|| format!("enter the {kind:?} namespace of {host}"))?;
    }
    drop(fds);
    // Entering a mount namespace leads to its root.
    if let Ok(directory) = directory {
        let _ = env::set_current_dir(directory);
    }
    let Some((name, arguments)) = program.split_first() else {
        return Ok(Err("which program?".into()));
    };
    let mut path = OsString::from(PROGRAMS);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()));
    let mut command = Command::new(name);
    command.args(arguments).env("PATH", path).env("LONGFAT_HOST", host);
    dress(&mut command, host);
    let mut child = match command.spawn() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(format!("there is no program {}", name.to_string_lossy())));
        }
        other => other.attempted(|| format!("start {} on {host}", name.to_string_lossy()))?,
    };
    leave_signals_to(child.id());
    child.wait().map(Ok).attempted(|| format!("wait for {}", name.to_string_lossy()))
}
