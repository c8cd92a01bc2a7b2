//! The outcome of a push of metrics.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use units::Time;

/// The outcome of sending values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// The receiver has them.
    Accepted,
    /// The receiver does not have them, for this reason; it may accept them or the next ones later.
    Failed(String),
    /// The receiver refuses them for this reason, so they are dropped.
    Refused(String),
}

/// Why a receiver has not accepted values within this time.
pub(super) fn failure(error: &io::Error, time: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("it has not accepted them within {}", Time::from_duration(time))
        }
        _ => error.to_string(),
    }
}
