//! A channel for JSON messages of a protocol other than iperf3's, over a connection to the server's port. The
//! client sends a cookie with the protocol's prefix, and waits for its turn. If the server has a token, each
//! message is sealed (see [`crate::token`]), and the client's first message carries its time, so that
//! recorded messages cannot be replayed.
//!
//! ```text
//! client                              server
//! cookie (37 B)
//!                                     'L': it is your turn
//! {"time_s": ...}
//!                                     {} or {"rejected": "the reason"}
//! JSON messages in both directions
//! ```

use std::{
    net::{SocketAddr, TcpStream},
    sync::atomic::AtomicBool,
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    ClientOptions, Error, TokenGate,
    auth::AuthError,
    client_options::connect,
    control::{self, Control, Deadline},
    spec::Role,
    token::Seal,
    wire::{COOKIE_BYTES, Cookie, QUEUE_NOTICE, QueueNotice, State},
};

/// The message with which the server starts the client's turn.
const TURN: i8 = b'L' as i8;
/// Maximum size of a message to a server, bytes.
const REQUEST_LIMIT: usize = 1 << 20;
/// Maximum size of a message to a client, bytes: it may contain the samples of a long test.
const REPLY_LIMIT: usize = 64 << 20;
/// Maximum size of the first messages, bytes.
const OPENING_LIMIT: usize = 1024;

/// One end of a channel.
#[derive(Debug)]
pub struct Channel<'a> {
    control: Control<'a>,
    cookie: Cookie,
    timeout: Duration,
    /// Maximum size of a received message, bytes.
    limit: usize,
    /// The deadline of the next message since it was first polled.
    polled: Option<Deadline>,
}

/// The client's first message.
#[derive(Debug, Serialize, Deserialize)]
struct Opening {
    /// Seconds since 1970.
    time_s: u64,
}

/// The server's first message to a client that may use the service.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {}

/// The server's only message to a rejected client.
#[derive(Debug, Serialize, Deserialize)]
struct Rejection {
    /// Why.
    rejected: String,
}

impl<'a> Channel<'a> {
    /// Connects, and waits for its turn; `notice` is called if it is queued. `None` if the server does not
    /// have the service with this cookie prefix: it is iperf3, or an earlier version of longfat.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the client.
    pub fn connect(
        options: &ClientOptions,
        cookie_prefix: &str,
        stop: &'a AtomicBool,
        mut notice: impl FnMut(QueueNotice),
    ) -> Result<Option<Self>, Error> {
        let mut control = Control::new(connect(options, stop)?, stop)?;
        let mut bytes: [u8; COOKIE_BYTES] = *control::new_cookie()?.as_bytes();
        let prefix = &cookie_prefix.as_bytes()[..cookie_prefix.len().min(COOKIE_BYTES - 1)];
        bytes[..prefix.len()].copy_from_slice(prefix);
        let cookie =
            Cookie::from_wire(bytes).ok_or(Error::Closed { expected: "a printable cookie prefix" })?;
        control.send_cookie(&cookie, options.phase_timeout)?;
        let what = "turn in the server's queue";
        // The server replies immediately; if it has a queue, with a queue notice.
        let mut received = control.read_state(what, options.phase_timeout)?;
        while received == QUEUE_NOTICE {
            notice(control.read_queue_notice(options.phase_timeout)?);
            received = control.read_state(what, options.queue_timeout)?;
        }
        if received == State::ParamExchange.code() {
            return Ok(None);
        }
        if received != TURN {
            return Err(Error::UnexpectedState { received, expected: what });
        }
        if let Some(token) = &options.token {
            control.seal(Seal::new(token.clone(), cookie, Role::Client));
        }
        let timeout = options.phase_timeout;
        let mut channel = Channel { control, cookie, timeout, limit: REPLY_LIMIT, polled: None };
        channel.send(&Opening { time_s: now_s() })?;
        let what = "the server's reply";
        let text = channel.control.read_text(what, OPENING_LIMIT, channel.timeout)?;
        // A rejection is not sealed, because the ends have no common secret.
        if let Ok(Rejection { rejected }) = serde_json::from_slice(&text) {
            return Err(Error::Rejected(rejected));
        }
        let Accepted {} = channel.control.document(what, &text)?;
        Ok(Some(channel))
    }

