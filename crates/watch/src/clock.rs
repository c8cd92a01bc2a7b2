//! The clock that the kernel's events are stamped with.
#![allow(unsafe_code)]

/// CLOCK_MONOTONIC, ns (what bpf_ktime_get_ns() returns).
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; CLOCK_MONOTONIC exists on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
