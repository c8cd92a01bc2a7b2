//! The client's end of a control connection: each method that creates a message also sets the reply to wait
//! for.

use super::{
    Accept, ControlProtocol, FetchRequest, FetchedSession, ProtocolError, SessionAccepted, SessionRequest,
    Slot, StoppedSender,
    message::{
        self, ACCEPT_BYTES, GREETING_BYTES, Greeting, SERVER_START_BYTES, START_ACK_BYTES, STOP_SESSIONS,
        UNAUTHENTICATED,
    },
};

/// A server's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The greeting, which offers the unauthenticated mode.
    Greeting,
    /// Server-Start.
    Started,
    /// Accept-Session.
    Accepted(SessionAccepted),
    /// Start-Ack.
    TestsStarted,
    /// OWAMP's Stop-Sessions with the server's senders. It may arrive before the client's.
    Stopped(Vec<StoppedSender>),
    /// A session's records.
    Fetched(Box<FetchedSession>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Greeting,
    Start,
    Session,
    StartAck,
    Stop,
    Records,
}

/// The client's end of a control connection.
#[derive(Debug)]
pub struct ClientControl {
    protocol: ControlProtocol,
    awaited: Awaited,
    input: Vec<u8>,
}

impl ClientControl {
    /// A new connection, which waits for the greeting.
    pub fn new(protocol: ControlProtocol) -> Self {
        ClientControl { protocol, awaited: Awaited::Greeting, input: Vec::new() }
    }

    /// Set-Up-Response, the reply to the greeting.
    pub fn set_up(&mut self) -> Vec<u8> {
        self.awaited = Awaited::Start;
        message::set_up_response()
    }

    /// A request for a session; without slots for TWAMP.
    pub fn request(&mut self, request: SessionRequest, slots: &[Slot]) -> Vec<u8> {
        self.awaited = Awaited::Session;
        let mut bytes = request.to_bytes();
        if !request.two_way {
            bytes.extend(message::slots_to_bytes(slots));
        }
        bytes
    }

    /// Start-Sessions.
    pub fn start(&mut self) -> Vec<u8> {
        self.awaited = Awaited::StartAck;
        message::start_sessions()
    }

    /// TWAMP's Stop-Sessions, which has no reply.
    pub fn stop_two_way(&mut self, sessions: u32) -> Vec<u8> {
        self.awaited = Awaited::Nothing;
        message::stop_two_way(sessions)
    }

    /// OWAMP's Stop-Sessions with this end's senders.
    pub fn stop_one_way(&mut self, senders: &[StoppedSender]) -> Vec<u8> {
        message::stop_one_way(senders)
    }

    /// Fetch-Session of a whole session.
    pub fn fetch(&mut self, sid: super::Sid) -> Vec<u8> {
        self.awaited = Awaited::Records;
        FetchRequest { range: (0, u32::MAX), sid }.to_bytes()
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The awaited message, once it is complete.
    ///
    /// # Errors
    /// If the server violates the protocol or refuses the step.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ProtocolError> {
        let reply = match self.awaited {
            Awaited::Nothing => None,
            Awaited::Greeting => {
                self.take::<GREETING_BYTES>().map(|bytes| match Greeting::from_bytes(&bytes).modes {
                    0 => Err(ProtocolError::Unwilling),
                    modes if modes & UNAUTHENTICATED == 0 => {
                        Err(ProtocolError::AuthenticationRequired(modes))
                    }
                    _ => Ok(Reply::Greeting),
                })
            }
            Awaited::Start => self
                .take::<SERVER_START_BYTES>()
                .map(|bytes| Accept(bytes[15]).check("the connection").map(|()| Reply::Started)),
            Awaited::Session => self.take::<ACCEPT_BYTES>().map(|bytes| {
                let accepted = SessionAccepted::from_bytes(&bytes);
                accepted.accept.check("the session").map(|()| Reply::Accepted(accepted))
            }),
            Awaited::StartAck => self
                .take::<START_ACK_BYTES>()
                .map(|bytes| Accept(bytes[0]).check("to start the test").map(|()| Reply::TestsStarted)),
            Awaited::Stop => match self.input.first().copied() {
                Some(STOP_SESSIONS) => {
                    message::stop_from_bytes(&self.input, false)?.map(|(senders, length)| {
                        self.input.drain(..length);
                        Ok(Reply::Stopped(senders))
                    })
                }
                Some(other) => return Err(ProtocolError::Command(other)),
                None => None,
            },
            Awaited::Records => FetchedSession::from_bytes(&self.input)?.map(|(session, length)| {
                self.input.drain(..length);
                Ok(Reply::Fetched(Box::new(session)))
            }),
        };
        let Some(reply) = reply.transpose()? else { return Ok(None) };
        // Once the tests have started, OWAMP's server may end them at any time.
        self.awaited = match reply {
            Reply::TestsStarted if self.protocol == ControlProtocol::Owamp => Awaited::Stop,
            _ => Awaited::Nothing,
        };
        Ok(Some(reply))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.input.first_chunk()?;
        self.input.drain(..N);
        Some(bytes)
    }
}

/// Receives arbitrary bytes in each state.
pub(super) fn fuzz(protocol: ControlProtocol, bytes: &[u8]) {
    use Awaited::{Greeting, Nothing, Records, Session, Start, StartAck, Stop};
    for awaited in [Nothing, Greeting, Start, Session, StartAck, Stop, Records] {
        let mut client = ClientControl { protocol, awaited, input: Vec::new() };
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for part in [first, second] {
            client.receive(part);
            if client.next_reply().is_err() {
                break;
            }
        }
    }
}