    pub(crate) fn accept(
        stream: TcpStream,
        cookie: Cookie,
        gate: Option<&TokenGate>,
        timeout: Duration,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let control = Control::new(stream, stop)?;
        let mut channel = Channel { control, cookie, timeout, limit: REQUEST_LIMIT, polled: None };
        channel.control.send_bytes(&TURN.to_be_bytes(), timeout)?;
        let text = channel.control.read_text("the client's time", OPENING_LIMIT, timeout)?;
        if let Err(error) = channel.check(&text, gate) {
            // It is sent without a seal, which the client could not check.
            let refused = Control::new(channel.control.stream().try_clone().map_err(cannot_share)?, stop)?
                .send_json(&Rejection { rejected: error.to_string() }, timeout);
            return Err(refused.err().unwrap_or(error));
        }
        channel.send(&Accepted {})?;
        Ok(channel)
    }

    /// Checks the client's first message.
    fn check(&mut self, text: &[u8], gate: Option<&TokenGate>) -> Result<(), Error> {
        let Some(gate) = gate else {
            return match serde_json::from_slice::<Opening>(text) {
                Ok(_) => Ok(()),
                Err(_) => Err(AuthError::Refused("the client uses a token, but this server has none").into()),
            };
        };
        self.control.seal(Seal::new(gate.token().clone(), self.cookie, Role::Server));
        let opening: Opening = self.control.document("the client's time", text)?;
        Ok(gate.admit(&self.cookie, opening.time_s, now_s())?)
    }

    /// The cookie that identifies this session, see [`ClientOptions::session`].
    pub fn cookie(&self) -> Cookie {
        self.cookie
    }

    /// Address and port of the other end.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn peer(&self) -> Result<SocketAddr, Error> {
        let peer = self.control.peer()?;
        Ok(SocketAddr::new(peer.ip().to_canonical(), peer.port()))
    }

    /// This end's address and port.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn local(&self) -> Result<SocketAddr, Error> {
        let local = self.control.stream().local_addr().map_err(cannot_share)?;
        Ok(SocketAddr::new(local.ip().to_canonical(), local.port()))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the connection fails, or the other end does not read.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), Error> {
        self.control.send_json(message, self.timeout)
    }

    /// Waits up to `timeout`; true if a message or the end of the connection can be read.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        self.control.wait(timeout)
    }

    /// Sends no more messages, and discards received ones until the other end closes or `timeout` has passed.
    /// Without this, a message that arrives while this end closes resets the connection, and the other end
    /// can lose this end's last messages.
    pub fn finish(&mut self, timeout: Duration) {
        self.control.finish(timeout);
    }

    /// Waits for a message, up to `timeout` for its beginning and for each further 16 KiB, and 100 times as
    /// long in all; `what` names it in errors.
    ///
    /// # Errors
    /// If no valid message arrives in time.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        timeout: Duration,
    ) -> Result<T, Error> {
        self.polled = None;
        self.control.read_json(what, self.limit, timeout)
    }

    /// The next message if all of it has arrived. Does not wait: a long message on a slow path does not block
    /// the caller. The timeout is that of [`Channel::receive`], and begins with the first call after a
    /// message.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn poll<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        timeout: Duration,
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.control.poll_text(what, self.limit)? else {
            let now = Instant::now();
            let deadline = self.polled.get_or_insert_with(|| Deadline::new(timeout, now));
            deadline.moved_to(self.control.incoming_bytes(), now);
            self.control.left(deadline, what)?;
            return Ok(None);
        };
        self.polled = None;
        self.control.document(what, &text).map(Some)
    }
}

