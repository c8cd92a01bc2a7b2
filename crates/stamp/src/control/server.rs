//! The server's end of a control connection. It checks the order of the client's messages; its owner decides
//! requests, and sends the replies.

use super::{
    Accept, ControlProtocol, FetchRequest, ProtocolError, SessionRequest, Slot, StoppedSender,
    bytes::{BLOCK, field},
    fetch::{self, FETCH_BYTES},
    message::{
        self, FETCH_SESSION, GREETING_BYTES, Greeting, REQUEST_BYTES, REQUEST_ONE_WAY, REQUEST_TWO_WAY,
        SET_UP_BYTES, START_BYTES, START_SESSIONS, STOP_SESSIONS, UNAUTHENTICATED,
    },
};

/// A client's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The client chose the mode; the reply is [`ServerControl::started`].
    SetUp,
    /// Request-Session or Request-TW-Session with its schedule; the reply is a
    /// [`super::SessionAccepted`].
    Request(SessionRequest, Vec<Slot>),
    /// Start-Sessions; the reply is [`ServerControl::start`].
    Start,
    /// Stop-Sessions. OWAMP's reply is [`ServerControl::stopped`], TWAMP has none.
    Stop(Vec<StoppedSender>),
    /// Fetch-Session; the reply is a [`super::FetchedSession`] or [`ServerControl::not_fetched`].
    Fetch(FetchRequest),
}

/// The commands that the client may send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SetUp,
    /// Requests.
    Idle,
    /// Only the command that ends the tests is allowed.
    Testing,
}

/// The server's end of a control connection.
#[derive(Debug)]
pub struct ServerControl {
    protocol: ControlProtocol,
    phase: Phase,
    input: Vec<u8>,
}

impl ServerControl {
    /// A new connection, and the greeting to send. `random` is its challenge and salt.
    pub fn new(protocol: ControlProtocol, random: [u8; 32]) -> (Self, Vec<u8>) {
        let greeting = Greeting { modes: UNAUTHENTICATED, random };
        (ServerControl { protocol, phase: Phase::SetUp, input: Vec::new() }, greeting.to_bytes())
    }

    /// The greeting of a server that refuses the connection: it offers no mode.
    pub fn refusing_greeting() -> [u8; GREETING_BYTES] {
        [0; GREETING_BYTES]
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next complete command.
    ///
    /// # Errors
    /// On a violation of the protocol, which closes the connection. Messages longer than this end's limit are
    /// such a violation, which limits the stored bytes if this is called until `None` after each
    /// [`Self::receive`].
    pub fn next_command(&mut self) -> Result<Option<Command>, ProtocolError> {
        if self.phase == Phase::SetUp {
            return Ok(match self.take::<SET_UP_BYTES>() {
                None => None,
                Some(response) => match u32::from_be_bytes(field(&response, 0)) {
                    UNAUTHENTICATED => {
                        self.phase = Phase::Idle;
                        Some(Command::SetUp)
                    }
                    0 => return Err(ProtocolError::Closed),
                    mode => return Err(ProtocolError::Mode(mode)),
                },
            });
        }
        let Some(&number) = self.input.first() else { return Ok(None) };
        let one_way = self.protocol == ControlProtocol::Owamp;
        match (self.phase, number) {
            (Phase::Idle, REQUEST_ONE_WAY) if one_way => self.request(),
            (Phase::Idle, REQUEST_TWO_WAY) if !one_way => self.request(),
            (Phase::Idle, START_SESSIONS) => Ok(self.take::<START_BYTES>().map(|_| Command::Start)),
            (Phase::Idle, FETCH_SESSION) if one_way => {
                Ok(self.take::<FETCH_BYTES>().map(|bytes| Command::Fetch(FetchRequest::from_bytes(&bytes))))
            }
            (Phase::Testing, STOP_SESSIONS) => {
                let Some((senders, length)) = message::stop_from_bytes(&self.input, !one_way)? else {
                    return Ok(None);
                };
                self.input.drain(..length);
                self.phase = Phase::Idle;
                Ok(Some(Command::Stop(senders)))
            }
            _ => Err(ProtocolError::Command(number)),
        }
    }

    /// A request, once its slots have arrived too.
    fn request(&mut self) -> Result<Option<Command>, ProtocolError> {
        let Some(header) = self.input.first_chunk::<REQUEST_BYTES>() else { return Ok(None) };
        let request = SessionRequest::from_bytes(header)?;
        if request.two_way {
            self.input.drain(..REQUEST_BYTES);
            return Ok(Some(Command::Request(request, Vec::new())));
        }
        let count = request.slots as usize;
        let length = REQUEST_BYTES + (count + 1) * BLOCK;
        let Some(message) = self.input.get(..length) else { return Ok(None) };
        let slots = message::slots_from_bytes(&message[REQUEST_BYTES..], count)?;
        self.input.drain(..length);
        Ok(Some(Command::Request(request, slots)))
    }

    /// Server-Start, which ends the set-up. `started` is when the server started, in NTP's format.
    pub fn started(&self, started: u64) -> Vec<u8> {
        message::server_start(Accept::OK, started)
    }

    /// The Server-Start of a refusal.
    pub fn not_started(&self) -> Vec<u8> {
        message::server_start(Accept::UNSUPPORTED, 0)
    }

    /// Start-Ack; if accepted, the tests run until the client stops them.
    pub fn start(&mut self, accept: Accept) -> Vec<u8> {
        if accept == Accept::OK {
            self.phase = Phase::Testing;
        }
        message::start_ack(accept)
    }

    /// OWAMP's Stop-Sessions with the server's senders.
    pub fn stopped(&self, senders: &[StoppedSender]) -> Vec<u8> {
        message::stop_one_way(senders)
    }

    /// The Fetch-Ack of a refusal.
    pub fn not_fetched(&self, accept: Accept) -> Vec<u8> {
        fetch::fetch_ack(accept)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.input.first_chunk()?;
        self.input.drain(..N);
        Some(bytes)
    }
}

/// Receives arbitrary bytes in each phase.
pub(super) fn fuzz(protocol: ControlProtocol, bytes: &[u8]) {
    for phase in [Phase::SetUp, Phase::Idle, Phase::Testing] {
        let (mut server, _greeting) = ServerControl::new(protocol, [7; 32]);
        server.phase = phase;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for part in [first, second] {
            server.receive(part);
            loop {
                match server.next_command() {
                    Ok(Some(Command::Start)) => drop(server.start(Accept::OK)),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}
