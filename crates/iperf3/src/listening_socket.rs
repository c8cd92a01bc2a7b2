//! Sockets that are bound to an address, for servers and clients that listen.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};
use traffic::{Attempted, Error as SystemError};

/// The kernel's backlog of connections (listen(2)).
const BACKLOG: i32 = 1024;

/// Listens, without blocking, on a socket that is bound to `at`.
pub(crate) fn listen_on(socket: Socket, at: SocketAddr) -> Result<Socket, SystemError> {
    let what = || format!("listen at {at}");
    socket.listen(BACKLOG).attempted(what)?;
    socket.set_nonblocking(true).attempted(what)?;
    Ok(socket)
}

/// Binds a socket with SO_REUSEADDR; an IPv6 socket also accepts IPv4, unless `only_v6`.
pub(crate) fn bound(
    at: SocketAddr,
    kind: Type,
    only_v6: bool,
    device: Option<&str>,
    reuses_port: bool,
) -> Result<Socket, SystemError> {
    let what = || format!("listen at {at}");
    let socket = Socket::new(Domain::for_address(at), kind, None).attempted(what)?;
    if at.is_ipv6() {
        socket.set_only_v6(only_v6).attempted(what)?;
    }
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes())).attempted(|| format!("bind to device {device}"))?;
    }
    socket.set_reuse_address(true).attempted(what)?;
    if reuses_port {
        socket.set_reuse_port(true).attempted(what)?;
    }
    socket.bind(&at.into()).attempted(what)?;
    Ok(socket)
}
