//! Sysctls as files below /proc/sys. Sysctls that belong to a network namespace are those of this thread's
//! namespace.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, path::PathBuf};

use crate::facts::{Reading, SysctlValue};

/// Sysctls that `inspect` reads.
pub(crate) const INSPECTED: [&str; 32] = [
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_shrink_window",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// The file of a sysctl.
pub(crate) fn path(root: &Path, name: &str) -> PathBuf {
    root.join(name.replace('.', "/"))
}

/// Reads a sysctl, with single spaces between its values.
pub(crate) fn read(root: &Path, name: &str) -> io::Result<String> {
    Ok(normalize_spaces(&fs::read_to_string(path(root, name))?))
}

/// Reads a sysctl and whether it can be written; if it cannot be read, the reason.
pub(crate) fn inspect(root: &Path, name: &str) -> Reading<SysctlValue> {
    let file = path(root, name);
    let found = read(root, name).and_then(|value| {
        let read_only = fs::metadata(&file)?.permissions().mode() & 0o222 == 0;
        Ok(SysctlValue { value, read_only })
    });
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Reading::unknown(
            "this kernel has no such setting, or it belongs to the whole machine and not to this network \
            namespace",
        ),
        other => other.into(),
    }
}

/// Writes a sysctl.
pub(crate) fn write(root: &Path, name: &str, value: &str) -> io::Result<()> {
    // The kernel sees no write of no bytes: a line break empties a list such as
    // net.ipv4.ip_local_reserved_ports.
    let value = if value.is_empty() { "\n" } else { value };
    fs::write(path(root, name), value)
}

/// Replaces each run of white space by one space.
pub(crate) fn normalize_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_written_as_a_line_break() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("net")).unwrap();
        write(directory.path(), "net.ports", "8080").unwrap();
        write(directory.path(), "net.ports", "").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("net/ports")).unwrap(), "\n");
        assert_eq!(read(directory.path(), "net.ports").unwrap(), "");
    }
}
