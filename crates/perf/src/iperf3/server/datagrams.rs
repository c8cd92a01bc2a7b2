//! The UDP side of a server's port: a client's hello makes a stream of the test that waits for one from its address.

use std::net::SocketAddr;

use socket2::{Socket, Type};

use super::router;
use crate::{
    Error,
    error::Attempted,
    iperf3::{IpVersion, udp_stream},
};

/// Listens for hellos.
#[derive(Debug)]
pub(super) struct Hellos {
    socket: Socket,
    at: SocketAddr,
    only_v6: bool,
}

impl Hellos {
    /// At the same address and port as the TCP side.
    pub(super) fn listen(at: SocketAddr, ip: Option<IpVersion>, device: Option<&str>) -> Result<Self, Error> {
        let only_v6 = ip == Some(IpVersion::V6) || !at.ip().is_unspecified();
        let socket = router::bound(at, Type::DGRAM, only_v6, device)?;
        socket.set_nonblocking(true).attempted(|| format!("cannot listen for datagrams at {at}"))?;
        Ok(Hellos { socket, at, only_v6 })
    }

    /// The socket to wait for.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Who says hello next; what they say does not matter.
    pub(super) fn next(&self) -> Option<SocketAddr> {
        let mut bytes = [std::mem::MaybeUninit::uninit(); 8];
        let (_, from) = self.socket.recv_from(&mut bytes).ok()?;
        from.as_socket()
    }

    /// A socket for the stream of `peer` alone, which has its answer.
    pub(super) fn stream(&self, peer: SocketAddr, device: Option<&str>) -> Result<Socket, Error> {
        // It shares the listener's port: the kernel gives it what comes from the peer that it is connected to.
        let socket = router::bound(self.at, Type::DGRAM, self.only_v6, device)?;
        socket.connect(&peer.into()).attempted(|| format!("cannot connect a UDP stream to {peer}"))?;
        udp_stream::answer(&socket).attempted(|| format!("cannot answer {peer}"))?;
        Ok(socket)
    }
}
