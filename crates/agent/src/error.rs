//! Errors of the agent.

use std::{io, path::PathBuf};

use crate::{CalendarError, DatabaseError};

/// An error of the agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file failed.
    #[error("cannot {operation} {path}: {cause}")]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// An operation of the network or the system failed.
    #[error("cannot {operation}: {cause}")]
    System {
        /// The operation that failed, and its object.
        operation: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The configuration has mistakes.
    #[error("{0}")]
    Config(scenario::Error),
    /// The limits file has a mistake.
    #[error("{path}: {cause}")]
    Limits {
        /// The file.
        path: PathBuf,
        /// The mistake.
        cause: Box<limits::Error>,
    },
    /// The calendar cannot be read or written.
    #[error(transparent)]
    Calendar(Box<CalendarError>),
    /// An operation on the archive failed.
    #[error("cannot {operation} the archive {archive}: {cause}")]
    Archive {
        /// The operation that failed.
        operation: &'static str,
        /// The file, or the database.
        archive: String,
        /// The database's error.
        cause: Box<DatabaseError>,
    },
    /// An operation on a certificate, or of TLS, failed.
    #[error("cannot {operation}: {cause}")]
    Tls {
        /// The operation that failed, and its object.
        operation: String,
        /// The reason.
        cause: String,
    },
    /// A user's request was refused.
    #[error("{0}")]
    Refused(String),
    /// The agent does not run, or does not reply.
    #[error("the agent of {path} does not reply: {cause} (is `longfat agent run` running there?)")]
    NotRunning {
        /// The control socket.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
}

impl From<CalendarError> for Error {
    fn from(error: CalendarError) -> Self {
        Error::Calendar(Box::new(error))
    }
}

impl Error {
    /// An error of TLS or of a certificate.
    pub(crate) fn tls(operation: impl Into<String>, cause: impl ToString) -> Self {
        Error::Tls { operation: operation.into(), cause: cause.to_string() }
    }

    /// An error of a system call.
    pub(crate) fn system(operation: impl Into<String>, cause: io::Error) -> Self {
        Error::System { operation: operation.into(), cause }
    }
}
