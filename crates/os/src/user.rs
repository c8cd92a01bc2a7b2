//! The user of this process.
#![allow(unsafe_code)]

/// Whether the effective user is root.
pub fn is_root() -> bool {
    effective_ids().0 == 0
}

/// The effective user and group ids.
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
