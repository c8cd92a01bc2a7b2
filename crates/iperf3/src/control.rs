//! The control connection: states and messages. Each must be complete by a deadline, which a long message
//! extends by its progress: a slow path carries it, but a peer that sends single bytes at intervals cannot
//! block this end.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use socket2::{SockRef, Socket};
use traffic::{Attempted, Error as SystemError};

use crate::{
    Error,
    report::Protocol,
    token::{SEALED_LIMIT_FACTOR, Seal},
    wire::{self, COOKIE_BYTES, Code, Cookie, QUEUE_NOTICE, QUEUE_NOTICE_BYTES, QueueNotice, State},
};

/// Interval at which a wait checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Text is read in pieces of this size, so that memory is allocated for received bytes only, not for the
/// announced length.
const PIECE: usize = 64 << 10;
/// Bytes of a text's length.
const HEADER_BYTES: usize = 4;
/// Bytes of a message that extend its deadline.
const PROGRESS_BYTES: usize = 16 << 10;
/// A message may take this number of timeouts in all. Otherwise clients that read slowly could keep the
/// results of many tests in a server's memory.
const MAX_TIMEOUTS: u32 = 100;

/// The time until which the next bytes of a message must be sent or received.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Instant,
    /// The deadline of the whole message.
    last: Instant,
    timeout: Duration,
    /// Number of the message's bytes when the deadline was last extended.
    moved: usize,
}

impl Deadline {
    pub(crate) fn new(timeout: Duration, now: Instant) -> Self {
        let at = now + timeout;
        let last = now.checked_add(timeout.saturating_mul(MAX_TIMEOUTS)).unwrap_or(at);
        Deadline { at, last, timeout, moved: 0 }
    }

    /// `moved` of the message's bytes have been sent or received. The first one, and each [`PROGRESS_BYTES`],
    /// extend the deadline.
    pub(crate) fn moved_to(&mut self, moved: usize, now: Instant) {
        let is_first = self.moved == 0 && moved > 0;
        if is_first || moved >= self.moved + PROGRESS_BYTES {
            (self.at, self.moved) = ((now + self.timeout).min(self.last), moved);
        }
    }

    /// Time left; `None` if the deadline has passed.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.at.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// One end of the control connection.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    stream: TcpStream,
    /// Ends every wait.
    stop: &'a AtomicBool,
    /// Seals documents that are sent, and checks received ones.
    seal: Option<Seal>,
    /// The received part of a document's message, with its length.
    incoming: Vec<u8>,
}

impl<'a> Control<'a> {
    pub(crate) fn new(stream: TcpStream, stop: &'a AtomicBool) -> Result<Self, Error> {
        stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .attempted(|| "set up the control connection".into())?;
        Ok(Control { stream, stop, seal: None, incoming: Vec::new() })
    }

