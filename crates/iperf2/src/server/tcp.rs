//! One TCP connection of a client: its header, then the data.

use std::{
    io::Write,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use iperf3::{
    Error, ServerObserver,
    plain_streams::{self, End, PlainTest, new_socket, set_up},
    report::{self, Direction, Protocol, Role, TestSpec},
    wire::State,
};
use socket2::Socket;
use traffic::Attempted;
use units::Bytes;

use super::{STOP_CHECK_INTERVAL, ServerOptions};
use crate::wire::{
    Amount, ClientHeader, TestMode, WireError, acknowledgement, header_length, is_iperf3_cookie,
};

/// A test lasts at most this much longer than its header states.
const SLACK: Duration = Duration::from_secs(30);
/// Duration and size of tests whose header gives none: iperf 2's default.
const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// iperf 2's default length of a write.
const DEFAULT_BLOCK: u64 = 128 << 10;
/// Largest accepted length of a write.
const MAX_BLOCK: u64 = 1 << 20;

/// Serves a connection to its end.
pub(super) fn serve(
    socket: Socket,
    peer: SocketAddr,
    options: &ServerOptions,
    stop: &AtomicBool,
    observer: &dyn ServerObserver,
) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let header = match read_header(&socket, options.header_timeout, stop) {
        Ok(header) => header,
        Err(error) => return observer.note(&format!("{peer}: {error}")),
    };
    let connection = &Connection { peer, options, stop, observer };
    match header.map_or(TestMode::Forward, |header| header.mode) {
        TestMode::Forward => connection.run(vec![(socket, false)], Direction::Forward, header),
        TestMode::Reverse => connection.run(vec![(socket, true)], Direction::Reverse, header),
        TestMode::FullDuplex => match socket.try_clone() {
            Ok(copy) => connection.run(vec![(copy, true), (socket, false)], Direction::Both, header),
            Err(error) => observer.note(&format!("{peer}: cannot duplicate a connection: {error}")),
        },
        TestMode::Dual => std::thread::scope(|scope| {
            let local = local_address(&socket);
            scope.spawn(move || connection.connect_back(header, local));
            connection.run(vec![(socket, false)], Direction::Forward, header);
        }),
        TestMode::Tradeoff => {
            let local = local_address(&socket);
            connection.run(vec![(socket, false)], Direction::Forward, header);
            connection.connect_back(header, local);
        }
    }
}

/// Reads the header; `None` if the client sends none.
fn read_header(socket: &Socket, timeout: Duration, stop: &AtomicBool) -> Result<Option<ClientHeader>, Error> {
    let deadline = Instant::now() + timeout;
    let first: [u8; 4] = match read(socket, 4, deadline, stop)?.try_into() {
        Ok(first) => first,
        Err(_) => return Err(Error::Iperf2("the client closed the connection without a test".into())),
    };
    if is_iperf3_cookie(first) {
        let mut to = socket;
        // An error means that the client has disconnected.
        let _ = to.write(&State::AccessDenied.code().to_be_bytes());
        let text = "this is an iperf3 client, and this port is for iperf 2; iperf3 clients use the other port (-p 5201)";
        return Err(Error::Iperf2(text.into()));
    }
    let length = header_length(u32::from_be_bytes(first)).map_err(refused)?;
    if length == 0 {
        return Ok(None);
    }
    let mut bytes = first.to_vec();
    bytes.extend(read(socket, length.saturating_sub(4), deadline, stop)?);
    let header = ClientHeader::decode(&bytes).map_err(refused)?;
    if header.is_some_and(|header| header.wants_times) {
        return Err(refused(WireError::TripTimes));
    }
    if header.is_some_and(|header| header.wants_acknowledgement) {
        // An error means that the client has disconnected, which the data phase detects.
        let _ = socket.send(&acknowledgement());
    }
    Ok(header)
}

fn refused(error: WireError) -> Error {
    Error::Iperf2(format!("refused an iperf 2 test: {error}"))
}

