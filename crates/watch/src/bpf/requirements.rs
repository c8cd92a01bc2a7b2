//! Requirements of tracing: finds the cgroup tree, and explains which requirement a machine does not meet.

use std::fs;

use crate::Error;

const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// The mount point of the cgroup2 file system. A sock_ops program at its root is called for all sockets.
pub(crate) fn cgroup_root() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let mount_point = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| mount_point.to_string())
    })
}

/// Converts an error of libbpf to one that names the unmet requirement; `operation` is the operation that
/// failed.
pub(crate) fn explain(operation: &str, error: &libbpf_rs::Error) -> Error {
    Error::Missing(format!("connections cannot be traced: {}", unmet_requirement(operation, error)))
}

/// Why the kernel refuses an eBPF program; `operation` is the operation that failed.
pub(crate) fn unmet_requirement(operation: &str, error: &libbpf_rs::Error) -> String {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed in the machine's own user namespace: run as \
            root"
                .into()
        }
        _ if !fs::exists(BTF_PATH).unwrap_or(false) => {
            format!("this kernel has no BTF type information ({BTF_PATH}, CONFIG_DEBUG_INFO_BTF)")
        }
        _ => format!("the kernel refuses to {operation}: {error}"),
    }
}
