//! Sysctls of this machine.

use std::fs;

/// The value of a sysctl; empty if it does not exist or cannot be read.
pub(crate) fn text(name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).unwrap_or_default().trim().into()
}

/// The value of a sysctl that is one number.
pub(crate) fn number(name: &str) -> Option<i64> {
    text(name).parse().ok()
}
