//! Linux system calls that several crates need and the standard library does not offer, each as one small
//! safe function, and the transport of rtnetlink. Beside them, a buffer for the kernel's copies.
//!
//! All errors are plain [`std::io::Error`]s: callers add the operation and its object. System calls that only
//! one crate needs are in that crate's `sys` module and use [`check()`] and [`check_len`].

mod buffer;
mod clock;
mod device;
pub mod file;
mod kernel;
pub mod netlink;
mod poll;
mod process;
mod random;
mod socket;
mod thread;
mod transmit;
mod user;

pub use buffer::AlignedBuffer;
pub use clock::{
    boottime, clock_error, clock_steps, monotonic_ns, realtime, realtime_ns, reduce_timer_slack, sleep_until,
};
pub use device::DeviceControl;
pub use kernel::kernel_release;
pub use poll::{wait_any, wait_readable, wait_writable};
pub use process::{duplicate_descriptor, raise_file_limit};
pub use random::{fill_random, random_hex};
pub use socket::{read_option, set_option, unacknowledged_bytes, unread_bytes};
pub use thread::{
    allowed_cpus, enter_network, set_allowed_cpus, thread_cpu_time, thread_usage, unshare_network,
};
pub use transmit::{TransmitQueue, TxCounters};
pub use user::{effective_ids, is_root};

/// Converts the result of a system call.
///
/// # Errors
/// If `result` is negative: the error of `errno`.
pub fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

/// Converts the result of a system call that returns a number of bytes or messages.
///
/// # Errors
/// If `result` is negative: the error of `errno`.
pub fn check_len(result: libc::ssize_t) -> std::io::Result<usize> {
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error())
}
