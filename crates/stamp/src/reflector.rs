//! Replies to packets of STAMP and TWAMP Light (RFC 5357 appendix I) with the time of their arrival, by the
//! kernel's clock, and the time of the reply.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use os::realtime_ns;
use socket2::Socket;
use traffic::{
    Attempted, Error,
    ancillary::{self, ReceivedDatagram},
};

use super::{
    test_socket::{self, own_error},
    wire::{Key, Reply, Request, SHORTEST_REPLY_BYTES, ntp},
};

/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum size of a packet: a jumbo frame, bytes.
const MAX_PACKET_BYTES: usize = 9216;

/// A listening reflector.
#[derive(Debug)]
pub struct Reflector {
    socket: Socket,
    key: Option<Key>,
}

impl Reflector {
    /// Starts listening. With a key the reflector replies only to packets authenticated with that key.
    ///
    /// # Errors
    /// If the address or port cannot be used.
    pub fn bind(address: IpAddr, port: u16, key: Option<Key>) -> Result<Reflector, Error> {
        let socket = test_socket::open(SocketAddr::new(address, port))?;
        ancillary::enable_destination(&socket).attempted(|| "set up a UDP socket".into())?;
        socket
            .set_read_timeout(Some(STOP_CHECK_INTERVAL))
            .attempted(|| "set the timeout of a UDP socket".into())?;
        Ok(Reflector { socket, key })
    }

    /// The UDP port of the reflector.
    pub fn port(&self) -> Option<u16> {
        self.socket.local_addr().ok()?.as_socket().map(|at| at.port())
    }

    /// Replies until `stop` is set.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn run(&self, stop: &AtomicBool) -> Result<(), Error> {
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        while !stop.load(Ordering::Acquire) {
            let datagram = match ancillary::receive_with_ancillary(&self.socket, &mut buffer, 0) {
                Ok(datagram) => datagram,
                // An earlier reply was rejected by the sender's host.
                Err(e) if ancillary::is_transient(&e) => continue,
                Err(e) => return Err(e).attempted(|| "receive STAMP packets".into()),
            };
            let Some(from) = datagram.from else { continue };
            let Some(request) = Request::from_bytes(&buffer[..datagram.length], self.key.as_ref()) else {
                continue;
            };
            // A packet shorter than a reply gets none: an unverified sender would get more bytes than it
            // sent. Two reflectors would also reply to each other's replies forever.
            let is_reply = Reply::from_bytes(&buffer[..datagram.length], self.key.as_ref())
                .is_some_and(|reply| reply.has_times_of_one_clock());
            if datagram.length < SHORTEST_REPLY_BYTES || is_reply {
                continue;
            }
            let mut bytes = reply(&request, request.sequence, request.session, &datagram, self.key.as_ref());
            // A reply is as long as its request (RFC 8762 section 4.3), so that both directions carry the
            // same load.
            bytes.resize(datagram.length, 0);
            // No packet of a peer ends the reflector: for example, a port 0 is an invalid argument.
            let _ = ancillary::send_from(&self.socket, &bytes, from, datagram.to);
        }
        Ok(())
    }
}

/// The reply to a datagram, with its own sequence number and session identifier.
pub(crate) fn reply(
    request: &Request,
    sequence: u32,
    session: u16,
    datagram: &ReceivedDatagram,
    key: Option<&Key>,
) -> Vec<u8> {
    let reply = Reply {
        sequence,
        stamp: ntp(realtime_ns()),
        error: own_error(),
        session,
        received: ntp(datagram.stamp_ns.unwrap_or_else(realtime_ns)),
        request: (request.sequence, request.stamp, request.error),
        ttl: datagram.ttl.unwrap_or(255),
    };
    reply.to_bytes(key)
}
