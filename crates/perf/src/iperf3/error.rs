//! What can go wrong between a client and a server.

use std::time::Duration;

use crate::iperf3::{
    auth::AuthError,
    wire::{Code, Refusal, State},
};

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket or system call.
    #[error(transparent)]
    System(#[from] crate::Error),
    /// The host's name has no address (of the version asked for).
    #[error("cannot find an address of {host}: {reason}")]
    NoAddress {
        /// As given.
        host: String,
        /// Why not.
        reason: String,
    },
    /// The other end said nothing in time.
    #[error("no {what} came within {} s", after.as_secs_f64())]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The other end closed the control connection.
    #[error("the other end closed the connection where {expected} was to come")]
    Closed {
        /// What was waited for.
        expected: &'static str,
    },
    /// It closed it after it had received the test's parameters. So do servers (iperf3 3.21) that reject user name or password.
    #[error("the server closed the connection after it had received the test's parameters: {}", unwanted(*.authenticated))]
    Unwanted {
        /// The parameters carried a user name and password, or came under a token's seal.
        authenticated: bool,
    },
    /// The results have no account of one of the streams.
    #[error("the other end's results lack stream {0}")]
    MissingStream(u32),
    /// The file that was sent did not arrive whole.
    #[error(
        "the file arrived incomplete: the server received {received} of {sent} bytes (iperf3's server drops what it has not read when the \
         test ends; longfat serve does not)"
    )]
    FileIncomplete {
        /// Bytes that the server had acknowledged.
        sent: u64,
        /// Bytes that its program had read.
        received: u64,
    },
    /// A state that does not belong here.
    #[error("state {} came where {expected} was to come", name(*got))]
    UnexpectedState {
        /// The byte that came.
        got: i8,
        /// What was waited for.
        expected: &'static str,
    },
    /// Its first 37 bytes were no cookie.
    #[error("what came is no iperf3 client's greeting")]
    NoCookie,
    /// Longer than we read.
    #[error("the {what} are longer than {limit} bytes")]
    TooLong {
        /// Which message.
        what: &'static str,
        /// The most that is read.
        limit: usize,
    },
    /// Not the JSON it should be.
    #[error("cannot read the {what}: {reason}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What is wrong with it.
        reason: serde_json::Error,
    },
    /// A parameter out of its range.
    #[error("the test asked for is refused: {0}")]
    Refused(#[from] Refusal),
    /// More than the server allows.
    #[error("{0}")]
    Limit(String, Code),
    /// The server turned us away.
    #[error("the server is busy with another test, or does not want this one")]
    Denied,
    /// The server gave up.
    #[error("the server ended the test: {} (its error {})", code.meaning(), code.0)]
    Server {
        /// Why.
        code: Code,
        /// Its errno, 0 for none.
        errno: i32,
    },
    /// The server said that it ends.
    #[error("the server ended the test")]
    ServerTerminated,
    /// The client said that it ends.
    #[error("the client ended the test")]
    ClientTerminated,
    /// User name, password, keys.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// Told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The number that tells a client of it.
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

    /// The errno that goes with [`Error::code`], 0 for none.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Error::System(error) => error.source.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

fn unwanted(authenticated: bool) -> &'static str {
    match authenticated {
        true => "it may require another user name and password, or another token",
        false => {
            "it could not use them, or it requires authentication (--username and --rsa-public-key-path, or --token); its own \
             output says which"
        }
    }
}

fn name(code: i8) -> String {
    State::from_code(code).map_or_else(|| code.to_string(), |state| state.name().to_string())
}
