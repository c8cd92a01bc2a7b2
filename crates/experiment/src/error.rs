//! What goes wrong with experiments.

use std::io;

use cc::{SourceError, kernel, native::BuildError};
use serde::{Deserialize, Serialize};

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// An experiment, or one of its runs, that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense, as this says.
    #[error("{0}")]
    BadInput(String),
    /// A scenario with mistakes, each with its place in the file.
    #[error("{0}")]
    Scenario(#[from] scenario::Error),
    /// The machine lacks a privilege, a feature or a kernel.
    #[error("{0}")]
    Missing(String),
    /// The work failed, as this says.
    #[error("{0}")]
    Failed(String),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The lab failed.
    #[error(transparent)]
    Lab(lab::Error),
    /// The simulator failed.
    #[error(transparent)]
    Sim(sim::Error),
    /// No congestion control could be made for a flow of the simulator.
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
    /// Whoever took the rows of a run failed.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// The operating system refused something.
    #[error("cannot {attempted}")]
    Os {
        /// What was attempted.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What the guest and this program exchange cannot be read.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Whose business an error is. Programs end with a code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The user's, who asked for something wrong.
    BadInput,
    /// The machine's, which lacks something.
    Missing,
    /// Somebody interrupted it.
    Interrupted,
    /// Any other failure.
    Failed,
}

impl Error {
    /// Whose business it is.
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

/// An error of the kernel's side of congestion control; `hint` follows what is the user's business.
pub fn congestion_control(error: &kernel::Error, hint: &str) -> Error {
    use kernel::Error as E;
    match error {
        E::Missing(missing) => Error::Missing(missing.to_string()),
        E::Source(error) => error.into(),
        E::Os { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            Error::Missing(format!("{error}: root's privilege is needed; the simulator still works"))
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

/// An error and its causes in one line; a cause that its parent already quotes is left out.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// Adds what was attempted to an error of the operating system.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Os { attempted: what(), source })
    }
}