    /// Seals all documents from now on.
    pub(crate) fn seal(&mut self, seal: Seal) {
        self.seal = Some(seal);
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn peer(&self) -> Result<SocketAddr, SystemError> {
        self.stream.peer_addr().attempted(|| "read the peer's address".into())
    }

    /// The MSS that the kernel has for this path, bytes.
    pub(crate) fn mss(&self) -> Option<u32> {
        SockRef::from(&self.stream).tcp_mss().ok()
    }

    pub(crate) fn send_cookie(&mut self, cookie: &Cookie, timeout: Duration) -> Result<(), Error> {
        self.send(cookie.as_bytes(), timeout)
    }

    pub(crate) fn send_state(&mut self, state: State, timeout: Duration) -> Result<(), Error> {
        tracing::debug!(state = state.name(), "sends");
        self.send(&state.code().to_be_bytes(), timeout)
    }

    /// Sends a client the reason for the end of its test.
    pub(crate) fn send_error(&mut self, code: Code, errno: i32, timeout: Duration) -> Result<(), Error> {
        let mut message = vec![State::ServerError.code() as u8];
        message.extend(code.0.to_be_bytes());
        message.extend(errno.to_be_bytes());
        self.send(&message, timeout)
    }

    pub(crate) fn send_json(&mut self, document: &impl Serialize, timeout: Duration) -> Result<(), Error> {
        let message = match &mut self.seal {
            None => wire::encode(document),
            Some(seal) => serde_json::to_string(document).and_then(|text| wire::encode(&seal.close(text))),
        };
        let message = message.map_err(|reason| Error::Malformed { what: "message to send", reason })?;
        self.send(&message, timeout)
    }

    /// Waits up to `timeout` until a message or the end of the connection can be read; false on a timeout.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        Ok(os::wait_readable(&self.stream, timeout)
            .or_else(|e| if e.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(e) })
            .attempted(|| "wait for the control connection".into())?)
    }

    /// Reads the next state of any kind. States that end the test are returned as errors.
    pub(crate) fn read_state(&mut self, expected: &'static str, timeout: Duration) -> Result<i8, Error> {
        let mut byte = [0];
        self.read(&mut byte, expected, timeout)?;
        let code = i8::from_be_bytes(byte);
        tracing::debug!(code, state = State::from_code(code).map(State::name), expected, "receives");
        match State::from_code(code) {
            Some(State::AccessDenied) => Err(Error::Denied),
            Some(State::ServerTerminate) => Err(Error::ServerTerminated),
            Some(State::ClientTerminate) => Err(Error::ClientTerminated),
            Some(State::ServerError) => {
                let mut numbers = [0; 8];
                self.read(&mut numbers, "the server's error", timeout)?;
                let number = |at: usize| {
                    i32::from_be_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]])
                };
                Err(Error::Server { code: Code(number(0)), errno: number(4) })
            }
            _ => Ok(code),
        }
    }

    /// Waits for one state.
    pub(crate) fn expect(&mut self, state: State, timeout: Duration) -> Result<(), Error> {
        let received = self.read_state(state.name(), timeout)?;
        if received == state.code() {
            Ok(())
        } else {
            Err(Error::UnexpectedState { received, expected: state.name() })
        }
    }

    /// Waits for one state up to `phase`, or up to `queue` if the server sends a queue notice, with which
    /// `notice` is called.
    pub(crate) fn expect_in_turn(
        &mut self,
        state: State,
        phase: Duration,
        queue: Duration,
        mut notice: impl FnMut(QueueNotice),
    ) -> Result<(), Error> {
        let mut timeout = phase;
        loop {
            let received = self.read_state(state.name(), timeout)?;
            if received == state.code() {
                return Ok(());
            }
            if received != QUEUE_NOTICE {
                return Err(Error::UnexpectedState { received, expected: state.name() });
            }
            notice(self.read_queue_notice(phase)?);
            timeout = queue;
        }
    }

    /// Reads the remainder of a queue notice, after its first byte.
    pub(crate) fn read_queue_notice(&mut self, timeout: Duration) -> Result<QueueNotice, Error> {
        let mut bytes = [0; QUEUE_NOTICE_BYTES];
        self.read(&mut bytes, "the server's queue", timeout)?;
        Ok(QueueNotice::from_bytes(bytes))
    }

    pub(crate) fn send_queue_notice(&mut self, notice: QueueNotice, timeout: Duration) -> Result<(), Error> {
        self.send(&notice.to_bytes(), timeout)
    }

    /// Reads a document of at most `limit` bytes.
    pub(crate) fn read_json<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        limit: usize,
        timeout: Duration,
    ) -> Result<T, Error> {
        let text = self.read_text(what, limit, timeout)?;
        self.document(what, &text)
    }

    /// The document of a received text, whose seal is checked if documents are sealed.
    pub(crate) fn document<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        text: &[u8],
    ) -> Result<T, Error> {
        let document = match &mut self.seal {
            None => wire::decode(text),
            Some(seal) => wire::decode(seal.open(text)?.as_bytes()),
        };
        document.map_err(|reason| Error::Malformed { what, reason })
    }

    /// Reads the text of a document of at most `limit` bytes.
    pub(crate) fn read_text(
        &mut self,
        what: &'static str,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, Error> {
        let mut deadline = Deadline::new(timeout, Instant::now());
        loop {
            if let Some(text) = self.poll_text(what, limit)? {
                return Ok(text);
            }
            deadline.moved_to(self.incoming_bytes(), Instant::now());
            let left = self.left(&deadline, what)?;
            self.wait(left.min(STOP_CHECK_INTERVAL))?;
        }
    }

    /// The text of a document of at most `limit` bytes if all of it has arrived. The next call continues with
    /// the part that has arrived.
    pub(crate) fn poll_text(&mut self, what: &'static str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let limit = if self.seal.is_some() { limit * SEALED_LIMIT_FACTOR } else { limit };
        loop {
            let len = match self.incoming.first_chunk::<HEADER_BYTES>() {
                Some(header) => {
                    Some(wire::payload_len(*header, limit).ok_or(Error::TooLong { what, limit })?)
                }
                None => None,
            };
            let (from, needed) = (self.incoming.len(), HEADER_BYTES + len.unwrap_or(0));
            if len.is_some() && from == needed {
                let mut text = std::mem::take(&mut self.incoming);
                text.drain(..HEADER_BYTES);
                return Ok(Some(text));
            }
            self.incoming.resize(from + PIECE.min(needed - from), 0);
            let read = self.stream.read(&mut self.incoming[from..]);
            self.incoming.truncate(from + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(Error::Closed { expected: what }),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e).attempted(|| format!("receive {what}"))?,
            }
        }
    }

    /// Number of bytes that have arrived of an incomplete document.
    pub(crate) fn incoming_bytes(&self) -> usize {
        self.incoming.len()
    }

    fn read(&mut self, mut into: &mut [u8], what: &'static str, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::new(timeout, Instant::now());
        while !into.is_empty() {
            match self.stream.read(into) {
                Ok(0) => return Err(Error::Closed { expected: what }),
                Ok(n) => into = &mut into[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = self.left(&deadline, what)?;
                    self.wait(left.min(STOP_CHECK_INTERVAL))?;
                }
                Err(e) => return Err(e).attempted(|| format!("receive {what}"))?,
            }
        }
        Ok(())
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), Error> {
        self.send(bytes, timeout)
    }

    fn send(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), Error> {
        let mut deadline = Deadline::new(timeout, Instant::now());
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(n) => {
                    sent += n;
                    deadline.moved_to(sent, Instant::now());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // Rare: most messages are small and the kernel's buffer is large.
                    let left = self.left(&deadline, "space for a message")?;
                    std::thread::sleep(left.min(Duration::from_millis(1)));
                }
                Err(e) => return Err(e).attempted(|| "send on the control connection".into())?,
            }
        }
        Ok(())
    }

    /// See [`traffic::finish_sending`].
    pub(crate) fn finish(&self, timeout: Duration) {
        traffic::finish_sending(&self.stream, timeout, self.stop);
    }

    /// Time left until the deadline.
    ///
    /// # Errors
    /// If it has passed, or the program is to end.
    pub(crate) fn left(&self, deadline: &Deadline, what: &'static str) -> Result<Duration, Error> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        deadline.left(Instant::now()).ok_or(Error::Timeout { what, after: deadline.timeout })
    }
}

