//! Descriptors: those of other processes (pidfd_open(2), pidfd_getfd(2)), and the limit of this one.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::check;

/// Duplicates the descriptor `fd` of the process `pid`. Both then refer to the same open file or socket.
///
/// # Errors
/// EPERM without the privilege to trace the process (ptrace(2)), ESRCH if there is no such process, EBADF if
/// it has no such descriptor, ENOSYS before Linux 5.6.
pub fn duplicate_descriptor(pid: u32, fd: RawFd) -> io::Result<OwnedFd> {
    let process = open(libc::SYS_pidfd_open, [pid.into(), 0, 0])?;
    open(libc::SYS_pidfd_getfd, [process.as_raw_fd().into(), fd.into(), 0])
}

/// Calls pidfd_open(2) or pidfd_getfd(2), which return a new descriptor.
fn open(call: libc::c_long, arguments: [i64; 3]) -> io::Result<OwnedFd> {
    // SAFETY: both calls take integers only.
    let result = unsafe { libc::syscall(call, arguments[0], arguments[1], arguments[2]) };
    let fd = RawFd::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call succeeded, so the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Raises the soft limit of open files to the hard limit; returns it.
///
/// # Errors
/// The errors of getrlimit(2) and setrlimit(2).
pub fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a valid rlimit that lives across the calls.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))?;
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_duplicate_refers_to_the_same_socket() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let twin = UdpSocket::from(duplicate_descriptor(std::process::id(), socket.as_raw_fd()).unwrap());
        assert_eq!(twin.local_addr().unwrap(), socket.local_addr().unwrap());
        let none = duplicate_descriptor(std::process::id(), 1_000_000).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EBADF));
        // No process has this number (proc(5), pid_max).
        assert_eq!(duplicate_descriptor(5_000_000, 0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
