//! The sockets of test packets, of all protocols and both ends.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use os::set_option;
use socket2::Socket;
use traffic::{Attempted, Error, ancillary, path_mtu::forbid_fragments};

use crate::wire::ErrorEstimate;

/// Assumed error of this host's times, ns: software timestamps.
pub(crate) const CLOCK_ERROR_NS: u64 = 50_000;
/// The time to live of test packets, by which the other end counts hops (RFC 4656 section 4.1.2, RFC 5357
/// section 4.1.2).
const TIME_TO_LIVE: i32 = 255;

/// A bound UDP socket whose packets have a known time to live and are never fragmented, and which reports
/// the arrival time and the time to live of received packets.
pub(crate) fn open(at: SocketAddr) -> Result<Socket, Error> {
    let what = || format!("open the UDP port of test packets at {at}");
    let socket: Socket = UdpSocket::bind(at).attempted(what)?.into();
    ancillary::enable_arrival_info(&socket).attempted(what)?;
    forbid_fragments(&socket, at.is_ipv4())?;
    // A socket refuses the option of the other IP version.
    let v4 = set_option(&socket, libc::IPPROTO_IP, libc::IP_TTL, TIME_TO_LIVE);
    set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, TIME_TO_LIVE).or(v4).attempted(what)?;
    Ok(socket)
}

/// Sends a test packet. One that is lost on this host counts as lost on the path.
pub(crate) fn send(socket: &Socket, bytes: &[u8], to: SocketAddr) -> Result<(), Error> {
    match socket.send_to(bytes, &to.into()) {
        // Too large for the path.
        Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
        Err(e) if !ancillary::is_transient(&e) && e.kind() != io::ErrorKind::PermissionDenied => {
            Err(e).attempted(|| format!("send a test packet to {to}"))
        }
        _ => Ok(()),
    }
}

/// Any port of all addresses of the same IP version.
pub(crate) fn unspecified(like: IpAddr) -> SocketAddr {
    match like {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The port of a bound socket.
pub(crate) fn port(socket: &Socket) -> u16 {
    socket.local_addr().ok().and_then(|at| at.as_socket()).map_or(0, |at| at.port())
}

/// The error estimate of this host's times. The clock is reported as not synchronized.
pub(crate) fn own_error() -> ErrorEstimate {
    ErrorEstimate::of(CLOCK_ERROR_NS, false)
}
