//! Runs a program on a host of a standing lab, in the caller's terminal.

use std::{
    env,
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Command, ExitStatus},
};

use super::{
    control::request_namespaces,
    isolate::{NamespaceKind, enter, forward_signals_to, prepare_command},
    mounts::PROGRAMS,
};
use crate::{Error, error::Attempted};

/// Returns the network namespace of `host` of the lab with this control `socket`. If the lab runs without
/// root, this process, which must be single-threaded, first enters the lab's user namespace: only then may it
/// enter the other namespaces. The inner error is the reason why the lab refused.
///
/// # Errors
/// If the lab does not reply, or its user namespace cannot be entered.
pub fn host_network_namespace(socket: &Path, host: &str) -> Result<Result<OwnedFd, String>, Error> {
    let mut fds = match request_namespaces(socket, host)? {
        Ok(fds) => fds,
        Err(why) => return Ok(Err(why)),
    };
    let network = fds.pop().ok_or_else(|| "the lab sent no network namespace".to_string());
    // User, mount and PID namespace remain if the lab runs without root.
    if let [user, _, _] = fds.as_slice() {
        enter(user.as_fd(), NamespaceKind::User)
            .attempted(|| format!("enter the user namespace of {host}"))?;
    }
    Ok(network)
}

/// Runs `program` (its name, then its arguments) on `host` of the lab with this control `socket`, and waits
/// for it. This process must be single-threaded, and stays in the host's namespaces. The inner error is the
/// reason why the lab refused.
///
/// # Errors
/// If the lab does not reply, the namespaces cannot be entered, or the program does not start.
pub fn run_on_host(
    socket: &Path,
    host: &str,
    program: &[OsString],
) -> Result<Result<ExitStatus, String>, Error> {
    let fds = match request_namespaces(socket, host)? {
        Ok(fds) => fds,
        Err(why) => return Ok(Err(why)),
    };
    let directory = env::current_dir();
    // Only a lab without root has a user namespace; it must be entered first.
    let kinds = [NamespaceKind::User, NamespaceKind::Mount, NamespaceKind::Pid, NamespaceKind::Net];
    for (fd, kind) in fds.iter().zip(&kinds[kinds.len().saturating_sub(fds.len())..]) {
        enter(fd.as_fd(), *kind).attempted(|| format!("enter the {kind:?} namespace of {host}"))?;
    }
    drop(fds);
    // Entering a mount namespace changes the working directory to its root.
    if let Ok(directory) = directory {
        let _ = env::set_current_dir(directory);
    }
    let Some((name, arguments)) = program.split_first() else {
        return Ok(Err("no program given".into()));
    };
    let mut path = OsString::from(PROGRAMS);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()));
    let mut command = Command::new(name);
    command.args(arguments).env("PATH", path).env("LONGFAT_HOST", host);
    prepare_command(&mut command, host);
    let mut child = match command.spawn() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(format!("program {} not found", name.to_string_lossy())));
        }
        other => other.attempted(|| format!("start {} on {host}", name.to_string_lossy()))?,
    };
    forward_signals_to(child.id());
    child.wait().map(Ok).attempted(|| format!("wait for {}", name.to_string_lossy()))
}
