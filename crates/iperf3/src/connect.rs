//! Connects to a host that has several addresses: an address that does not reply must not delay the others
//! (RFC 8305).

use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use socket2::{Socket, TcpKeepalive};
use traffic::{Attempted, Error as SystemError, begin_to_connect};

use crate::Error;

/// Time after which the next address is tried in parallel with the earlier ones (RFC 8305, section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Interval at which a wait checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A host that acknowledges no keepalive is unreachable: first probe, interval and number of probes. This is
/// detected after 30 s in every phase, including the wait in the server's queue.
pub(crate) const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(15))
    .with_interval(Duration::from_secs(5))
    .with_retries(3);

/// A connection that is being established.
struct Attempt {
    to: SocketAddr,
    socket: Socket,
    started: Instant,
}

/// Connects to the first of `addresses` that accepts; each attempt ends after `timeout`. `open` creates an
/// unconnected socket. The connection sends keepalives.
///
/// # Errors
/// If no address accepts: the last error. If `stop` is set.
pub(crate) fn connect_to_any(
    addresses: &[SocketAddr],
    timeout: Duration,
    stop: &AtomicBool,
    open: impl Fn(SocketAddr) -> Result<Socket, SystemError>,
) -> Result<Socket, Error> {
    let mut untried = alternating(addresses).into_iter();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failed: Option<Error> = None;
    let mut next_at = Instant::now();
    loop {
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        if (attempts.is_empty() || Instant::now() >= next_at)
            && let Some(to) = untried.next()
        {
            next_at = Instant::now() + ATTEMPT_DELAY;
            match begin(to, &open) {
                Ok((socket, true)) => return Ok(socket),
                Ok((socket, false)) => attempts.push(Attempt { to, socket, started: Instant::now() }),
                Err(error) => failed = Some(error),
            }
            continue;
        }
        if attempts.is_empty() {
            let none = || cannot_connect(None, io::ErrorKind::AddrNotAvailable.into());
            return Err(failed.unwrap_or_else(none));
        }
        let sockets: Vec<_> = attempts.iter().map(|attempt| attempt.socket.as_fd()).collect();
        let wait = match untried.len() {
            0 => STOP_CHECK_INTERVAL,
            _ => STOP_CHECK_INTERVAL.min(next_at.saturating_duration_since(Instant::now())),
        };
        let ready = os::wait_writable(&sockets, wait).attempted(|| "wait for a connection".into())?;
        let mut pending = Vec::new();
        for (attempt, is_ready) in attempts.into_iter().zip(ready) {
            let error = match is_ready {
                true => match attempt.socket.take_error() {
                    Ok(None) => return established(attempt.socket),
                    Ok(Some(error)) | Err(error) => error,
                },
                false if attempt.started.elapsed() >= timeout => io::ErrorKind::TimedOut.into(),
                false => {
                    pending.push(attempt);
                    continue;
                }
            };
            failed = Some(cannot_connect(Some(attempt.to), error));
            next_at = Instant::now();
        }
        attempts = pending;
    }
}

/// The addresses with alternating IP versions, beginning with that of the first address (RFC 8305, section
/// 4).
fn alternating(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut same, mut other): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().rev().partition(|address| address.is_ipv6() == first_is_v6);
    let mut all = Vec::new();
    while !same.is_empty() || !other.is_empty() {
        all.extend(same.pop());
        all.extend(other.pop());
    }
    all
}

/// Begins to connect; also returns whether the connection is established already.
fn begin(
    to: SocketAddr,
    open: &impl Fn(SocketAddr) -> Result<Socket, SystemError>,
) -> Result<(Socket, bool), Error> {
    let socket = open(to)?;
    match begin_to_connect(&socket, to).map_err(|error| cannot_connect(Some(to), error))? {
        true => Ok((established(socket)?, true)),
        false => Ok((socket, false)),
    }
}

fn established(socket: Socket) -> Result<Socket, Error> {
    socket.set_tcp_keepalive(&KEEPALIVE).attempted(|| "set up a socket".into())?;
    socket.set_nonblocking(false).attempted(|| "set up a socket".into())?;
    Ok(socket)
}

fn cannot_connect(to: Option<SocketAddr>, error: io::Error) -> Error {
    let failed: Result<(), SystemError> = Err(error).attempted(|| match to {
        Some(to) => format!("connect to {to}"),
        None => "connect".into(),
    });
    failed.map_or_else(Error::from, |()| Error::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Type};

    use super::*;

    static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

    fn open(to: SocketAddr) -> Result<Socket, SystemError> {
        Socket::new(Domain::for_address(to), Type::STREAM, None).attempted(|| "create a socket".into())
    }

    /// A port whose backlog is full, so the kernel does not reply to a SYN. The returned sockets keep it
    /// full.
    fn silent_port() -> (SocketAddr, Vec<Socket>) {
        let listener = open("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let to = listener.local_addr().unwrap().as_socket().unwrap();
        let mut sockets = vec![listener];
        for _ in 0..4 {
            let socket = open(to).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&to.into());
            sockets.push(socket);
        }
        (to, sockets)
    }

    #[test]
    fn a_silent_address_does_not_delay_the_next() {
        let (silent, _sockets) = silent_port();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let begin = Instant::now();
        let long = Duration::from_secs(300);
        let socket = connect_to_any(&[silent, good], long, &NOT_STOPPED, open).unwrap();
        assert_eq!(socket.peer_addr().unwrap().as_socket(), Some(good));
        assert!(begin.elapsed() < long / 2, "it does not wait for the silent address");
        // Alone it times out, and the error names the address.
        let error = connect_to_any(&[silent], Duration::from_millis(300), &NOT_STOPPED, open).unwrap_err();
        assert!(error.to_string().contains(&format!("cannot connect to {silent}")), "{error}");
    }

    #[test]
    fn refused_addresses_are_skipped_at_once_and_a_stop_ends_the_wait() {
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let socket = connect_to_any(&[refusing, good], Duration::from_secs(60), &NOT_STOPPED, open).unwrap();
        assert_eq!(socket.peer_addr().unwrap().as_socket(), Some(good));
        assert!(connect_to_any(&[refusing], Duration::from_secs(60), &NOT_STOPPED, open).is_err());
        let stopped = AtomicBool::new(true);
        let (silent, _sockets) = silent_port();
        let ended = connect_to_any(&[silent], Duration::from_secs(60), &stopped, open);
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    }

    #[test]
    fn ip_versions_alternate() {
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1", "127.0.0.2:1"].map(|a| a.parse().unwrap());
        let order: Vec<String> = alternating(&all).iter().map(ToString::to_string).collect();
        assert_eq!(order, ["[::1]:1", "127.0.0.1:1", "[::2]:1", "127.0.0.2:1", "[::3]:1"]);
    }
}
