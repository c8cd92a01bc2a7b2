//! The states of a test: one signed byte each on the control connection (`iperf_api.h`, `iperf.h`).

/// The next step of a test, sent by one end to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Server: all streams are connected, get ready.
    TestStart,
    /// Server: send.
    TestRunning,
    /// Client: the data is over.
    TestEnd,
    /// Server: send the test's parameters.
    ParamExchange,
    /// Server: connect the streams.
    CreateStreams,
    /// Server: the server ends the test.
    ServerTerminate,
    /// Client: the client ends the test.
    ClientTerminate,
    /// Server: send your results.
    ExchangeResults,
    /// Server: the exchange is complete.
    DisplayResults,
    /// Client: the exchange is complete.
    IperfDone,
    /// Server: access denied; the server is busy, or does not accept this client.
    AccessDenied,
    /// Server: an error; its number and errno follow as two big-endian `i32`.
    ServerError,
}

impl State {
    /// All states that cross the wire.
    pub const ALL: [State; 12] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParamExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::IperfDone,
        State::AccessDenied,
        State::ServerError,
    ];

    /// The byte on the wire.
    pub fn code(self) -> i8 {
        match self {
            State::TestStart => 1,
            State::TestRunning => 2,
            State::TestEnd => 4,
            State::ParamExchange => 9,
            State::CreateStreams => 10,
            State::ServerTerminate => 11,
            State::ClientTerminate => 12,
            State::ExchangeResults => 13,
            State::DisplayResults => 14,
            State::IperfDone => 16,
            State::AccessDenied => -1,
            State::ServerError => -2,
        }
    }

    /// The state of a byte; `None` for bytes that are not sent.
    pub fn from_code(code: i8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.code() == code)
    }

    /// iperf3's name of it.
    pub fn name(self) -> &'static str {
        match self {
            State::TestStart => "TEST_START",
            State::TestRunning => "TEST_RUNNING",
            State::TestEnd => "TEST_END",
            State::ParamExchange => "PARAM_EXCHANGE",
            State::CreateStreams => "CREATE_STREAMS",
            State::ServerTerminate => "SERVER_TERMINATE",
            State::ClientTerminate => "CLIENT_TERMINATE",
            State::ExchangeResults => "EXCHANGE_RESULTS",
            State::DisplayResults => "DISPLAY_RESULTS",
            State::IperfDone => "IPERF_DONE",
            State::AccessDenied => "ACCESS_DENIED",
            State::ServerError => "SERVER_ERROR",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_one_state_or_none() {
        let known: Vec<i8> = (i8::MIN..=i8::MAX).filter(|code| State::from_code(*code).is_some()).collect();
        assert_eq!(known, [-2, -1, 1, 2, 4, 9, 10, 11, 12, 13, 14, 16]);
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
        }
    }
}
