//! The client's end: it listens, and requests connections from the server over its standby connection.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use socket2::{Socket, Type};
use traffic::{Attempted, Error as SystemError};

use super::{Kind, REQUEST_BYTES, STANDBY_PREFIX, set_up_standby};
use crate::{
    Error, control,
    greeting::{Greeting, Progress},
    listening_socket::{bound, listen_on},
    wire::{COOKIE_BYTES, Cookie},
};

/// The word that replaces the name or address of a server which connects to this machine.
pub const LISTEN: &str = "listen";
/// Time to wait for a standby connection of a server.
pub const STANDBY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time from a connection to its complete cookie.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections without a complete cookie; beyond it the oldest is closed.
const GREETINGS_MAX: usize = 64;
/// Pause after a failed accept(2), which could otherwise fail in a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which deadlines are checked.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// A port at which this process listens for a server.
#[derive(Debug)]
pub struct ReverseListener {
    tcp: Socket,
    udp: UdpSocket,
    at: SocketAddr,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The standby connection of the server, and the server's address.
    standby: Option<(Socket, SocketAddr)>,
    greetings: Vec<Greeting>,
    /// Number of accepted connections.
    connections: u64,
}

/// This process' listener at a port, which listens from its first use until the process ends: a server stays
/// connected from one test to the next.
///
/// # Errors
/// If the port cannot be used.
pub fn listener(port: u16) -> Result<Arc<ReverseListener>, Error> {
    static LISTENERS: Mutex<BTreeMap<u16, Arc<ReverseListener>>> = Mutex::new(BTreeMap::new());
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(listener) = listeners.get(&port) {
        return Ok(listener.clone());
    }
    let listener = Arc::new(ReverseListener::bind(port)?);
    listeners.insert(port, listener.clone());
    Ok(listener)
}

impl ReverseListener {
    /// Listens at all addresses.
    fn bind(port: u16) -> Result<Self, SystemError> {
        let any = |ip: IpAddr| {
            let at = SocketAddr::new(ip, port);
            Ok((listen_on(bound(at, Type::STREAM, false, None, false)?, at)?, at))
        };
        let (tcp, at) = any(IpAddr::from([0; 16])).or_else(|_: SystemError| any(IpAddr::from([0; 4])))?;
        let what = || format!("listen at {at}");
        let at = tcp.local_addr().attempted(what)?.as_socket().unwrap_or(at);
        let udp: UdpSocket = bound(at, Type::DGRAM, false, None, false)?.into();
        udp.set_nonblocking(true).attempted(what)?;
        Ok(ReverseListener { tcp, udp, at, state: Mutex::default() })
    }

