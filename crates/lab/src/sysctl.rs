//! Sysctls: those of a host's network namespace, and those of this machine.

use std::{fs, io};

use crate::{Error, error::Attempted};

/// Advice where /proc/sys cannot be written.
const READ_ONLY_SETTINGS: &str = "; /proc/sys is read-only, as in most containers: start the container with --privileged, or run the scenario with --engine sim";

/// The default congestion control of a namespace, whose value the kernel checks (net/ipv4/tcp_cong.c,
/// `tcp_set_default_congestion_control`): ENOENT if it has none of that name, EPERM if it is restricted.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const NO_SUCH_CONGESTION_CONTROL: &str = "; the kernel has no congestion control of this name (net.ipv4.tcp_available_congestion_control lists those it has)";
const RESTRICTED_CONGESTION_CONTROL: &str = "; this congestion control is restricted: a network namespace may have it as its \
    default only if net.ipv4.tcp_allowed_congestion_control of the machine contains it. Add it there, or set `cc` of the flows";

/// The device to which a sysctl belongs, as in `net.ipv4.conf.h1-eth0.rp_filter`; `all` and `default`
/// included.
pub(crate) fn device_of(name: &str) -> Option<&str> {
    match name.split('.').collect::<Vec<_>>()[..] {
        ["net", _, "conf" | "neigh", device, _, ..] => Some(device),
        _ => None,
    }
}

/// Sets sysctls of this thread's network namespace and verifies them by reading them back.
pub(crate) fn set_sysctls(host: &str, sysctls: &[(&str, &str)]) -> Result<(), Error> {
    sysctls.iter().try_for_each(|(name, value)| set_sysctl(host, name, value))
}

fn set_sysctl(host: &str, name: &str, value: &str) -> Result<(), Error> {
    tracing::debug!(host, name, value, "setting a sysctl");
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).map_err(|source| Error::Sysctl {
        host: host.into(),
        name: name.into(),
        value: value.into(),
        hint: match source.kind() {
            io::ErrorKind::NotFound if name == CONGESTION_CONTROL => NO_SUCH_CONGESTION_CONTROL,
            io::ErrorKind::NotFound => {
                "; the kernel has no such sysctl, or it is global and not per network namespace"
            }
            io::ErrorKind::PermissionDenied if name == CONGESTION_CONTROL => RESTRICTED_CONGESTION_CONTROL,
            io::ErrorKind::PermissionDenied => "; this sysctl is global, not per network namespace",
            io::ErrorKind::InvalidInput => "; the kernel rejects the value",
            io::ErrorKind::ReadOnlyFilesystem => READ_ONLY_SETTINGS,
            _ => "",
        },
        source,
    })?;
    let actual = fs::read_to_string(&path).attempted(|| format!("read {path}"))?;
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    if same(&actual, value) {
        return Ok(());
    }
    Err(Error::SysctlRefused {
        host: host.into(),
        name: name.into(),
        value: value.into(),
        actual: actual.trim().into(),
    })
}

/// The value of a sysctl; empty if it does not exist or cannot be read.
pub(crate) fn text(name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).unwrap_or_default().trim().into()
}

/// The value of a sysctl that is one number.
pub(crate) fn number(name: &str) -> Option<i64> {
    text(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_names_its_device() {
        for (name, device) in [
            ("net.ipv4.conf.h1-eth0.rp_filter", Some("h1-eth0")),
            ("net.ipv6.neigh.h1-eth1.base_reachable_time_ms", Some("h1-eth1")),
            ("net.mpls.conf.h1-eth0.input", Some("h1-eth0")),
            ("net.ipv4.conf.all.rp_filter", Some("all")),
            ("net.ipv4.neigh.default.gc_thresh1", Some("default")),
            ("net.ipv4.conf.h1-eth0", None),
            ("net.ipv4.tcp_rmem", None),
        ] {
            assert_eq!(device_of(name), device, "{name}");
        }
    }
}
