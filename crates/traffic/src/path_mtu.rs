//! The path MTU in the kernel's routing cache, and sockets whose packets are never fragmented.

use std::net::{SocketAddr, UdpSocket};

use socket2::Socket;

use crate::{Attempted, Error};

/// The MTU that is assumed if the kernel returns none, bytes.
const DEFAULT_MTU: u32 = 1500;
/// The port of the discard service (RFC 863), for connecting a UDP socket that sends nothing.
const DISCARD_PORT: u16 = 9;

/// Forbids fragments for a socket: neither this host nor a router fragments its packets, and the path MTU
/// that the kernel has cached does not limit their size (ip(7), IP_PMTUDISC_PROBE).
///
/// # Errors
/// If the kernel refuses the socket option.
pub fn forbid_fragments(socket: &Socket, v4: bool) -> Result<(), Error> {
    let (level, name, value) = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    os::set_option(socket, level, name, value).attempted(|| "forbid fragments".into())
}

/// The MTU of a connected socket's route in the kernel's routing cache, bytes with the IP header.
///
/// # Errors
/// If the socket is not connected.
pub fn mtu_of(socket: &Socket, peer: SocketAddr) -> Result<u32, Error> {
    let (level, name) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu = 0i32;
    os::read_option(socket, level, name, &mut mtu)
        .attempted(|| format!("read the MTU of the route to {peer}"))?;
    Ok(u32::try_from(mtu).unwrap_or(DEFAULT_MTU))
}

/// The MTU of the route to an address in the kernel's routing cache, bytes with the IP header: the device's
/// MTU, or less if a router reported less. The port of the address is ignored.
///
/// # Errors
/// If there is no route to the address.
pub fn route_mtu(mut to: SocketAddr) -> Result<u32, Error> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    to.set_port(DISCARD_PORT);
    let what = || format!("create a UDP socket to {}", to.ip());
    let socket = UdpSocket::bind(any).attempted(what)?;
    socket.connect(to).attempted(what)?;
    mtu_of(&socket.into(), to)
}
