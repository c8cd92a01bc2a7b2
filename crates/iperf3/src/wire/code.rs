//! The error numbers that follow SERVER_ERROR (`i_errno` of `iperf_api.h`) and are sent by servers, with
//! their meanings.

/// Why a server ended a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// More than `--server-bitrate-limit`.
    pub const TOTAL_RATE: Code = Code(27);
    /// Longer than `--server-max-duration`.
    pub const MAX_DURATION: Code = Code(37);
    /// The parameters could not be read or are invalid.
    pub const RECEIVE_PARAMS: Code = Code(114);
    /// A message could not be received.
    pub const RECEIVE_MESSAGE: Code = Code(112);
    /// The results could not be read.
    pub const RECEIVE_RESULTS: Code = Code(117);
    /// A stream was not connected or could not be set up.
    pub const STREAM_ACCEPT: Code = Code(204);
    /// Another test is running.
    pub const BUSY: Code = Code(121);
    /// A buffer is smaller than requested.
    pub const BUFFER_SIZE: Code = Code(141);
    /// The authentication failed.
    pub const AUTHENTICATION: Code = Code(142);
    /// No data arrived within the timeout.
    pub const NO_DATA: Code = Code(144);
    /// A running test reached `--server-max-duration`.
    pub const EXPIRED: Code = Code(160);

    /// The meaning, for users.
    pub fn meaning(self) -> &'static str {
        match self {
            Code::TOTAL_RATE => "the streams together are faster than the server allows",
            Code::MAX_DURATION => "the test would last longer than the server allows",
            Code::RECEIVE_PARAMS => "the server could not use the test's parameters",
            Code::RECEIVE_MESSAGE => "the server could not read a message",
            Code::RECEIVE_RESULTS => "the server could not use the client's results",
            Code::STREAM_ACCEPT => "the server could not set up a stream",
            Code::BUSY => "the server runs another test",
            Code::BUFFER_SIZE => "the server's kernel set a smaller socket buffer than requested with -w",
            Code::AUTHENTICATION => "the server does not accept this user name and password, or token",
            Code::NO_DATA => "the server received no data for too long",
            Code::EXPIRED => "the test lasted longer than the server allows",
            _ => "an unknown error",
        }
    }
}
