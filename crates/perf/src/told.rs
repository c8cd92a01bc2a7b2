//! Receives a datagram, or what became of one that was sent, with all that the kernel tells beside it: time, time to live, errors.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::AsRawFd,
};

use socket2::Socket;

use crate::sys::{each_control, set_option};

/// What the kernel tells beside a datagram, or beside one of ours that came to no good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its length, as far as there was room.
    pub(crate) length: usize,
    /// Who sent it; of an error, whom our datagram was sent to.
    pub(crate) from: Option<SocketAddr>,
    /// When it came, ns since 1970.
    pub(crate) stamp_ns: Option<i64>,
    /// The time to live that it came with.
    pub(crate) ttl: Option<u8>,
    /// What became of a datagram of ours.
    pub(crate) error: Option<ToldError>,
}

/// An error that an ICMP message, or this host, tells of a datagram (ip(7), IP_RECVERR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToldError {
    /// The error's number.
    pub(crate) errno: u32,
    /// It came by ICMP.
    pub(crate) by_icmp: bool,
    /// The ICMP message's type and code.
    pub(crate) kind: (u8, u8),
    /// Of a packet that was too big: what fits.
    pub(crate) info: u32,
    /// Who sent the ICMP message.
    pub(crate) offender: Option<IpAddr>,
}

/// Asks for the time of arrival and the time to live of each datagram.
pub(crate) fn tell_origins(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)?;
    // A socket of the other version refuses one of these.
    let v4 = set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1i32);
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1i32).or(v4)
}

/// Asks for the errors of datagrams that were sent, or no more.
pub(crate) fn tell_errors(socket: &Socket, v4: bool, on: bool) -> io::Result<()> {
    match v4 {
        true => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, i32::from(on)),
        false => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, i32::from(on)),
    }
}

/// Nothing is there, or an error of an earlier datagram was told that is no reason to end.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    let kinds = [ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock];
    kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EPROTO))
}

/// Receives one datagram, or with MSG_ERRQUEUE one error, and what the kernel tells beside it.
pub(crate) fn receive_told(socket: &Socket, buffer: &mut [u8], flags: i32) -> io::Result<Told> {
    let mut control = [0u64; 64];
    let mut name: libc::sockaddr_storage;
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero msghdr and an all-zero address are valid empty ones.
    let mut message: libc::msghdr = unsafe {
        name = mem::zeroed();
        mem::zeroed()
    };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = mem::size_of_val(&name) as _;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the header points at buffers that live across the call, with their true lengths.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut told = Told { length: got as usize, from: address(&name), ..Told::default() };
    // SAFETY: the kernel filled the message in; words of these kinds hold what they are read as, and an error is followed by its
    // offender's address.
    unsafe {
        each_control(&message, |level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let at = data.cast::<libc::timespec>().read_unaligned();
                told.stamp_ns = Some(at.tv_sec * 1_000_000_000 + at.tv_nsec);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                told.ttl = u8::try_from(data.cast::<i32>().read_unaligned()).ok();
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                let mut offender: libc::sockaddr_storage = mem::zeroed();
                let length = match level {
                    libc::IPPROTO_IP => mem::size_of::<libc::sockaddr_in>(),
                    _ => mem::size_of::<libc::sockaddr_in6>(),
                };
                let after = data.add(mem::size_of::<libc::sock_extended_err>());
                std::ptr::copy_nonoverlapping(after, (&raw mut offender).cast::<u8>(), length);
                told.error = Some(ToldError {
                    errno: error.ee_errno,
                    by_icmp: matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6),
                    kind: (error.ee_type, error.ee_code),
                    info: error.ee_info,
                    offender: address(&offender).map(|at| at.ip()),
                });
            }
            _ => {}
        });
    }
    Ok(told)
}

/// An address of either version, as the kernel writes it.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these, which is smaller.
            let v4 = unsafe { (&raw const *name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { (&raw const *name).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
