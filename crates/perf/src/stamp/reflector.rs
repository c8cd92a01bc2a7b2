//! Answers STAMP packets: when each came by the kernel's clock, and when the answer leaves.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use socket2::Socket;

use super::wire::{ErrorEstimate, Key, Reply, Request, ntp};
use crate::{Error, error::Attempted, probe::forbid_fragments, told, udp::sys::realtime_ns};

/// How exact the reflector's times are: software stamps of a clock that nobody says is synchronised, ns.
const EXACT_TO_NS: u64 = 50_000;
/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(100);
/// The largest packet that is read: one of jumbo frames.
const ROOM: usize = 9216;

/// A reflector that listens.
#[derive(Debug)]
pub struct Reflector {
    socket: Socket,
    key: Option<Key>,
}

impl Reflector {
    /// Listens; with a key it answers only those who have it.
    pub fn bind(address: IpAddr, port: u16, key: Option<Key>) -> Result<Reflector, Error> {
        let at = SocketAddr::new(address, port);
        let what = || format!("cannot listen for STAMP packets at {at}");
        let socket: Socket = UdpSocket::bind(at).attempted(what)?.into();
        told::tell_origins(&socket).attempted(what)?;
        forbid_fragments(&socket, at.is_ipv4())?;
        socket.set_read_timeout(Some(NAP)).attempted(what)?;
        Ok(Reflector { socket, key })
    }

    /// Where it listens.
    pub fn port(&self) -> Option<u16> {
        self.socket.local_addr().ok()?.as_socket().map(|at| at.port())
    }

    /// Answers until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> Result<(), Error> {
        let mut buffer = vec![0; ROOM];
        while !stop.load(Ordering::Acquire) {
            let came = match told::receive_told(&self.socket, &mut buffer, 0) {
                Ok(came) => came,
                // An answer of ours that nobody took comes back as an error.
                Err(e) if told::is_passing(&e) => continue,
                Err(e) => return Err(e).attempted(|| "cannot receive STAMP packets".into()),
            };
            let Some(from) = came.from else { continue };
            let Some(request) = Request::from_bytes(&buffer[..came.length], self.key.as_ref()) else {
                continue;
            };
            let received = came.stamp_ns.unwrap_or_else(realtime_ns);
            let mut bytes = self.answer(&request, received, came.ttl.unwrap_or(255));
            // An answer is as long as what it answers (RFC 8762 section 4.3), so that both ways carry the same.
            bytes.resize(came.length.max(bytes.len()), 0);
            match self.socket.send_to(&bytes, &from.into()) {
                // Too large for the way back: it counts as lost there.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {}
                Err(e) if !told::is_passing(&e) && e.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(e).attempted(|| format!("cannot answer a STAMP packet of {from}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request, received: i64, ttl: u8) -> Vec<u8> {
        let reply = Reply {
            sequence: request.sequence,
            stamp: ntp(realtime_ns()),
            error: ErrorEstimate::of(EXACT_TO_NS, false),
            session: request.session,
            received: ntp(received),
            request: (request.sequence, request.stamp, request.error),
            ttl,
        };
        reply.to_bytes(self.key.as_ref())
    }
}
