//! The few socket calls that socket2 has not: discarding received bytes, pacing, time stamps.
#![allow(unsafe_code)]

use std::{io, mem, os::fd::AsRawFd, time::Duration};

use socket2::Socket;

/// Receives and discards up to `len` bytes without copying them (MSG_TRUNC, see tcp(7)); 0 at the end.
pub(crate) fn discard(socket: &Socket, len: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket.
    let got = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, libc::MSG_TRUNC) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Waits until `socket` has something to read, or its end, but no longer than `wait`; false where it has not.
pub(crate) fn wait_readable(socket: &Socket, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let wait = libc::timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    // SAFETY: one entry that lives across the call; no signal mask is given.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const wait, std::ptr::null()) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Sets an integer socket option.
pub(crate) fn set_option<T>(socket: &Socket, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives across the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Limits the socket's pacing to `bytes_per_second`.
pub(crate) fn set_max_pacing_rate(socket: &Socket, bytes_per_second: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// The wall clock since the epoch, as the kernel stamps packets.
pub(crate) fn wall_clock() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Receives one datagram and the kernel's stamp of its arrival (SO_TIMESTAMPNS), if it gave one.
pub(crate) fn receive_stamped(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the header points at buffers that live across the call, with their true lengths.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut stamp = None;
    // SAFETY: the kernel filled the control buffer with whole headers; the macros stay inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
                let at = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::timespec>());
                stamp = Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32));
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((got as usize, stamp))
}
