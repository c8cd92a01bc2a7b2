//! Replies to STAMP packets with the time of their arrival, by the kernel's clock, and the time of the reply.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use os::realtime_ns;
use socket2::Socket;
use traffic::{Attempted, Error, ancillary, path_mtu::forbid_fragments};

use super::wire::{ErrorEstimate, Key, Reply, Request, ntp};

/// Assumed error of the reflector's times, ns: software time stamps. The clock is reported as not
/// synchronized.
const CLOCK_ERROR_NS: u64 = 50_000;
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
        let at = SocketAddr::new(address, port);
        let what = || format!("cannot listen for STAMP packets at {at}");
        let socket: Socket = UdpSocket::bind(at).attempted(what)?.into();
        ancillary::enable_arrival_info(&socket).attempted(what)?;
        forbid_fragments(&socket, at.is_ipv4())?;
        socket.set_read_timeout(Some(STOP_CHECK_INTERVAL)).attempted(what)?;
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
                Err(e) => return Err(e).attempted(|| "cannot receive STAMP packets".into()),
            };
            let Some(from) = datagram.from else { continue };
            let Some(request) = Request::from_bytes(&buffer[..datagram.length], self.key.as_ref()) else {
                continue;
            };
            let received = datagram.stamp_ns.unwrap_or_else(realtime_ns);
            let mut bytes = self.reply(&request, received, datagram.ttl.unwrap_or(255));
            // A reply is as long as its request (RFC 8762 section 4.3), so that both directions carry the
            // same load.
            bytes.resize(datagram.length.max(bytes.len()), 0);
            match self.socket.send_to(&bytes, &from.into()) {
                // Too large for the return path: it counts as lost there.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {}
                Err(e) if !ancillary::is_transient(&e) && e.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(e).attempted(|| format!("cannot reply to a STAMP packet of {from}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn reply(&self, request: &Request, received: i64, ttl: u8) -> Vec<u8> {
        let reply = Reply {
            sequence: request.sequence,
            stamp: ntp(realtime_ns()),
            error: ErrorEstimate::of(CLOCK_ERROR_NS, false),
            session: request.session,
            received: ntp(received),
            request: (request.sequence, request.stamp, request.error),
            ttl,
        };
        reply.to_bytes(self.key.as_ref())
    }
}
