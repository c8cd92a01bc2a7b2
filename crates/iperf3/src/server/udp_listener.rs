//! The UDP side of a server's port: a client's hello becomes a stream of the test that waits for one from its
//! address; latency probes of a running test get a reply.

use std::{net::SocketAddr, time::Duration};

use socket2::{Socket, Type};
use traffic::{Attempted, Error, sys};

use super::listener;
use crate::{
    IpVersion, udp_stream,
    wire::{LATENCY_ECHO_BYTES, LatencyEcho},
};

/// The purpose of a received datagram.
pub(super) enum UdpRequest {
    /// To open a stream.
    Hello {
        /// The content is that of [`udp_stream::greet`]; the streams of tests begin with any content.
        is_of_service: bool,
    },
    /// To get a reply.
    Echo {
        request: LatencyEcho,
        /// When it arrived, by the kernel's time stamp.
        at: Duration,
    },
}

/// Listens for hellos and latency probes.
#[derive(Debug)]
pub(super) struct UdpListener {
    socket: Socket,
    at: SocketAddr,
    only_v6: bool,
}

impl UdpListener {
    /// Listens at the same address and port as the TCP side.
    pub(super) fn listen(at: SocketAddr, ip: Option<IpVersion>, device: Option<&str>) -> Result<Self, Error> {
        let only_v6 = ip == Some(IpVersion::V6) || !at.ip().is_unspecified();
        let socket = listener::bound(at, Type::DGRAM, only_v6, device, false)?;
        let what = || format!("cannot listen for datagrams at {at}");
        sys::enable_arrival_stamps(&socket).attempted(what)?;
        // Neither requests nor replies block the router.
        socket.set_nonblocking(true).attempted(what)?;
        Ok(UdpListener { socket, at, only_v6 })
    }

    /// The socket to poll.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next datagram.
    pub(super) fn next(&self) -> Option<(SocketAddr, UdpRequest)> {
        let mut bytes = [0; LATENCY_ECHO_BYTES + 1];
        let (len, at, from) = sys::receive_stamped_from(&self.socket, &mut bytes).ok()?;
        let request = match LatencyEcho::from_bytes(&bytes[..len]) {
            Some(request) => UdpRequest::Echo { request, at: at.unwrap_or_else(os::realtime) },
            None => UdpRequest::Hello { is_of_service: udp_stream::is_hello(&bytes[..len]) },
        };
        Some((from.as_socket()?, request))
    }

    /// Replies to a probe that arrived `at` this time.
    pub(super) fn reply(&self, to: SocketAddr, request: LatencyEcho, at: Duration) {
        let reply = LatencyEcho { held: os::realtime().saturating_sub(at), ..request };
        // A reply that cannot be sent counts as lost on the path.
        let _ = self.socket.send_to(&reply.to_bytes(), &to.into());
    }

    /// Opens a socket for the stream of `peer` only, and sends the reply to its hello.
    pub(super) fn stream(&self, peer: SocketAddr, device: Option<&str>) -> Result<Socket, Error> {
        // It shares the listener's port: the kernel delivers to it all datagrams of the peer that it is
        // connected to.
        let socket = listener::bound(self.at, Type::DGRAM, self.only_v6, device, false)?;
        socket.connect(&peer.into()).attempted(|| format!("cannot connect a UDP stream to {peer}"))?;
        udp_stream::reply(&socket).attempted(|| format!("cannot reply {peer}"))?;
        Ok(socket)
    }
}