/// Connects to `to` from the local address `from`.
pub(crate) fn connect(
    to: SocketAddr,
    from: Option<SocketAddr>,
    device: Option<&str>,
    timeout: Duration,
) -> Result<Socket, Error> {
    let socket = new_socket(to, from, device, Protocol::Tcp)?;
    socket.connect_timeout(&to.into(), timeout).attempted(|| format!("connect to {to}"))?;
    Ok(socket)
}

/// Creates a socket for connecting to `to`, bound to `from` and `device` if they are given.
///
/// # Errors
/// If the socket cannot be created, or not be bound to `from` or `device`.
pub fn new_socket(
    to: SocketAddr,
    from: Option<SocketAddr>,
    device: Option<&str>,
    protocol: Protocol,
) -> Result<Socket, SystemError> {
    let kind = match protocol {
        Protocol::Tcp => socket2::Type::STREAM,
        Protocol::Udp => socket2::Type::DGRAM,
    };
    let socket =
        Socket::new(socket2::Domain::for_address(to), kind, None).attempted(|| "create a socket".into())?;
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes())).attempted(|| format!("bind to device {device}"))?;
    }
    if let Some(from) = from {
        socket.set_reuse_address(true).attempted(|| "share a local port".into())?;
        socket.bind(&from.into()).attempted(|| format!("bind to {from}"))?;
    }
    Ok(socket)
}

