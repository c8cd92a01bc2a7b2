//! The server's end: it keeps a standby connection to the client, and opens what the client requests.

use std::{
    io::{ErrorKind, PipeWriter, Read, Write},
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::Sender,
    },
    time::{Duration, Instant},
};

use socket2::Socket;
use traffic::Attempted;

use super::{Kind, REQUEST_BYTES, STANDBY_PREFIX, set_up_standby, target::ReverseTarget};
use crate::{
    Error, control,
    spec::Protocol,
    udp_stream,
    wire::{COOKIE_BYTES, Cookie},
};

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the client's first datagram on a UDP socket.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A datagram with a cookie is repeated after this time.
const COOKIE_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two attempts to reach the client, at first and at most.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
/// Interval at which a wait checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of requests that are being served.
const REQUESTS_MAX: usize = 64;

/// The server's end of the connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalEnd<'a> {
    /// The local address.
    pub bind: Option<IpAddr>,
    /// The local device.
    pub device: Option<&'a str>,
}

/// A socket that was opened on a client's request.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub socket: Socket,
    pub peer: SocketAddr,
    /// A UDP socket, whose client has sent its hello and has the reply.
    pub is_datagrams: bool,
}

/// Passes opened sockets to the server.
#[derive(Debug, Clone)]
pub(crate) struct Outlet<'a> {
    pub dialed: Sender<Dialed>,
    /// Wakes the receiver.
    pub wake: &'a PipeWriter,
}

impl Outlet<'_> {
    fn put(&self, dialed: Dialed) {
        // An error means that the server has ended.
        if self.dialed.send(dialed).is_ok() {
            // A full pipe also wakes it.
            let _ = (&mut &*self.wake).write(&[0]);
        }
    }
}

/// Keeps a standby connection to the client until `stopped`; connects again if the connection is lost or the
/// client does not listen yet.
pub(crate) fn stand_by(
    target: &ReverseTarget,
    local: LocalEnd<'_>,
    stopped: &(dyn Fn() -> bool + Sync),
    note: &(dyn Fn(&str) + Sync),
    outlet: &Outlet<'_>,
) {
    let [first, most] = RETRY_INTERVALS;
    let mut interval = first;
    let mut noted = String::new();
    while !stopped() {
        match connect(target, local) {
            Ok((standby, peer)) => {
                note(&format!("standing by for {target}, which may request tests"));
                serve(standby, peer, local, stopped, outlet);
                (interval, noted) = (first, String::new());
            }
            Err(error) => {
                let text = format!("cannot keep a standby connection to {target}: {error}; trying again");
                if noted != text {
                    note(&text);
                    noted = text;
                }
            }
        }
        let retry = Instant::now() + interval;
        while !stopped() && Instant::now() < retry {
            std::thread::sleep(STOP_CHECK_INTERVAL.min(interval));
        }
        interval = (interval * 2).min(most);
    }
}

/// Opens a standby connection to the first of the client's addresses that accepts it.
fn connect(target: &ReverseTarget, local: LocalEnd<'_>) -> Result<(Socket, SocketAddr), Error> {
    let no_address = |reason: String| Error::NoAddress { host: target.host.clone(), reason };
    let found =
        (target.host.as_str(), target.port).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let mut failed = None;
    for peer in found.filter(|peer| local.bind.is_none_or(|bind| bind.is_ipv4() == peer.is_ipv4())) {
        match control::connect(peer, local.from(), local.device, CONNECT_TIMEOUT) {
            Ok(socket) => {
                let what = || "set up the standby connection".to_string();
                let mut cookie = *control::new_cookie()?.as_bytes();
                cookie[..STANDBY_PREFIX.len()].copy_from_slice(STANDBY_PREFIX.as_bytes());
                (&socket).write_all(&cookie).attempted(what)?;
                set_up_standby(&socket).attempted(what)?;
                return Ok((socket, peer));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| no_address("no address of the server's IP version".into())))
}

impl LocalEnd<'_> {
    fn from(self) -> Option<SocketAddr> {
        self.bind.map(|ip| SocketAddr::new(ip, 0))
    }
}

/// Opens what the client requests, until it closes the connection or sends something else.
fn serve(
    standby: Socket,
    peer: SocketAddr,
    local: LocalEnd<'_>,
    stopped: &(dyn Fn() -> bool + Sync),
    outlet: &Outlet<'_>,
) {
    let active = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut request = [0; REQUEST_BYTES];
        let mut have = 0;
        while !stopped() {
            match os::wait_readable(&standby, STOP_CHECK_INTERVAL) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return,
            }
            match (&standby).read(&mut request[have..]) {
                Ok(0) => return,
                Ok(n) => have += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
            if have < REQUEST_BYTES {
                continue;
            }
            have = 0;
            let mut cookie = [0; COOKIE_BYTES];
            cookie.copy_from_slice(&request[1..]);
            let (Some(kind), Some(cookie)) = (Kind::of(request[0]), Cookie::from_wire(cookie)) else {
                return;
            };
            if active.fetch_add(1, Ordering::AcqRel) >= REQUESTS_MAX {
                return;
            }
            let (active, outlet) = (&active, outlet.clone());
            scope.spawn(move || {
                // If it fails, the client's request times out.
                if let Ok(Some(socket)) = open(kind, &cookie, peer, local, stopped) {
                    outlet.put(Dialed { socket, peer, is_datagrams: kind == Kind::Udp });
                }
                active.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

/// Opens a connection, or a UDP socket to which the client has replied.
fn open(
    kind: Kind,
    cookie: &Cookie,
    peer: SocketAddr,
    local: LocalEnd<'_>,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Socket>, Error> {
    let what = || format!("open a reverse connection to {peer}");
    if kind == Kind::Tcp {
        let socket = control::connect(peer, local.from(), local.device, CONNECT_TIMEOUT)?;
        (&socket).write_all(cookie.as_bytes()).attempted(what)?;
        socket.set_nonblocking(true).attempted(what)?;
        return Ok(Some(socket));
    }
    let socket = control::new_socket(peer, local.from(), local.device, Protocol::Udp)?;
    socket.connect(&peer.into()).attempted(what)?;
    let begin = Instant::now();
    while begin.elapsed() < HELLO_TIMEOUT && !stopped() {
        // An earlier datagram may have been rejected.
        let _ = socket.send(cookie.as_bytes());
        if os::wait_readable(&socket, COOKIE_INTERVAL).attempted(what)?
            && (&socket).read(&mut [0; 64]).is_ok()
        {
            udp_stream::reply_to_hello(&socket).attempted(what)?;
            return Ok(Some(socket));
        }
    }
    Ok(None)
}