    /// A new connection to the server, or a UDP socket if `datagrams`. Waits up to `timeout`, and up to a
    /// minute more if no server has a standby connection.
    ///
    /// # Errors
    /// If no server connects in time, or `stop` is set.
    pub(crate) fn open(
        &self,
        datagrams: bool,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<Socket, Error> {
        let kind = if datagrams { Kind::Udp } else { Kind::Tcp };
        let cookie = control::new_cookie()?;
        let mut state = self.state();
        // Detects that the server has closed its connection, or that another server has connected.
        self.poll(&mut state, None, Duration::ZERO)?;
        let begin = Instant::now();
        let mut requested: Option<Instant> = None;
        loop {
            if stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if state.standby.is_none() {
                requested = None;
                if begin.elapsed() >= STANDBY_TIMEOUT {
                    return Err(Error::NoReverseServer { port: self.at.port(), after: STANDBY_TIMEOUT });
                }
            } else if requested.is_none() {
                requested = Some(Instant::now());
                if !state.request(kind, &cookie) {
                    state.standby = None;
                }
            }
            if requested.is_some_and(|at| at.elapsed() >= timeout) {
                return Err(Error::Timeout { what: "reverse connection of the server", after: timeout });
            }
            if let Some(socket) = self.poll(&mut state, Some((kind, &cookie)), POLL_TIMEOUT)? {
                socket.set_nonblocking(false).attempted(|| "set up a reverse connection".into())?;
                return Ok(socket);
            }
        }
    }

    /// The address of the server with the standby connection; waits up to `timeout` for one.
    ///
    /// # Errors
    /// If none connects in time, or `stop` is set.
    pub fn server(&self, timeout: Duration, stop: &AtomicBool) -> Result<IpAddr, Error> {
        let mut state = self.state();
        let begin = Instant::now();
        loop {
            self.poll(&mut state, None, POLL_TIMEOUT)?;
            match &state.standby {
                Some((_, peer)) => return Ok(peer.ip().to_canonical()),
                None if stop.load(Ordering::Acquire) => return Err(Error::Interrupted),
                None if begin.elapsed() >= timeout => {
                    return Err(Error::NoReverseServer { port: self.at.port(), after: timeout });
                }
                None => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for events and handles them; returns the requested socket once it is connected.
    fn poll(
        &self,
        state: &mut State,
        wanted: Option<(Kind, &Cookie)>,
        timeout: Duration,
    ) -> Result<Option<Socket>, Error> {
        let mut files = vec![self.tcp.as_fd(), self.udp.as_fd()];
        files.extend(state.greetings.iter().map(Greeting::fd));
        files.extend(state.standby.iter().map(|(socket, _)| socket.as_fd()));
        let ready = os::wait_any(&files, timeout).attempted(|| "wait for reverse connections".into())?;
        drop(files);
        let greeting_count = state.greetings.len();
        if ready.get(2 + greeting_count) == Some(&true) && state.is_closed() {
            state.standby = None;
        }
        let mut found = None;
        for (index, mut greeting) in std::mem::take(&mut state.greetings).into_iter().enumerate() {
            let progress = if ready[2 + index] { greeting.read() } else { Progress::Partial };
            match progress {
                Progress::Partial if greeting.since.elapsed() < GREETING_TIMEOUT => {
                    state.greetings.push(greeting);
                }
                Progress::Complete(cookie) if wanted == Some((Kind::Tcp, &cookie)) => {
                    found = Some(greeting.socket);
                }
                Progress::Complete(cookie) if cookie.as_str().starts_with(STANDBY_PREFIX) => {
                    state.stand_by(greeting.socket, greeting.peer);
                }
                _ => {}
            }
        }
        if ready[0] {
            self.accept(state);
        }
        if ready[1]
            && let Some(socket) = self.receive(wanted)?
        {
            found = Some(socket);
        }
        Ok(found)
    }

    fn accept(&self, state: &mut State) {
        loop {
            let (socket, peer) = match self.tcp.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {
                    continue;
                }
                Err(_) => {
                    // Out of descriptors or memory: the pending connection keeps the socket readable.
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            };
            let Some(peer) = peer.as_socket() else { continue };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            if state.greetings.len() >= GREETINGS_MAX {
                state.greetings.remove(0);
            }
            state.connections += 1;
            state.greetings.push(Greeting::new(socket, peer, state.connections, Instant::now()));
        }
    }

    /// Reads datagrams. For one with the requested cookie, creates a socket that is connected to its sender.
    fn receive(&self, wanted: Option<(Kind, &Cookie)>) -> Result<Option<Socket>, SystemError> {
        let mut bytes = [0; COOKIE_BYTES + 1];
        while let Ok((len, from)) = self.udp.recv_from(&mut bytes) {
            if wanted.is_some_and(|(kind, cookie)| kind == Kind::Udp && bytes[..len] == *cookie.as_bytes()) {
                let socket = bound(self.at, Type::DGRAM, false, None, false)?;
                socket.connect(&from.into()).attempted(|| "connect a UDP stream".into())?;
                return Ok(Some(socket));
            }
        }
        Ok(None)
    }
}

impl State {
    /// Adds a standby connection of a server; it replaces one from the same address, whose server has
    /// restarted.
    fn stand_by(&mut self, socket: Socket, peer: SocketAddr) {
        let is_free = self.standby.as_ref().is_none_or(|(_, other)| other.ip() == peer.ip());
        if is_free && set_up_standby(&socket).is_ok() {
            self.standby = Some((socket, peer));
        }
    }

    /// Requests a connection; false if the standby connection is broken.
    fn request(&self, kind: Kind, cookie: &Cookie) -> bool {
        let mut bytes = [kind.byte(); REQUEST_BYTES];
        bytes[1..].copy_from_slice(cookie.as_bytes());
        // Fits into the buffer of an idle connection.
        self.standby.as_ref().is_some_and(|(socket, _)| {
            (&mut &*socket).write(&bytes).is_ok_and(|written| written == REQUEST_BYTES)
        })
    }

    /// Whether the server has closed its standby connection, on which it sends nothing.
    fn is_closed(&self) -> bool {
        self.standby.as_ref().is_some_and(|(socket, _)| match (&mut &*socket).read(&mut [0]) {
            Ok(_) => true,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn stand_by(port: u16) -> TcpStream {
        let mut standby = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut cookie = [b'x'; COOKIE_BYTES];
        cookie[..STANDBY_PREFIX.len()].copy_from_slice(STANDBY_PREFIX.as_bytes());
        cookie[COOKIE_BYTES - 1] = 0;
        standby.write_all(&cookie).unwrap();
        standby
    }

    fn requested(standby: &mut TcpStream) -> (u8, Vec<u8>) {
        let mut request = [0; REQUEST_BYTES];
        standby.read_exact(&mut request).unwrap();
        (request[0], request[1..].to_vec())
    }

    #[test]
    fn only_a_connection_with_the_requested_cookie_is_used() {
        let listener = ReverseListener::bind(0).unwrap();
        let port = listener.at.port();
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| listener.open(false, Duration::from_secs(10), &STOP));
            // One connection sends nothing, and one sends another cookie.
            let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut standby = stand_by(port);
            let (kind, cookie) = requested(&mut standby);
            assert_eq!(kind, b'T');
            let mut wrong = TcpStream::connect(("127.0.0.1", port)).unwrap();
            wrong.write_all(&[b'a'; COOKIE_BYTES - 1]).unwrap();
            wrong.write_all(&[0]).unwrap();
            assert_eq!(wrong.read(&mut [0]).unwrap_or(0), 0, "it is closed");
            let mut right = TcpStream::connect(("127.0.0.1", port)).unwrap();
            right.write_all(&cookie).unwrap();
            let socket = opened.join().unwrap().unwrap();
            right.write_all(b"y").unwrap();
            let mut byte = [0];
            std::io::Read::read_exact(&mut &socket, &mut byte).unwrap();
            assert_eq!(&byte, b"y");
        });
    }

    #[test]
    fn the_request_is_repeated_to_a_restarted_server() {
        let listener = ReverseListener::bind(0).unwrap();
        let port = listener.at.port();
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| listener.open(true, Duration::from_secs(10), &STOP));
            let mut first = stand_by(port);
            assert_eq!(requested(&mut first).0, b'U');
            drop(first);
            let mut second = stand_by(port);
            let (_, cookie) = requested(&mut second);
            let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            datagrams.send_to(b"noise", ("127.0.0.1", port)).unwrap();
            datagrams.send_to(&cookie, ("127.0.0.1", port)).unwrap();
            let socket = opened.join().unwrap().unwrap();
            let peer = socket.peer_addr().unwrap().as_socket().unwrap();
            assert_eq!(peer.port(), datagrams.local_addr().unwrap().port());
        });
    }
}
