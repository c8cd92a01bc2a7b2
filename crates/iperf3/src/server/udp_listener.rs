//! The UDP side of a server's port: a client's hello becomes a stream of the test that waits for one from its
//! address; latency probes of a running test get a reply.

use std::{net::SocketAddr, time::Duration};

use socket2::{Socket, Type};
use traffic::{
    Attempted, Error,
    ancillary::{self, OwnAddress},
    sys,
};

use crate::{
    IpVersion,
    listening_socket::bound,
    udp_stream,
    wire::{LATENCY_ECHO_BYTES, LatencyEcho},
};

/// Length of the hello of iperf3 and of this program.
const HELLO_BYTES: usize = 4;

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
        /// When it arrived, by the kernel's timestamp.
        at: Duration,
    },
}

/// The ends of a received datagram.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    to: Option<OwnAddress>,
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
        let socket = bound(at, Type::DGRAM, only_v6, device, false)?;
        let what = || format!("listen for datagrams at {at}");
        sys::enable_arrival_stamps(&socket).attempted(what)?;
        ancillary::enable_destination(&socket).attempted(what)?;
        // Neither requests nor replies block the router.
        socket.set_nonblocking(true).attempted(what)?;
        Ok(UdpListener { socket, at, only_v6 })
    }

    /// The socket to poll.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next datagram. It has no request if it is neither a hello nor a probe, for example the last data
    /// of an ended test.
    pub(super) fn next(&self) -> Option<(Datagram, Option<UdpRequest>)> {
        let mut bytes = [0; LATENCY_ECHO_BYTES + 1];
        let received =
            ancillary::receive_with_ancillary(&self.socket, &mut bytes, libc::MSG_DONTWAIT).ok()?;
        let content = &bytes[..received.length];
        let request = match LatencyEcho::from_bytes(content) {
            Some(request) => {
                let at = received.stamp_ns.and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos);
                Some(UdpRequest::Echo { request, at: at.unwrap_or_else(os::realtime) })
            }
            None if content.len() == HELLO_BYTES => {
                Some(UdpRequest::Hello { is_of_service: udp_stream::is_hello(content) })
            }
            None => None,
        };
        Some((Datagram { from: received.from?, to: received.to }, request))
    }

    /// Replies to a probe that arrived `at` this time.
    pub(super) fn reply(&self, datagram: Datagram, request: LatencyEcho, at: Duration) {
        let reply = LatencyEcho { held: os::realtime().saturating_sub(at), ..request };
        // A reply that cannot be sent counts as lost on the path.
        let _ = ancillary::send_from(&self.socket, &reply.to_bytes(), datagram.from, datagram.to);
    }

    /// Opens a socket for the stream of the hello's sender only, and sends the reply.
    pub(super) fn stream(&self, hello: Datagram, device: Option<&str>) -> Result<Socket, Error> {
        // The socket shares the listener's port: the kernel delivers to it all datagrams of the peer that it
        // is connected to. Its address is the one that the peer uses, because the route may select another
        // address of this host.
        let (peer, at) = (hello.from, hello.to.map_or(self.at, |own| own.with_port(self.at.port())));
        let socket = bound(at, Type::DGRAM, self.only_v6, device, false)?;
        socket.connect(&peer.into()).attempted(|| format!("connect a UDP stream to {peer}"))?;
        udp_stream::reply_to_hello(&socket).attempted(|| format!("reply {peer}"))?;
        Ok(socket)
    }
}
