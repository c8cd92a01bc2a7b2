//! Receives a datagram, or an error report about a sent datagram, with its ancillary data: arrival time, time
//! to live, ICMP error.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::AsRawFd,
};

use socket2::Socket;

use os::set_option;

use crate::sys::each_control;

/// A received datagram's ancillary data, or the error report about a datagram that we sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Its length, at most the buffer's.
    pub length: usize,
    /// The sender; in an error report, the destination of our datagram.
    pub from: Option<SocketAddr>,
    /// This host's address to which it was sent, if [`enable_destination`] was called. A sender whose socket
    /// is connected accepts replies from this address only.
    pub to: Option<OwnAddress>,
    /// When it arrived, ns since 1970.
    pub stamp_ns: Option<i64>,
    /// Its time to live on arrival.
    pub ttl: Option<u8>,
    /// The error of a datagram that we sent.
    pub error: Option<DatagramError>,
}

/// An error that an ICMP message, or this host, reports about a sent datagram (ip(7), IP_RECVERR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramError {
    /// The error's number.
    pub errno: u32,
    /// Whether an ICMP message reported the error.
    pub by_icmp: bool,
    /// The ICMP message's type and code.
    pub kind: (u8, u8),
    /// For a packet that was too big: the MTU.
    pub info: u32,
    /// The sender of the ICMP message.
    pub offender: Option<IpAddr>,
}

/// A local unicast address. On an IPv6 socket that also accepts IPv4, an IPv4 address is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub ip: IpAddr,
    /// Index of the interface if the address is link-local, else 0.
    pub interface: u32,
}

impl OwnAddress {
    fn new(ip: IpAddr, interface: u32) -> Option<Self> {
        let interface = match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => interface,
            _ => 0,
        };
        (!ip.is_multicast() && !ip.is_unspecified()).then_some(OwnAddress { ip, interface })
    }

    /// This address with a port.
    pub fn with_port(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.interface).into(),
        }
    }
}

/// Enables the destination of each datagram, for sockets that are bound to all addresses of the host.
///
/// # Errors
/// If the kernel refuses the option.
pub fn enable_destination(socket: &Socket) -> io::Result<()> {
    // A socket refuses the option of the other IP version.
    let v4 = set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1i32);
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1i32).or(v4)
}

/// Sends a datagram from this address of the host; `None`: the route chooses it.
///
/// # Errors
/// The errors of sendmsg(2).
pub fn send_from(
    socket: &Socket,
    bytes: &[u8],
    to: SocketAddr,
    from: Option<OwnAddress>,
) -> io::Result<usize> {
    let to = socket2::SockAddr::from(to);
    let Some(from) = from else { return socket.send_to(bytes, &to) };
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the control buffer has space for one message of either type, whose data may be unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let data = libc::CMSG_DATA(header);
        let size = match from.ip {
            IpAddr::V4(ip) => {
                let address = libc::in_addr { s_addr: u32::from(ip).to_be() };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
                ((*header).cmsg_level, (*header).cmsg_type) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
                data.cast::<libc::in_pktinfo>().write_unaligned(info);
                mem::size_of::<libc::in_pktinfo>()
            }
            IpAddr::V6(ip) => {
                let address = libc::in6_addr { s6_addr: ip.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: from.interface };
                ((*header).cmsg_level, (*header).cmsg_type) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
                data.cast::<libc::in6_pktinfo>().write_unaligned(info);
                mem::size_of::<libc::in6_pktinfo>()
            }
        };
        (*header).cmsg_len = libc::CMSG_LEN(size as u32) as _;
        message.msg_controllen = libc::CMSG_SPACE(size as u32) as _;
        os::check_len(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0))
    }
}

/// Enables the time of arrival and the time to live of each datagram.
///
/// # Errors
/// If the kernel refuses an option.
pub fn enable_arrival_info(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)?;
    // A socket refuses the option of the other IP version.
    let v4 = set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1i32);
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1i32).or(v4)
}

/// Enables or disables error reports about sent datagrams.
///
/// # Errors
/// If the kernel refuses the option.
pub fn set_error_reports(socket: &Socket, v4: bool, on: bool) -> io::Result<()> {
    match v4 {
        true => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, i32::from(on)),
        false => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, i32::from(on)),
    }
}

/// Whether the socket is still usable: nothing has arrived, or the error concerns an earlier datagram.
pub fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    let kinds = [ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock];
    kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EPROTO))
}

/// Receives one datagram, or with MSG_ERRQUEUE one error report, with its ancillary data.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn receive_with_ancillary(
    socket: &Socket,
    buffer: &mut [u8],
    flags: i32,
) -> io::Result<ReceivedDatagram> {
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
    // SAFETY: the header points at buffers that live across the call, with their correct lengths.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut datagram =
        ReceivedDatagram { length: received as usize, from: address(&name), ..ReceivedDatagram::default() };
    // SAFETY: the kernel filled the message in; control messages of these types contain the structures as
    // which they are read, and an error is followed by the address of its sender.
    unsafe {
        each_control(&message, |level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let at = data.cast::<libc::timespec>().read_unaligned();
                datagram.stamp_ns = Some(at.tv_sec * 1_000_000_000 + at.tv_nsec);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                datagram.ttl = u8::try_from(data.cast::<i32>().read_unaligned()).ok();
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
                // A socket of IPv6 reports the mapped address too.
                datagram.to = datagram.to.or(OwnAddress::new(ip.into(), 0));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                datagram.to = OwnAddress::new(ip.into(), info.ipi6_ifindex);
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
                datagram.error = Some(DatagramError {
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
    Ok(datagram)
}

/// An address of either IP version, as the kernel writes it.
pub(crate) fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family states that it is a sockaddr_in, which is smaller than the storage.
            let v4 = unsafe { (&raw const *name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let v6 = unsafe { (&raw const *name).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
