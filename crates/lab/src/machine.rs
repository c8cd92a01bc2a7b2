//! The privileges of this process, and kernel and processors of this machine.

use std::{fs, io, time::Duration};

use schema::HostInfo;

use crate::{Error, namespace::Namespace, namespace_limits::NamespaceLimits, sys, sysctl};

/// The bit of CAP_NET_ADMIN in the set of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;

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
    // In a container root may create namespaces (CAP_SYS_ADMIN) and not be permitted to configure them.
    if os::is_root() && has_net_admin(&status()) && Namespace::new().is_ok() {
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
    Namespace::new().map_err(|e| match e.os_error() {
        Some(errno) => limits.explain(io::Error::from_raw_os_error(errno)),
        None => e,
    })?;
    Ok(Privilege::UserNamespace)
}

/// /proc/self/status; empty if it cannot be read.
fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Whether the effective capabilities in a /proc/PID/status contain CAP_NET_ADMIN; true if they are unknown.
fn has_net_admin(status: &str) -> bool {
    let set =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    set.is_none_or(|set| set & 1 << CAP_NET_ADMIN != 0)
}

/// Moves the process into a user namespace. The kernel allows this only to processes with one thread
/// (EINVAL), and the thread of the first attempt (without a user namespace) may not have exited completely
/// yet.
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
    use std::process::Command;

    use super::*;

    #[test]
    fn the_capability_to_configure_networks_is_parsed() {
        assert!(has_net_admin("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(has_net_admin("CapEff:\t0000000000001000\n") && has_net_admin(""));
        assert!(!has_net_admin("CapEff:\t000001ffffffefff\n"));
    }

    #[test]
    fn root_without_net_admin_is_not_treated_as_root() {
        let exe = std::env::current_exe().unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
        if !os::is_root() || !command.arg("true").status().is_ok_and(|status| status.success()) {
            testing::skip(testing::Missing::Privilege, "setpriv and root are needed to drop a capability");
            return;
        }
        let inner = ["--exact", "machine::tests::without_net_admin", "--ignored", "--test-threads=1"];
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]).arg(exe).args(inner);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Not a test by itself: the test above runs it without CAP_NET_ADMIN.
    #[test]
    #[ignore = "it needs a process without CAP_NET_ADMIN"]
    fn without_net_admin() {
        // An error states the cause; if this counted as root, creating the first host would fail.
        assert_ne!(acquire_privilege().ok(), Some(Privilege::Root));
    }

    #[test]
    fn the_kernel_of_this_machine_is_known() {
        assert!(!host_info().kernel.is_empty());
    }
}
