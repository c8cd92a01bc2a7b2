//! One control connection: the client's commands, and the packets of its sessions.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use traffic::{Attempted, Error};

use super::{STOP_CHECK_INTERVAL, session::Session};
use crate::{
    control::{
        Accept, Command, ControlProtocol, FetchRequest, FetchedSession, ServerControl, SessionAccepted,
        SessionRequest, Slot, StoppedSender,
    },
    control_connection::is_timeout,
};

/// Timeout of the set-up and of sending a message.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout between two commands while no test runs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a test whose packets do not arrive (REFWAIT, RFC 5357 section 4.2).
const TEST_TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum number of sessions of a test, and of finished sessions that a client can fetch; older ones are
/// removed.
const MAX_SESSIONS: usize = 16;
/// Maximum number of packets of all sessions of a connection. The server may keep a record for each packet.
const MAX_PACKETS: u32 = 50_000;

/// The phase of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Waiting,
    Running,
    /// The client ended the test; until this time reflectors still reply to packets in flight (RFC 5357
    /// section 3.8).
    Ending(Instant),
}

/// A control connection.
pub(super) struct Connection<'a> {
    protocol: ControlProtocol,
    stream: TcpStream,
    control: ServerControl,
    client: SocketAddr,
    own: SocketAddr,
    started: u64,
    sessions: Vec<Session>,
    finished: Vec<FetchedSession>,
    packets: u32,
    test: Test,
    /// Deadline of the client's next command.
    deadline: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Connection<'a> {
    /// Serves a client until it closes the connection.
    ///
    /// # Errors
    /// If the client violates the protocol, is too slow, or the connection fails.
    pub(super) fn serve(
        protocol: ControlProtocol,
        stream: TcpStream,
        started: u64,
        stop: &'a AtomicBool,
    ) -> Result<(), Error> {
        let what = || "set up the control connection".into();
        stream.set_nonblocking(false).attempted(what)?;
        stream.set_nodelay(true).attempted(what)?;
        stream.set_write_timeout(Some(STOP_CHECK_INTERVAL)).attempted(what)?;
        let mut random = [0; 32];
        os::fill_random(&mut random).attempted(what)?;
        let (control, greeting) = ServerControl::new(protocol, random);
        let mut connection = Connection {
            protocol,
            client: canonical(stream.peer_addr().attempted(what)?),
            own: canonical(stream.local_addr().attempted(what)?),
            stream,
            control,
            started,
            sessions: Vec::new(),
            finished: Vec::new(),
            packets: 0,
            test: Test::Waiting,
            deadline: Instant::now() + SET_UP_TIMEOUT,
            stop,
        };
        connection.send(&greeting)?;
        connection.run()
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; 16_384];
        while !self.stop.load(Ordering::Acquire) {
            let ready = self.wait()?;
            if ready[0] {
                match self.stream.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(length) => self.control.receive(&buffer[..length]),
                    Err(error) if is_timeout(&error) => {}
                    Err(error) => return Err(error).attempted(|| "use the control connection".into()),
                }
                while let Some(command) = self.next_command()? {
                    self.execute(command)?;
                }
            }
            self.serve_packets()?;
            if let Test::Ending(until) = self.test
                && Instant::now() >= until
            {
                self.sessions.clear();
                self.test = Test::Waiting;
            }
            if Instant::now() >= self.deadline {
                let late = io::Error::new(io::ErrorKind::TimedOut, "the client sent no command in time");
                return Err(late).attempted(|| "keep the control connection open".into());
            }
        }
        Ok(())
    }

    /// Waits for a command, a packet, or the time to send a packet. The first returned value states whether
    /// the client sent data.
    fn wait(&self) -> Result<Vec<bool>, Error> {
        let now = Instant::now();
        let mut timeout = STOP_CHECK_INTERVAL.min(self.deadline.saturating_duration_since(now));
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.stream.as_fd()];
        if self.test != Test::Waiting {
            for session in &self.sessions {
                match session.due() {
                    Some(due) => timeout = timeout.min(due.saturating_duration_since(now)),
                    // A sender's socket is not read, so it may stay readable.
                    None if session.is_sender() => {}
                    None => fds.push(session.socket().as_fd()),
                }
            }
        }
        os::wait_any(&fds, timeout).attempted(|| "wait for a client".into())
    }

    fn next_command(&mut self) -> Result<Option<Command>, Error> {
        match self.control.next_command() {
            Ok(command) => Ok(command),
            Err(error) => {
                if matches!(error, crate::control::ProtocolError::Mode(_)) {
                    let refusal = self.control.not_started();
                    self.send(&refusal)?;
                }
                Err(io::Error::other(error)).attempted(|| "keep the control connection open".into())
            }
        }
    }

    fn execute(&mut self, command: Command) -> Result<(), Error> {
        self.deadline = Instant::now() + IDLE_TIMEOUT;
        let reply = match command {
            Command::SetUp => self.control.started(self.started),
            Command::Request(request, slots) => {
                let accepted = match self.open_session(&request, slots) {
                    Ok(accepted) => accepted,
                    Err(accept) => SessionAccepted::refused(accept),
                };
                accepted.to_bytes()
            }
            Command::Start => {
                let accept = if self.sessions.is_empty() { Accept::FAILURE } else { Accept::OK };
                if accept == Accept::OK {
                    self.start();
                }
                self.control.start(accept)
            }
            Command::Stop(senders) => match self.stop_test(&senders)? {
                Some(reply) => reply,
                None => return Ok(()),
            },
            Command::Fetch(request) => self.fetch(request),
        };
        self.send(&reply)
    }

    fn open_session(
        &mut self,
        request: &SessionRequest,
        slots: Vec<Slot>,
    ) -> Result<SessionAccepted, Accept> {
        if let Test::Ending(_) = self.test {
            self.sessions.clear();
            self.test = Test::Waiting;
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(Accept::TEMPORARY_LIMIT);
        }
        let packets = self.packets.saturating_add(request.packets);
        if packets > MAX_PACKETS {
            return Err(Accept::PERMANENT_LIMIT);
        }
        let session = Session::open(*request, slots, self.client, self.own)?;
        let accepted = session.accepted();
        self.sessions.push(session);
        self.packets = packets;
        Ok(accepted)
    }

    fn start(&mut self) {
        let now = Instant::now();
        self.test = Test::Running;
        self.deadline = now + TEST_TIMEOUT;
        for session in &mut self.sessions {
            session.start(now);
            self.deadline = self.deadline.max(session.end() + IDLE_TIMEOUT);
        }
    }

    /// Ends the test; returns OWAMP's reply.
    fn stop_test(&mut self, senders: &[StoppedSender]) -> Result<Option<Vec<u8>>, Error> {
        self.serve_packets()?;
        if self.protocol == ControlProtocol::Twamp {
            let timeout = self.sessions.iter().map(Session::timeout).max().unwrap_or_default();
            self.test = Test::Ending(Instant::now() + timeout);
            return Ok(None);
        }
        self.test = Test::Waiting;
        let sessions = std::mem::take(&mut self.sessions);
        let own: Vec<StoppedSender> = sessions.iter().filter_map(Session::stopped_sender).collect();
        self.finished.extend(sessions.into_iter().filter_map(|session| session.finish(senders)));
        // A session of one packet may have 256 slots and 2048 ranges: the limit of packets does not limit the
        // memory.
        self.finished.drain(..self.finished.len().saturating_sub(MAX_SESSIONS));
        Ok(Some(self.control.stopped(&own)))
    }

    fn fetch(&self, request: FetchRequest) -> Vec<u8> {
        let found = self.finished.iter().find(|session| session.request.sid == request.sid);
        let Some(session) = found else { return self.control.not_fetched(Accept::FAILURE) };
        let (first, last) = request.range;
        let is_requested = |sequence: u32| (first..=last).contains(&sequence);
        let mut session = session.clone();
        session.records.retain(|record| is_requested(record.sequence));
        session.to_bytes()
    }

    /// Receives the packets that have arrived, and sends those that are due.
    fn serve_packets(&mut self) -> Result<(), Error> {
        if self.test == Test::Waiting {
            return Ok(());
        }
        for session in &mut self.sessions {
            if session.serve()? && self.test == Test::Running {
                self.deadline = self.deadline.max(Instant::now() + TEST_TIMEOUT);
            }
        }
        Ok(())
    }

    /// Sends a message. A client that does not read it in time loses the connection.
    fn send(&mut self, mut message: &[u8]) -> Result<(), Error> {
        let what = || "send to the client".into();
        let deadline = Instant::now() + SET_UP_TIMEOUT;
        while !message.is_empty() {
            if Instant::now() >= deadline || self.stop.load(Ordering::Acquire) {
                return Err(io::Error::from(io::ErrorKind::TimedOut)).attempted(what);
            }
            match self.stream.write(message) {
                Ok(length) => message = &message[length..],
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error).attempted(what),
            }
        }
        Ok(())
    }
}

/// The IPv4 address of a mapped one.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        v4 @ std::net::IpAddr::V4(_) => SocketAddr::new(v4, address.port()),
        std::net::IpAddr::V6(_) => address,
    }
}
