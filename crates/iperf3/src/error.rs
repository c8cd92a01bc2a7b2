//! Errors of clients and servers.

use std::time::Duration;

use crate::{
    auth::AuthError,
    wire::{Code, Refusal, State},
};

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] traffic::Error),
    /// The host's name has no address (of the requested IP version).
    #[error("cannot find an address of {host}: {reason}")]
    NoAddress {
        /// The name as given.
        host: String,
        /// Why not.
        reason: String,
    },
    /// No server has connected to this machine.
    #[error(
        "no server has connected to port {port} of this machine within {} s; start it there with: longfat serve --reverse-connect \
         THIS-MACHINE:{port}",
        after.as_secs_f64()
    )]
    NoReverseServer {
        /// The port at which this machine listens.
        port: u16,
        /// The time waited.
        after: Duration,
    },
    /// The other end sent nothing in time.
    #[error("timeout: no {what} within {} s", after.as_secs_f64())]
    Timeout {
        /// The expected message or event.
        what: &'static str,
        /// The time waited.
        after: Duration,
    },
    /// The other end closed the control connection.
    #[error("the other end closed the connection; expected: {expected}")]
    Closed {
        /// The expected message or event.
        expected: &'static str,
    },
    /// The server closed the connection after it had received the test's parameters, as servers (iperf3 3.21)
    /// do that reject the user name or password.
    #[error("the server closed the connection after it had received the test's parameters: {}", likely_reason(*.authenticated))]
    ClosedAfterParams {
        /// The parameters carried a user name and password, or were sealed with a token.
        authenticated: bool,
    },
    /// The results lack one of the streams.
    #[error("the other end's results lack stream {0}")]
    MissingStream(u32),
    /// The sent file did not arrive completely.
    #[error(
        "the file arrived incomplete: the server received {received} of {sent} bytes (iperf3's server drops what it has not read when the \
         test ends; longfat serve does not)"
    )]
    FileIncomplete {
        /// Bytes that the server had acknowledged.
        sent: u64,
        /// Bytes that the server's program had read.
        received: u64,
    },
    /// A state that the protocol does not allow here.
    #[error("received state {}; expected: {expected}", name(*received))]
    UnexpectedState {
        /// The byte that was received.
        received: i8,
        /// The expected message or event.
        expected: &'static str,
    },
    /// The first 37 bytes were not a cookie.
    #[error("the connection did not begin with an iperf3 client's cookie")]
    NoCookie,
    /// A message longer than the limit.
    #[error("the {what} are longer than {limit} bytes")]
    TooLong {
        /// The message.
        what: &'static str,
        /// The limit, bytes.
        limit: usize,
    },
    /// A message that is not the expected JSON.
    #[error("cannot read the {what}: {reason}")]
    Malformed {
        /// The message.
        what: &'static str,
        /// The problem.
        reason: serde_json::Error,
    },
    /// A parameter of the requested test is out of its range.
    #[error("the requested test is refused: {0}")]
    Refused(#[from] Refusal),
    /// A service of the server rejected the client.
    #[error("the server rejects this client: {0}")]
    Rejected(String),
    /// The requested test exceeds a limit of the server.
    #[error("{0}")]
    Limit(String, Code),
    /// The server denied access.
    #[error(
        "the server denied access: it is busy with another test, does not accept this one, or serves iperf 2 (--iperf2)"
    )]
    Denied,
    /// The server ended the test with an error.
    #[error("the server ended the test: {} (its error {})", code.meaning(), code.0)]
    Server {
        /// Why.
        code: Code,
        /// Its errno, 0 for none.
        errno: i32,
    },
    /// The server reported that it ends the test.
    #[error("the server ended the test")]
    ServerTerminated,
    /// The client reported that it ends the test.
    #[error("the client ended the test")]
    ClientTerminated,
    /// A problem with user name, password, token or keys.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The other end uses iperf 2's protocol.
    #[error("{0}")]
    Iperf2(String),
    /// Stopped by the user.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The error code to send to a client.
    pub(crate) fn code(&self) -> Code {
        match self {
            Error::Limit(_, code) => *code,
            Error::Refused(_) => Code::RECEIVE_PARAMS,
            Error::Auth(_) => Code::AUTHENTICATION,
            Error::Timeout { what: "data", .. } => Code::NO_DATA,
            Error::System(_) => Code::STREAM_ACCEPT,
            _ => Code::RECEIVE_MESSAGE,
        }
    }

    /// The errno sent with [`Error::code`], 0 for none.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Error::System(error) => error.source.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

fn likely_reason(authenticated: bool) -> &'static str {
    match authenticated {
        true => "it may require a different user name and password, or a different token",
        false => {
            "it rejected them, or it requires authentication (--username and --rsa-public-key-path, or --token); its own output \
             has the reason"
        }
    }
}

fn name(code: i8) -> String {
    State::from_code(code).map_or_else(|| code.to_string(), |state| state.name().to_string())
}
