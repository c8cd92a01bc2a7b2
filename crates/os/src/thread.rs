//! The calling thread: its processor time, its processors, its network namespace.
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use crate::{check, clock};

/// Processor time that this thread has used, in user mode and in the kernel together, to the nanosecond
/// (CLOCK_THREAD_CPUTIME_ID).
pub fn thread_cpu_time() -> Duration {
    clock::read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that this thread has used in user mode and in the kernel, with the resolution of
/// getrusage(2), 1 us.
pub fn thread_usage() -> (Duration, Duration) {
    // SAFETY: an all-zero rusage is valid to write to; the call cannot fail with these arguments.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// The processors that this thread may run on.
///
/// # Errors
/// The errors of sched_getaffinity(2): on machines with more processors than a `cpu_set_t` has.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero set is empty and valid; size and pointer describe it; `CPU_ISSET` gets numbers
    // within its size.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        check(libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect())
    }
}

/// Restricts this thread to `cpus`; numbers beyond the size of a `cpu_set_t` are ignored.
///
/// # Errors
/// If none of them exists, or this thread may not use them.
pub fn set_allowed_cpus(cpus: &[usize]) -> io::Result<()> {
    let cpus = cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize);
    // SAFETY: an all-zero set is empty and valid; `CPU_SET` gets numbers within its size.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        cpus.for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        check(libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)).map(drop)
    }
}

/// Moves this thread into a new network namespace.
///
/// # Errors
/// The errors of unshare(2): without CAP_SYS_ADMIN, for example.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: plain flag argument; affects the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this thread into the network namespace of a descriptor.
///
/// # Errors
/// The errors of setns(2): without CAP_SYS_ADMIN, or if the descriptor is not of a network namespace.
pub fn enter_network(namespace: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call, which affects the calling thread only.
    check(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_restricted_to_one_processor() {
        let cpus = allowed_cpus().unwrap();
        std::thread::spawn(move || {
            set_allowed_cpus(&cpus[..1]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), cpus[..1]);
            assert!(set_allowed_cpus(&[usize::MAX]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = (thread_cpu_time(), thread_usage());
        while thread_cpu_time() < before.0 + Duration::from_millis(5) {}
        let after = thread_usage();
        assert!(after.0 + after.1 > before.1.0 + before.1.1);
    }
}
