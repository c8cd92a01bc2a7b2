//! Why this process cannot create namespaces, and the remedies.

use std::fs;

use crate::{Error, sysctl};

/// Settings that can prevent this process from creating namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NamespaceLimits {
    pub(crate) unprivileged_userns_clone: Option<i64>,
    pub(crate) max_user_namespaces: Option<i64>,
    pub(crate) max_net_namespaces: Option<i64>,
    pub(crate) apparmor_restrict_userns: Option<i64>,
    /// Whether system calls are filtered, as in most containers.
    pub(crate) seccomp: bool,
    pub(crate) root: bool,
}

impl NamespaceLimits {
    pub(crate) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        NamespaceLimits {
            unprivileged_userns_clone: sysctl::number("kernel.unprivileged_userns_clone"),
            max_user_namespaces: sysctl::number("user.max_user_namespaces"),
            max_net_namespaces: sysctl::number("user.max_net_namespaces"),
            apparmor_restrict_userns: sysctl::number("kernel.apparmor_restrict_unprivileged_userns"),
            seccomp: status.lines().any(|l| l.starts_with("Seccomp:") && l.ends_with('2')),
            root: os::is_root(),
        }
    }

    /// The error of a lab that could not create namespaces.
    pub(crate) fn explain(&self, source: std::io::Error) -> Error {
        let (cause, remedy) = self.cause_and_remedy(source.raw_os_error().unwrap_or(0));
        Error::NoPrivilege { source, cause, remedy }
    }

    /// The reason why namespaces cannot be created, and the remedy.
    pub(crate) fn cause_and_remedy(&self, errno: i32) -> (&'static str, &'static str) {
        let NamespaceLimits {
            unprivileged_userns_clone: clone,
            max_user_namespaces,
            max_net_namespaces,
            apparmor_restrict_userns: apparmor,
            seccomp,
            root,
        } = *self;
        let denied = errno == libc::EPERM || errno == libc::EACCES;
        if max_user_namespaces == Some(0) {
            return (
                "user.max_user_namespaces is 0",
                "sudo sysctl -w user.max_user_namespaces=10000, or use sudo",
            );
        }
        if max_net_namespaces == Some(0) {
            return ("user.max_net_namespaces is 0", "sudo sysctl -w user.max_net_namespaces=10000");
        }
        if errno == libc::ENOSPC || errno == libc::EUSERS {
            return (
                "too many namespaces exist",
                "end the programs that created them, or raise user.max_user_namespaces and user.max_net_namespaces",
            );
        }
        if errno == libc::ENOSYS || errno == libc::EINVAL {
            return (
                "this kernel was built without namespaces",
                "use sudo, or a kernel with CONFIG_USER_NS and CONFIG_NET_NS",
            );
        }
        if denied && clone == Some(0) {
            return (
                "kernel.unprivileged_userns_clone is 0",
                "sudo sysctl -w kernel.unprivileged_userns_clone=1, or use sudo",
            );
        }
        // Ubuntu 23.10 and later: the namespace can be created, but without any capability in it.
        if denied && apparmor.is_some_and(|restricted| restricted != 0) && !root {
            return (
                "AppArmor denies them to programs without a profile, as on Ubuntu since 23.10",
                "use sudo, or give longfat an AppArmor profile with the rule `userns,`, or \
                 sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        if denied && (seccomp || root) {
            return (
                "the container's seccomp filter denies them",
                "start the container with --cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun \
                 --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or with --privileged",
            );
        }
        ("the kernel gives no reason", "use sudo")
    }
}

/// The remedy if the kernel refuses the namespaces of `longfat lab up`.
pub(crate) fn standing_remedy(errno: i32) -> &'static str {
    match errno {
        libc::EINVAL | libc::ENOSYS => "use a kernel with CONFIG_PID_NS",
        libc::ENOSPC | libc::EUSERS => "raise user.max_pid_namespaces and user.max_mnt_namespaces",
        _ => "in a container: --privileged; elsewhere use sudo",
    }
}
