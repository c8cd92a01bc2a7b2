//! The running kernel.

use std::fs;

/// Its release, as `uname -r` prints it; `None` if /proc cannot be read.
pub fn kernel_release() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().into())
}
