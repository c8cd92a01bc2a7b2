//! The system calls that are not in `std`: ethtool's requests (linux/ethtool.h) and the namespace's cookie.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::UdpSocket,
    os::fd::{AsRawFd, OwnedFd},
};

/// SIOCETHTOOL (linux/sockios.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// SO_NETNS_COOKIE (asm-generic/socket.h), Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Where ethtool's requests go: a socket of this thread's network namespace.
pub(crate) struct Ethtool(OwnedFd);

impl Ethtool {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Ethtool(UdpSocket::bind("0.0.0.0:0")?.into()))
    }

    /// Asks `device`. The first word of `words` is the command; the kernel writes the structure it asks for over them, which
    /// must have room for it.
    pub(crate) fn ask(&self, device: &str, words: &mut [u32]) -> io::Result<()> {
        // SAFETY: all of ifreq is plain numbers, for which zero is valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // The last byte stays zero.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the request and the words live across the call; callers give room for the structures of linux/ethtool.h.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A number that no other network namespace has had since the machine started.
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut cookie = 0u64;
    let mut length = mem::size_of::<u64>() as libc::socklen_t;
    // SAFETY: both out arguments live across the call, and the length is that of the number.
    let done = unsafe {
        let (cookie, length) = ((&raw mut cookie).cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, cookie, length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}
