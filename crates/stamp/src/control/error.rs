//! Violations of the protocol, and the reasons for which an end refuses a step.

/// A violation of the protocol, after which the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The server does not serve this client (its greeting offers no mode).
    #[error("the server is busy, or does not serve this client")]
    Unwilling,
    /// The server offers no unauthenticated mode.
    #[error("the server requires authentication (its modes are {0:#x}), which longfat does not support")]
    AuthenticationRequired(u32),
    /// The client chose a mode that was not offered.
    #[error("the client chose mode {0}; only the unauthenticated mode, 1, is offered")]
    Mode(u32),
    /// The other end refused a step.
    #[error("the server refused {0}: {1}")]
    Refused(&'static str, Accept),
    /// The client closed the connection before it chose a mode, which the protocol allows.
    #[error("the client closed the connection")]
    Closed,
    /// A command that is unknown or not allowed at this point.
    #[error("command {0} is unknown, or is not allowed now")]
    Command(u8),
    /// A message larger than this end stores.
    #[error("a message has too many {0}")]
    TooMany(&'static str),
    /// A field with an invalid value.
    #[error("a message has an invalid {0}")]
    Field(&'static str),
}

/// Whether a request was accepted, or why not (RFC 4656 section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept(pub u8);

impl Accept {
    /// The request is accepted.
    pub const OK: Accept = Accept(0);
    /// Failure, reason unspecified.
    pub const FAILURE: Accept = Accept(1);
    /// Internal error.
    pub const INTERNAL: Accept = Accept(2);
    /// Some aspect of the request is not supported.
    pub const UNSUPPORTED: Accept = Accept(3);
    /// Cannot be performed due to permanent resource limitations.
    pub const PERMANENT_LIMIT: Accept = Accept(4);
    /// Cannot be performed due to temporary resource limitations.
    pub const TEMPORARY_LIMIT: Accept = Accept(5);

    /// `Ok` if accepted.
    pub(super) fn check(self, what: &'static str) -> Result<(), ProtocolError> {
        if self == Accept::OK { Ok(()) } else { Err(ProtocolError::Refused(what, self)) }
    }
}

impl std::fmt::Display for Accept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self.0 {
            0 => "accepted",
            1 => "no reason given",
            2 => "internal error",
            3 => "some aspect of the request is not supported",
            4 => "permanent resource limitations",
            5 => "temporary resource limitations",
            _ => "unknown reason",
        };
        write!(f, "{text} (Accept {})", self.0)
    }
}
