//! The privileges of this process, and kernel and processors of this machine.

use std::{fs, io, time::Duration};

use schema::HostInfo;

use crate::{Error, namespace_limits::NamespaceLimits, sys, sysctl};

/// The privilege with which the lab runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Root: everything works.
    Root,
    /// A user namespace: no real-time priority, explicit socket buffers are capped by the machine's limits.
    UserNamespace,
}

/// Gets the privilege to create network namespaces: as root, or by moving this process into a new user
/// namespace. Must be called before any other thread exists.
///
/// # Errors
/// [`Error::NoPrivilege`], with the cause and what to do.
pub fn acquire_privilege() -> Result<Privilege, Error> {
    if os::is_root() && crate::namespace::Namespace::new().is_ok() {
        return Ok(Privilege::Root);
    }
    let (user, group) = os::effective_ids();
    // Read before the user namespace is entered, which has other limits.
    let limits = NamespaceLimits::of_this_process();
    unshare_user().map_err(|e| limits.explain(e))?;
    // setgroups(2) must be denied before a group id can be mapped (user_namespaces(7)).
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_string()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(path, text).map_err(|e| limits.explain(e))?;
    }
    crate::namespace::Namespace::new().map_err(|e| match e.os_error() {
        Some(errno) => limits.explain(io::Error::from_raw_os_error(errno)),
        None => e,
    })?;
    Ok(Privilege::UserNamespace)
}

/// Moves the process into a user namespace. The kernel allows this only to processes with one thread (EINVAL), and
/// the thread of the first attempt (without a user namespace) may not have exited completely yet.
fn unshare_user() -> io::Result<()> {
    let mut tries = 50;
    loop {
        match sys::unshare_user() {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && tries > 0 => {
                tries -= 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

/// Kernel and processors of this machine, for the summary.
pub fn host_info() -> HostInfo {
    let kernel = sysctl::text("kernel.osrelease");
    HostInfo { kernel, cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_of_this_machine_is_known() {
        assert!(!host_info().kernel.is_empty());
    }
}