/// Reads this many bytes, or fewer at the end of the stream.
fn read(socket: &Socket, count: usize, deadline: Instant, stop: &AtomicBool) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut bytes = vec![0; count];
    let mut have = 0;
    while have < count {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Iperf2(
                "the client sent no complete header of an iperf 2 test in time".into(),
            ));
        }
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        let is_ready = os::wait_readable(socket, left.min(STOP_CHECK_INTERVAL));
        if !is_ready.attempted(|| "wait for a header".into())? {
            continue;
        }
        let mut from = socket;
        match from.read(&mut bytes[have..]).attempted(|| "read a header".into())? {
            0 => break,
            n => have += n,
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

/// A client's connection.
struct Connection<'a> {
    peer: SocketAddr,
    options: &'a ServerOptions,
    stop: &'a AtomicBool,
    observer: &'a dyn ServerObserver,
}

impl Connection<'_> {
    /// Runs the data phase on these sockets.
    fn run(&self, streams: Vec<(Socket, bool)>, direction: Direction, header: Option<ClientHeader>) {
        let announced = match header.map(|header| header.amount) {
            Some(Amount::Time(time)) => Some(time + SLACK),
            _ => None,
        };
        let max_duration = self.options.max_duration.min(announced.unwrap_or(Duration::MAX));
        let test = PlainTest {
            role: Role::Server,
            peer: self.peer,
            peer_name: None,
            port: self.peer.port(),
            spec: self.spec(direction, header),
            streams,
            pin: self.options.pin.clone(),
            idle_timeout: Some(self.options.idle_timeout),
            max_duration: Some(max_duration),
        };
        let mut observer = self.observer.begin(self.peer);
        let outcome = plain_streams::run(test, self.stop, &mut *observer);
        drop(observer);
        self.observer.end(self.peer, &outcome.report, outcome.error.as_ref());
    }

    /// The test as the client described it.
    fn spec(&self, direction: Direction, header: Option<ClientHeader>) -> TestSpec {
        // A receiver reads until the end of the stream, whatever the client announced.
        let amount = match header.map(|header| header.amount) {
            _ if direction == Direction::Forward => report::Amount::Bytes(Bytes(u64::MAX)),
            Some(Amount::Time(time)) => report::Amount::Time(time),
            Some(Amount::Bytes(bytes)) if bytes.0 > 0 => report::Amount::Bytes(bytes),
            _ => report::Amount::Time(DEFAULT_TIME),
        };
        let block = header.map_or(0, |header| u64::from(header.block));
        TestSpec {
            direction,
            interval: self.options.interval,
            block: Bytes(if block == 0 { DEFAULT_BLOCK } else { block.min(MAX_BLOCK) }),
            // The listener of `-d` and `-r` could mistake random bytes for a header.
            repeating_payload: true,
            rate: header.and_then(|header| header.rate).filter(|_| direction != Direction::Forward),
            ..TestSpec::new(Protocol::Tcp, amount)
        }
    }

    /// Connects to the client's own listener and sends, as `-d` and `-r` request.
    fn connect_back(&self, header: Option<ClientHeader>, local: Option<SocketAddr>) {
        let Some(header) = header else { return };
        let Some(port) = u16::try_from(header.port).ok().filter(|port| *port > 0) else { return };
        let to = SocketAddr::new(self.peer.ip(), port);
        if local == Some(to) {
            let text = "the client requests a connection back to this server's own address and port; use -L with another port";
            return self.observer.note(&format!("{}: {text}", self.peer));
        }
        let connected =
            new_socket(to, None, self.options.device.as_deref(), Protocol::Tcp).and_then(|socket| {
                set_up(
                    &socket,
                    to.ip(),
                    &self.spec(Direction::Reverse, Some(header)),
                    true,
                    None,
                    End::Client,
                )?;
                let timeout = self.options.header_timeout;
                socket.connect_timeout(&to.into(), timeout).attempted(|| format!("connect back to {to}"))?;
                Ok(socket)
            });
        match connected {
            Ok(socket) => self.run(vec![(socket, true)], Direction::Reverse, Some(header)),
            Err(error) => self.observer.note(&format!("{}: {error}", self.peer)),
        }
    }
}

fn local_address(socket: &Socket) -> Option<SocketAddr> {
    let address = socket.local_addr().ok()?.as_socket()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
