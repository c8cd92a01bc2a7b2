//! The listening socket, and its renewal: connections inherit the sizes of its buffers, which it has had since it was made, so
//! that changed sysctls (`tcp_rmem`, `tcp_wmem`) apply only to the connections of a new one.

use std::{
    io::{PipeWriter, Write},
    net::{IpAddr, SocketAddr},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use socket2::{Domain, Socket, Type};
use traffic::{Attempted, Error as SystemError};

use super::ServerOptions;
use crate::{Error, IpVersion};

/// The kernel's backlog of connections (listen(2)).
const BACKLOG: i32 = 1024;

/// The socket for the options' address and port.
pub(super) fn listen_at_any(options: &ServerOptions, port: u16) -> Result<Socket, SystemError> {
    let any_v4 = IpAddr::from([0; 4]);
    let any_v6 = IpAddr::from([0; 16]);
    let listen = |ip| listen(SocketAddr::new(ip, port), options, false);
    match (options.bind, options.ip) {
        (Some(ip), _) => listen(ip),
        (None, Some(IpVersion::V4)) => listen(any_v4),
        (None, Some(IpVersion::V6)) => listen(any_v6),
        // One socket for both IP versions, or IPv4 on machines without IPv6.
        (None, None) => listen(any_v6).or_else(|_| listen(any_v4)),
    }
}

/// A second socket at the address of `old`, which may be closed then: no connection is refused in between.
pub(super) fn listen_on_same_port(old: &Socket, options: &ServerOptions) -> Result<Socket, SystemError> {
    let what = || "cannot renew the listening socket".to_string();
    let at = old
        .local_addr()
        .attempted(what)?
        .as_socket()
        .ok_or(std::io::ErrorKind::Unsupported.into())
        .attempted(what)?;
    old.set_reuse_port(true).attempted(what)?;
    listen(at, options, true)
}

fn listen(at: SocketAddr, options: &ServerOptions, reuses_port: bool) -> Result<Socket, SystemError> {
    let alone = options.ip == Some(IpVersion::V6) || options.bind.is_some();
    listen_on(bound(at, Type::STREAM, alone, options.device.as_deref(), reuses_port)?, at)
}

/// Listens, without blocking, on a socket that is bound to `at`.
pub(crate) fn listen_on(socket: Socket, at: SocketAddr) -> Result<Socket, SystemError> {
    let what = || format!("cannot listen at {at}");
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
    let what = || format!("cannot listen at {at}");
    let socket = Socket::new(Domain::for_address(at), kind, None).attempted(what)?;
    if at.is_ipv6() {
        socket.set_only_v6(only_v6).attempted(what)?;
    }
    if let Some(device) = device {
        socket
            .bind_device(Some(device.as_bytes()))
            .attempted(|| format!("cannot bind to device {device}"))?;
    }
    socket.set_reuse_address(true).attempted(what)?;
    if reuses_port {
        socket.set_reuse_port(true).attempted(what)?;
    }
    socket.bind(&at.into()).attempted(what)?;
    Ok(socket)
}

/// Lets a session wait until the router has renewed the listening socket.
#[derive(Debug)]
pub(crate) struct Renewal {
    state: Mutex<RenewalState>,
    changed: Condvar,
    /// Wakes the router.
    wake: PipeWriter,
}

#[derive(Debug, Default)]
struct RenewalState {
    requested: u64,
    done: u64,
    failure: Option<String>,
}

impl Renewal {
    pub(super) fn new(wake: PipeWriter) -> Self {
        Renewal { state: Mutex::default(), changed: Condvar::new(), wake }
    }

    /// For a session: requests a renewal, and waits for it up to `timeout`.
    pub(crate) fn request(&self, timeout: Duration) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requested += 1;
        let own = state.requested;
        // A full pipe also wakes it.
        let _ = (&self.wake).write(&[0]);
        let waited = self.changed.wait_timeout_while(state, timeout, |state| state.done < own);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.failure {
            Some(reason) => Err(Error::Rejected(reason.clone())),
            None if result.timed_out() => {
                Err(Error::Timeout { what: "new listening socket", after: timeout })
            }
            None => Ok(()),
        }
    }

    /// For the router: renews the socket if a session requests it.
    pub(super) fn renew_if_requested(&self, renew: impl FnOnce() -> Result<(), SystemError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.done < state.requested {
            state.failure = renew().err().map(|error| error.to_string());
            state.done = state.requested;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, time::Instant};

    use super::*;

    fn accepts(listener: &Socket) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            if listener.accept().is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn a_renewed_socket_takes_over_the_port() {
        let options = ServerOptions { bind: Some(IpAddr::from([127, 0, 0, 1])), ..ServerOptions::default() };
        let old = listen_at_any(&options, 0).unwrap();
        let at = old.local_addr().unwrap().as_socket().unwrap();
        let _early = TcpStream::connect(at).unwrap();
        let new = listen_on_same_port(&old, &options).unwrap();
        assert!(accepts(&old), "a completed connection is not lost");
        drop(old);
        let _late = TcpStream::connect(at).unwrap();
        assert!(accepts(&new));
        // The port still belongs to one server.
        assert!(listen_at_any(&options, at.port()).is_err());
        let _third = listen_on_same_port(&new, &options).unwrap();
    }

    #[test]
    fn a_renewal_without_a_router_ends_with_a_timeout() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let renewal = Renewal::new(writer);
        assert!(matches!(renewal.request(Duration::from_millis(10)), Err(Error::Timeout { .. })));
        renewal.renew_if_requested(|| Ok(()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| renewal.request(Duration::from_secs(10)));
            while !waits.is_finished() {
                renewal.renew_if_requested(|| Ok(()));
            }
            assert!(waits.join().unwrap().is_ok());
        });
    }
}