/// A new cookie.
pub(crate) fn new_cookie() -> Result<Cookie, SystemError> {
    let mut random = [0; COOKIE_BYTES - 1];
    os::fill_random(&mut random).attempted(|| "get random bytes for the cookie".into())?;
    Ok(Cookie::from_random(random))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_slow_peer_does_not_block_this_end() {
        let (mut slow, server) = pair();
        let stop = AtomicBool::new(false);
        let mut control = Control::new(server, &stop).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A message of 100 bytes, one each 20 ms, would take two seconds.
                let _ = slow.write_all(&100u32.to_be_bytes());
                while slow.write_all(b" ").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let read = control.read_json::<serde_json::Value>("parameters", 8192, Duration::from_millis(200));
            assert!(matches!(read, Err(Error::Timeout { .. })), "{read:?}");
            drop(control);
        });
    }

    #[test]
    fn progress_extends_the_deadline_of_a_long_message_but_not_of_a_short_one() {
        let (begin, timeout) = (Instant::now(), Duration::from_secs(10));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut deadline = Deadline::new(timeout, begin);
        // A long message: 16 KiB each 9 s, for 100 timeouts of 10 s.
        let mut is_late = |piece: u64| {
            let is_late = deadline.left(at(9 * piece)).is_none();
            deadline.moved_to(piece as usize * PROGRESS_BYTES, at(9 * piece));
            is_late
        };
        assert_eq!((1..).find(|piece| is_late(*piece)), Some(112));
        // A byte each second: the first one begins the message, and the others are no progress.
        let mut deadline = Deadline::new(timeout, begin);
        (1..=20).for_each(|byte| deadline.moved_to(byte as usize, at(byte)));
        assert!(deadline.left(at(10)).is_some());
        assert_eq!(deadline.left(at(11)), None);
    }

    #[test]
    fn a_long_message_crosses_a_slow_path() {
        let (client, server) = pair();
        let stop = AtomicBool::new(false);
        // It takes 8 s, longer than the timeout, and each part arrives long before it.
        let (parts, part_bytes, pause, timeout) = (16, PROGRESS_BYTES, 500, Duration::from_secs(5));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut client = client;
                client.write_all(&((parts * part_bytes) as u32).to_be_bytes()).unwrap();
                let text = format!("7{}", " ".repeat(parts * part_bytes - 1));
                for part in text.as_bytes().chunks(part_bytes) {
                    client.write_all(part).unwrap();
                    std::thread::sleep(Duration::from_millis(pause));
                }
            });
            let mut control = Control::new(server, &stop).unwrap();
            assert_eq!(control.read_json::<u8>("results", 1 << 20, timeout).unwrap(), 7);
        });
    }

    #[test]
    fn a_message_that_is_too_long_or_not_json_is_rejected_immediately() {
        let stop = AtomicBool::new(false);
        for (message, expected) in [
            (9000u32.to_be_bytes().to_vec(), "longer than 8192"),
            (vec![0xff; 4], "longer than 8192"),
            ([&4u32.to_be_bytes()[..], b"{{{{"].concat(), "cannot read the parameters"),
        ] {
            let (mut client, server) = pair();
            client.write_all(&message).unwrap();
            let mut control = Control::new(server, &stop).unwrap();
            let read = control.read_json::<serde_json::Value>("parameters", 8192, Duration::from_secs(10));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_servers_error_is_read_completely() {
        let (client, server) = pair();
        let stop = AtomicBool::new(false);
        let second = Duration::from_secs(10);
        Control::new(server, &stop).unwrap().send_error(Code::AUTHENTICATION, 5, second).unwrap();
        let received = Control::new(client, &stop).unwrap().expect(State::CreateStreams, second);
        assert!(
            matches!(received, Err(Error::Server { code: Code::AUTHENTICATION, errno: 5 })),
            "{received:?}"
        );
    }
}
