//! What a machine lacks for tracing, as a sentence.

use std::fs;

use crate::Error;

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Where the kernel's cgroup tree is mounted, whose root sees the round trips of all sockets.
pub(crate) fn cgroup_root() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| place.to_string())
    })
}

/// An error of libbpf in the words of whoever asked for tracing.
pub(crate) fn explain(what: &str, error: &libbpf_rs::Error) -> Error {
    let why = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed in the machine's own user namespace: run as root".into()
        }
        _ if !fs::exists(TYPES).unwrap_or(false) => {
            format!("this kernel does not describe its types ({TYPES}, CONFIG_DEBUG_INFO_BTF)")
        }
        _ => format!("the kernel refuses to {what}: {error}"),
    };
    Error::Missing(format!("connections cannot be traced: {why}"))
}