fn cannot_share(source: std::io::Error) -> Error {
    traffic::Error { attempted: "use a control connection".into(), source }.into()
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::{
        Token,
        report::{Amount, Protocol, TestSpec},
    };

    static STOP: AtomicBool = AtomicBool::new(false);

    /// Both ends of a channel between ends with these tokens.
    fn opened(client: Option<&str>, server: Option<&str>) -> (Result<bool, Error>, Result<(), Error>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = server.map(|text| TokenGate::new(Token::of(text), Duration::from_secs(10)));
        std::thread::scope(|scope| {
            let served = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut cookie = [0; COOKIE_BYTES];
                std::io::Read::read_exact(&mut stream, &mut cookie).unwrap();
                let cookie = Cookie::from_wire(cookie).unwrap();
                let timeout = Duration::from_secs(10);
                Channel::accept(stream, cookie, gate.as_ref(), timeout, &STOP)?.send(&"hello")
            });
            let spec = TestSpec::new(Protocol::Tcp, Amount::Time(Duration::ZERO));
            let token = client.map(Token::of);
            let options = ClientOptions { port, token, ..ClientOptions::new("127.0.0.1", spec) };
            let client = Channel::connect(&options, "longfat-test-1-", &STOP, |_| {}).and_then(|channel| {
                let mut channel = channel.unwrap();
                assert!(channel.cookie().as_str().starts_with("longfat-test-1-"));
                Ok(channel.receive::<String>("greeting", Duration::from_secs(10))? == "hello")
            });
            (client, served.join().unwrap())
        })
    }

    #[test]
    fn ends_with_equal_tokens_or_without_tokens_exchange_messages() {
        for token in [None, Some("a secret of both")] {
            let (client, server) = opened(token, token);
            assert!(client.unwrap());
            server.unwrap();
        }
    }

    #[test]
    fn a_client_without_the_servers_token_is_rejected_with_the_reason() {
        let reasons = [
            (None, Some("a secret of both"), "the other end has no token"),
            (Some("another secret.."), Some("a secret of both"), "the other end has a different token"),
            (Some("a secret of both"), None, "this server has none"),
        ];
        for (client, server, reason) in reasons {
            let (client, server) = opened(client, server);
            let text = client.unwrap_err().to_string();
            assert!(text.contains("rejects") && text.contains(reason), "{text}");
            assert!(server.is_err());
        }
    }

    #[test]
    fn polls_return_a_message_when_all_of_it_has_arrived() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut cookie = [0; COOKIE_BYTES];
        cookie[..COOKIE_BYTES - 1].fill(b'c');
        let (cookie, timeout) = (Cookie::from_wire(cookie).unwrap(), Duration::from_secs(60));
        let control = Control::new(listener.accept().unwrap().0, &STOP).unwrap();
        let mut channel = Channel { control, cookie, timeout, limit: REPLY_LIMIT, polled: None };
        let text = format!("\"{}\"", "x".repeat(100_000));
        let message = [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let (first, last) = message.split_at(70_000);
        std::io::Write::write_all(&mut near, first).unwrap();
        while channel.control.incoming_bytes() < first.len() {
            assert_eq!(channel.poll::<String>("text", timeout).unwrap(), None);
        }
        std::io::Write::write_all(&mut near, last).unwrap();
        let mut poll = || channel.poll::<String>("text", timeout).unwrap();
        let received = std::iter::repeat_with(&mut poll).flatten().next().unwrap();
        assert_eq!(received.len(), 100_000);
        assert_eq!(poll(), None);
        // A peer that has closed is an error.
        drop(near);
        let closed = std::iter::repeat_with(|| channel.poll::<String>("text", timeout)).find_map(Result::err);
        assert!(matches!(closed, Some(Error::Closed { .. })), "{closed:?}");
    }

    /// A server without the secret cannot impersonate one that has it.
    #[test]
    fn an_unsealed_acceptance_is_not_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                // Before `Control::new`, whose stream does not wait.
                std::io::Read::read_exact(&mut stream, &mut [0; COOKIE_BYTES]).unwrap();
                let mut control = Control::new(stream, &STOP).unwrap();
                let timeout = Duration::from_secs(10);
                control.send_bytes(&TURN.to_be_bytes(), timeout).unwrap();
                control.read_text("the client's time", OPENING_LIMIT, timeout).unwrap();
                control.send_json(&Accepted {}, timeout).unwrap();
                // Waits until the client has read it.
                let _ = control.read_text("anything", OPENING_LIMIT, timeout);
            });
            let spec = TestSpec::new(Protocol::Tcp, Amount::Time(Duration::ZERO));
            let token = Some(Token::of("a secret of both"));
            let options = ClientOptions { port, token, ..ClientOptions::new("127.0.0.1", spec) };
            let error = Channel::connect(&options, "longfat-test-1-", &STOP, |_| {}).unwrap_err();
            assert!(error.to_string().contains("no token"), "{error}");
        });
    }
}
