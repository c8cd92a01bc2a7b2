//! The UDP side of a server's port: a client's hello makes a stream of the test that waits for one from its address.

use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Socket, Type};

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
        let socket = bound(at, only_v6, device)?;
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
        let socket = bound(self.at, self.only_v6, device)?;
        socket.connect(&peer.into()).attempted(|| format!("cannot connect a UDP stream to {peer}"))?;
        udp_stream::answer(&socket).attempted(|| format!("cannot answer {peer}"))?;
        Ok(socket)
    }
}

fn bound(at: SocketAddr, only_v6: bool, device: Option<&str>) -> Result<Socket, Error> {
    let what = || format!("cannot listen for datagrams at {at}");
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None).attempted(what)?;
    if matches!(at.ip(), IpAddr::V6(_)) {
        socket.set_only_v6(only_v6).attempted(what)?;
    }
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes())).attempted(what)?;
    }
    // The listener and the streams share the port: the kernel gives each stream's datagrams to the socket connected to it.
    socket.set_reuse_address(true).attempted(what)?;
    socket.bind(&at.into()).attempted(what)?;
    Ok(socket)
}
