//! Sysctls as files below /proc/sys, of this thread's network namespace where they are a namespace's.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, path::PathBuf};

use crate::facts::{Reading, Setting};

/// Those that are inspected.
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

/// The file of a setting.
pub(crate) fn path(root: &Path, name: &str) -> PathBuf {
    root.join(name.replace('.', "/"))
}

/// A setting's text with single blanks.
pub(crate) fn read(root: &Path, name: &str) -> io::Result<String> {
    Ok(normal(&fs::read_to_string(path(root, name))?))
}

/// The same for people, with what can be done with it.
pub(crate) fn inspect(root: &Path, name: &str) -> Reading<Setting> {
    let file = path(root, name);
    let found = read(root, name).and_then(|value| {
        let read_only = fs::metadata(&file)?.permissions().mode() & 0o222 == 0;
        Ok(Setting { value, read_only })
    });
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Reading::unknown(
            "this kernel has no such setting, or it belongs to the whole machine and this is one host of it",
        ),
        other => other.into(),
    }
}

/// Writes a setting.
pub(crate) fn write(root: &Path, name: &str, value: &str) -> io::Result<()> {
    fs::write(path(root, name), value)
}

/// Blanks made one each.
pub(crate) fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
