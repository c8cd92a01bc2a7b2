//! Waiting for input on descriptors (ppoll(2)).
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use crate::check;

/// Waits up to `timeout` until `fd` is readable or at its end; false on a timeout.
///
/// # Errors
/// The errors of ppoll(2), [`io::ErrorKind::Interrupted`] by a signal among them.
pub fn wait_readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let fd = fd.as_fd().as_raw_fd();
    poll(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], timeout)
}

/// Waits up to `timeout`, or until a signal arrives, until one of `fds` is readable or at its end; returns
/// which are.
///
/// # Errors
/// The errors of ppoll(2) other than a signal.
pub fn wait_any(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    wait_for(fds, libc::POLLIN | libc::POLLRDHUP, timeout)
}

/// Waits up to `timeout`, or until a signal arrives, until one of these sockets is connected and has space in
/// its send buffer, or has failed; returns which are.
///
/// # Errors
/// The errors of ppoll(2) other than a signal.
pub fn wait_writable(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    wait_for(sockets, libc::POLLOUT, timeout)
}

fn wait_for(fds: &[BorrowedFd<'_>], events: libc::c_short, timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }).collect();
    match poll(&mut polls, timeout) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

/// Waits up to `timeout` for an event of `polls`; false on a timeout.
fn poll(polls: &mut [libc::pollfd], timeout: Duration) -> io::Result<bool> {
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: the entries live across the call and their count is correct; no signal mask is given.
    let ready = unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
    };
    check(ready).map(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn input_and_timeouts_are_distinguished() {
        let (first, mut writer) = io::pipe().unwrap();
        let (second, _open) = io::pipe().unwrap();
        assert!(!wait_readable(&first, Duration::from_micros(10)).unwrap());
        writer.write_all(b"x").unwrap();
        assert!(wait_readable(&first, Duration::from_secs(1)).unwrap());
        assert_eq!(wait_any(&[first.as_fd(), second.as_fd()], Duration::ZERO).unwrap(), [true, false]);
    }
}
