//! Errors of experiments, and their categories.

use std::io;

use cc::{SourceError, kernel, native::BuildError};
use serde::{Deserialize, Serialize};

pub use engine_common::error_chain as chain;

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment or one of its runs failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid; the text states why.
    #[error("{0}")]
    BadInput(String),
    /// A scenario with mistakes, each with its position in the file.
    #[error("{0}")]
    Scenario(#[from] scenario::Error),
    /// The machine lacks a privilege, a feature or a kernel; the text states which.
    #[error("{0}")]
    Missing(String),
    /// An operation failed; the text states why.
    #[error("{0}")]
    Failed(String),
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
    /// The lab failed.
    #[error(transparent)]
    Lab(lab::Error),
    /// A run between hosts failed.
    #[error(transparent)]
    Hosts(hosts::Error),
    /// The simulator failed.
    #[error(transparent)]
    Sim(sim::Error),
    /// The simulator cannot create the congestion control of a flow.
    #[error("flow {flow}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A congestion control in C could not be built or loaded.
    #[error(transparent)]
    Library(#[from] cc::native::LibraryError),
    /// A guest kernel failed.
    #[error(transparent)]
    Guest(#[from] guest::Error),
    /// A record could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// The receiver of a run's rows failed.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A system call failed.
    #[error("cannot {attempted}")]
    Os {
        /// The attempted operation and its object.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A file that the guest and this program exchange is not valid JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The category of an error. The program has an exit code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The user's input is invalid.
    BadInput,
    /// The machine lacks a privilege, a feature or a kernel.
    Missing,
    /// The run was interrupted.
    Interrupted,
    /// Any other failure.
    Failed,
}

impl Error {
    /// The category of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::BadInput(_) | Error::Scenario(_) | Error::Sim(sim::Error::Sysctl { .. }) => {
                ErrorKind::BadInput
            }
            Error::Missing(_) => ErrorKind::Missing,
            Error::Lab(error) if error.is_missing() => ErrorKind::Missing,
            Error::Interrupted => ErrorKind::Interrupted,
            Error::Guest(error) => kind_of_guest(error),
            Error::Failed(_)
            | Error::Lab(_)
            | Error::Sim(_)
            | Error::Hosts(_)
            | Error::Controller { .. }
            | Error::Library(_)
            | Error::Record(_)
            | Error::Observer(_)
            | Error::Os { .. }
            | Error::Json(_) => ErrorKind::Failed,
        }
    }
}

impl From<lab::Error> for Error {
    fn from(error: lab::Error) -> Self {
        match error {
            lab::Error::Observer(cause) => Error::Observer(cause),
            other => Error::Lab(other),
        }
    }
}

impl From<computed_runs::sim_engine::Error> for Error {
    fn from(error: computed_runs::sim_engine::Error) -> Self {
        match error {
            computed_runs::sim_engine::Error::Kernel(_) => Error::BadInput(error.to_string()),
            computed_runs::sim_engine::Error::Sim(error) => error.into(),
        }
    }
}

impl From<sim::Error> for Error {
    fn from(error: sim::Error) -> Self {
        match error {
            sim::Error::Observer(cause) => Error::Observer(cause),
            sim::Error::Controller { flow, source } => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::Controller { flow, source },
            },
            other => Error::Sim(other),
        }
    }
}

impl From<&BuildError> for Error {
    fn from(error: &BuildError) -> Self {
        match error {
            BuildError::NoCompiler => Error::Missing(error.to_string()),
            BuildError::Refused { .. } => Error::BadInput(error.to_string()),
            BuildError::Os { .. } => Error::Failed(error.to_string()),
        }
    }
}

/// Converts an error from loading a congestion control into the kernel; `hint` is appended to errors in the
/// user's input.
pub fn congestion_control(error: &kernel::Error, hint: &str) -> Error {
    use kernel::Error as E;
    match error {
        E::Missing(missing) => Error::Missing(missing.to_string()),
        E::Source(error) => error.into(),
        E::Os { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            Error::Missing(format!("{error}: root privilege is required; the simulator still works"))
        }
        E::Os { .. } => Error::Failed(error.to_string()),
        _ => Error::BadInput(format!("{error}{hint}")),
    }
}

impl From<&SourceError> for Error {
    fn from(error: &SourceError) -> Self {
        match error {
            SourceError::Build(error) => error.into(),
            other => Error::BadInput(other.to_string()),
        }
    }
}

fn kind_of_guest(error: &guest::Error) -> ErrorKind {
    use guest::Error as E;
    match error {
        E::Interrupted => ErrorKind::Interrupted,
        E::MissingTools { .. } | E::Processor(_) | E::NoApt(_) | E::NoSpace { .. } | E::NoMemory { .. } => {
            ErrorKind::Missing
        }
        E::NoKernel { .. }
        | E::NoPackage { .. }
        | E::NotATree(..)
        | E::NotAKernel { .. }
        | E::Configuration { .. }
        | E::Name { .. }
        | E::Suite(_)
        | E::Path(_)
        | E::NoDirectory => ErrorKind::BadInput,
        E::Os { .. } | E::Damaged { .. } | E::Failed { .. } => ErrorKind::Failed,
    }
}

/// Adds the attempted operation to an error of the operating system.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Os { attempted: what(), source })
    }
}
