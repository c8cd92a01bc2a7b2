//! Socket options (getsockopt(2), setsockopt(2)) and queues.
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
};

use crate::check;

/// Sets a socket option; `value` is an integer or a structure of the kernel's.
///
/// # Errors
/// If the kernel refuses the option.
pub fn set_option<T: Copy>(socket: impl AsFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives across the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads a socket option into `value`, an integer or an array of integers; returns the number of bytes that
/// the kernel wrote.
///
/// # Errors
/// If the kernel does not have the option.
pub fn read_option<T: Integers>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<usize> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `T` consists of integers, so any bytes are valid; the kernel writes at most `length` of them.
    check(unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (value as *mut T).cast(), &raw mut length)
    })?;
    Ok(length as usize)
}

/// Integers and arrays of them, for which any bytes are a valid value.
pub trait Integers: sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl<T: Sealed, const N: usize> Sealed for [T; N] {}
}

impl<T: sealed::Sealed> Integers for T {}

/// Bytes that were received in order and not read yet (FIONREAD, the same as SIOCINQ, tcp(7)).
///
/// # Errors
/// If the descriptor is not a connected socket.
pub fn unread_bytes(socket: impl AsFd) -> io::Result<usize> {
    queued_bytes(socket, libc::FIONREAD)
}

/// Bytes of a TCP socket that the peer has not acknowledged yet (SIOCOUTQ, the same as TIOCOUTQ, tcp(7)).
///
/// # Errors
/// If the descriptor is not a connected socket.
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<usize> {
    queued_bytes(socket, libc::TIOCOUTQ)
}

fn queued_bytes(socket: impl AsFd, request: libc::Ioctl) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut bytes) })?;
    Ok(bytes.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn options_are_read_back() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        set_option(&a, libc::SOL_SOCKET, libc::SO_PRIORITY, 3i32).unwrap();
        let mut value = 0i32;
        assert_eq!(read_option(&a, libc::SOL_SOCKET, libc::SO_PRIORITY, &mut value).unwrap(), 4);
        assert_eq!(value, 3);
        assert!(set_option(&a, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1i32).is_err());
        a.send_to(&[0; 7], b.local_addr().unwrap()).unwrap();
        assert_eq!(unread_bytes(&b).unwrap(), 7);
    }
}
