//! The UDP side of a server's port: a client's hello makes a stream of the test that waits for one from its address, and latency
//! probes of a test under way are answered.

use std::{net::SocketAddr, time::Duration};

use socket2::{Socket, Type};

use super::router;
use crate::{
    Error,
    error::Attempted,
    iperf3::{
        IpVersion, udp_stream,
        wire::{ECHO_BYTES, Echo},
    },
    sys,
};

/// What a datagram wants.
pub(super) enum Said {
    /// A stream; what it says does not matter.
    Hello,
    /// An answer.
    Echo {
        question: Echo,
        /// When it came, as the kernel stamped it.
        at: Duration,
    },
}

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
        let what = || format!("cannot listen for datagrams at {at}");
        sys::stamp_arrivals(&socket).attempted(what)?;
        // Neither questions nor answers hold the router up.
        socket.set_nonblocking(true).attempted(what)?;
        Ok(Hellos { socket, at, only_v6 })
    }

    /// The socket to wait for.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next datagram.
    pub(super) fn next(&self) -> Option<(SocketAddr, Said)> {
        let mut bytes = [0; ECHO_BYTES + 1];
        let (len, at, from) = sys::receive_stamped_from(&self.socket, &mut bytes).ok()?;
        let said = match Echo::from_bytes(&bytes[..len]) {
            Some(question) => Said::Echo { question, at: at.unwrap_or_else(sys::wall_clock) },
            None => Said::Hello,
        };
        Some((from.as_socket()?, said))
    }

    /// Answers a probe that came `at` this time.
    pub(super) fn answer(&self, to: SocketAddr, question: Echo, at: Duration) {
        let answer = Echo { held: sys::wall_clock().saturating_sub(at), ..question };
        // What cannot be sent is lost, as on the way.
        let _ = self.socket.send_to(&answer.to_bytes(), &to.into());
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
