//! The client's control connection over TCP.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use traffic::{Attempted, Error};

use crate::control::{
    ClientControl, ControlProtocol, FetchedSession, Reply, SessionAccepted, SessionRequest, Sid, Slot,
    StoppedSender,
};

/// Timeout of the connection and of each reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A client's control connection.
pub(crate) struct ControlConnection<'a> {
    stream: TcpStream,
    pub(crate) control: ClientControl,
    protocol: ControlProtocol,
    server: SocketAddr,
    stop: &'a AtomicBool,
}

impl<'a> ControlConnection<'a> {
    /// Connects and sets up the unauthenticated mode.
    ///
    /// # Errors
    /// If the server does not reply or refuses the connection.
    pub(crate) fn open(
        protocol: ControlProtocol,
        server: SocketAddr,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let what = || format!("connect to the {} server at {server}", protocol.name());
        let stream = TcpStream::connect_timeout(&server, REPLY_TIMEOUT).attempted(what)?;
        stream.set_nodelay(true).attempted(what)?;
        stream.set_read_timeout(Some(STOP_CHECK_INTERVAL)).attempted(what)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT)).attempted(what)?;
        let control = ClientControl::new(protocol);
        let mut connection = ControlConnection { stream, control, protocol, server, stop };
        connection.reply()?;
        let message = connection.control.set_up();
        connection.send(&message)?;
        connection.reply()?;
        Ok(connection)
    }

    /// Any port of the address of this end.
    ///
    /// # Errors
    /// If the kernel does not know the address.
    pub(crate) fn own_end(&self) -> Result<SocketAddr, Error> {
        let mut own = self.stream.local_addr().attempted(|| "read a connection's address".into())?;
        own.set_port(0);
        Ok(own)
    }

    /// A port of the server.
    pub(crate) fn server_end(&self, port: u16) -> SocketAddr {
        let mut server = self.server;
        server.set_port(port);
        server
    }

    /// Requests a session.
    ///
    /// # Errors
    /// If the server refuses the session.
    pub(crate) fn request(
        &mut self,
        request: SessionRequest,
        slots: &[Slot],
    ) -> Result<SessionAccepted, Error> {
        let message = self.control.request(request, slots);
        self.send(&message)?;
        match self.reply()? {
            Reply::Accepted(accepted) => Ok(accepted),
            other => self.unexpected(&other),
        }
    }

    /// Starts the sessions.
    ///
    /// # Errors
    /// If the server refuses to start.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        let message = self.control.start();
        self.send(&message)?;
        self.reply().map(drop)
    }

    /// Ends OWAMP's sessions; returns what the server's senders report, unless the server has ended them
    /// (`early`).
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) fn stop(
        &mut self,
        senders: &[StoppedSender],
        early: Option<Vec<StoppedSender>>,
    ) -> Result<Vec<StoppedSender>, Error> {
        let message = self.control.stop_one_way(senders);
        self.send(&message)?;
        match early {
            Some(theirs) => Ok(theirs),
            None => match self.reply()? {
                Reply::Stopped(theirs) => Ok(theirs),
                other => self.unexpected(&other),
            },
        }
    }

    /// Fetches a session.
    ///
    /// # Errors
    /// If the server does not have the session.
    pub(crate) fn fetch(&mut self, sid: Sid) -> Result<FetchedSession, Error> {
        let message = self.control.fetch(sid);
        self.send(&message)?;
        match self.reply()? {
            Reply::Fetched(session) => Ok(*session),
            other => self.unexpected(&other),
        }
    }

    /// From now on a requested stop does not end a wait, so that the test is ended according to the protocol.
    pub(crate) fn ignore_stop(&mut self) {
        static NOT_STOPPED: AtomicBool = AtomicBool::new(false);
        self.stop = &NOT_STOPPED;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.stream.write_all(message).or_else(|error| self.failed(error))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// If the connection fails, the server refuses a step, does not reply in time, or a stop was requested.
    pub(crate) fn reply(&mut self) -> Result<Reply, Error> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            if let Some(reply) = self.poll()? {
                return Ok(reply);
            }
            if self.stop.load(Ordering::Acquire) {
                return self.failed(io::ErrorKind::Interrupted.into());
            }
            if Instant::now() >= deadline {
                return self.failed(io::Error::new(io::ErrorKind::TimedOut, "it does not reply"));
            }
        }
    }

    /// The next message if it arrives soon.
    ///
    /// # Errors
    /// As [`Self::reply`].
    pub(crate) fn poll(&mut self) -> Result<Option<Reply>, Error> {
        let next = |control: &mut ClientControl| control.next_reply().map_err(io::Error::other);
        if let Some(reply) = next(&mut self.control).or_else(|error| self.failed(error))? {
            return Ok(Some(reply));
        }
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer) {
            Ok(0) => {
                let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
                return self.failed(closed);
            }
            Ok(length) => self.control.receive(&buffer[..length]),
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return self.failed(error),
        }
        next(&mut self.control).or_else(|error| self.failed(error))
    }

    fn unexpected<T>(&self, reply: &Reply) -> Result<T, Error> {
        self.failed(io::Error::other(format!("unexpected message {reply:?}")))
    }

    fn failed<T>(&self, error: io::Error) -> Result<T, Error> {
        Err(error)
            .attempted(|| format!("run the {} test with the server at {}", self.protocol.name(), self.server))
    }
}

/// Whether nothing arrived in time.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
