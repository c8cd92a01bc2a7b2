//! The system calls that are not in `std`: requests about devices (linux/ethtool.h, netdevice(7)) and the namespace's cookie.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::UdpSocket,
    os::fd::{AsRawFd, OwnedFd},
};

/// SIOCETHTOOL (linux/sockios.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const SIOCGIFTXQLEN: libc::c_ulong = 0x8942;
const SIOCSIFTXQLEN: libc::c_ulong = 0x8943;
/// SO_NETNS_COOKIE (asm-generic/socket.h), Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Where requests about devices go: a socket of this thread's network namespace.
pub(crate) struct Devices(OwnedFd);

impl Devices {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Devices(UdpSocket::bind("0.0.0.0:0")?.into()))
    }

    /// Asks `device` by ethtool. The first word of `words` is the command; the kernel writes the structure it asks for over them, which
    /// must have room for it.
    pub(crate) fn ask(&self, device: &str, words: &mut [u32]) -> io::Result<()> {
        let mut request = request(device);
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        self.ioctl(SIOCETHTOOL, &mut request)
    }

    /// Packets of a device's transmit queue.
    pub(crate) fn tx_queue_len(&self, device: &str) -> io::Result<i32> {
        let mut request = request(device);
        self.ioctl(SIOCGIFTXQLEN, &mut request)?;
        // SAFETY: the kernel wrote `ifr_qlen`, a number, where this field of the union is (linux/if.h).
        Ok(unsafe { request.ifr_ifru.ifru_metric })
    }

    pub(crate) fn set_tx_queue_len(&self, device: &str, packets: i32) -> io::Result<()> {
        let mut request = request(device);
        request.ifr_ifru.ifru_metric = packets;
        self.ioctl(SIOCSIFTXQLEN, &mut request)
    }

    fn ioctl(&self, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request, and what it points to, live across the call; callers give room for the structures of linux/ethtool.h.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, &raw mut *request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A request about `device`.
fn request(device: &str) -> libc::ifreq {
    // SAFETY: all of ifreq is plain numbers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
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
