//! Errors of loading a C file into the kernel, classified by their remedy.

use std::io;

use super::{MissingRequirement, Rejection};
use crate::{ParameterError, SourceError, build_error::Diagnostic};

/// Why a congestion control was not loaded, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks this requirement.
    #[error("{0}")]
    Missing(MissingRequirement),
    /// The file does not compile to BPF.
    #[error("{}", lines.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n"))]
    Compile {
        /// The compiler's errors.
        lines: Vec<Diagnostic>,
    },
    /// The kernel or libbpf rejects the program.
    #[error("the kernel refuses {name}: {why}")]
    Rejected {
        /// The algorithm.
        name: String,
        /// Reason and position in the source.
        why: Box<Rejection>,
    },
    /// A file without a `struct tcp_congestion_ops`.
    #[error("{name} has no struct tcp_congestion_ops in section .struct_ops or .struct_ops.link")]
    NoOps {
        /// The algorithm.
        name: String,
    },
    /// Invalid parameter or value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Unreadable source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A name that the kernel does not accept.
    #[error("{name:?} is not a valid name of a congestion control: {why}")]
    Name {
        /// The name.
        name: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// The kernel already has a congestion control of this name.
    #[error("this kernel already has a congestion control named {name}")]
    Taken {
        /// The name.
        name: String,
    },
    /// No registration of longfat has this name.
    #[error("longfat has loaded no congestion control named {name}")]
    NotLoaded {
        /// The name.
        name: String,
    },
    /// An operation of the operating system failed.
    #[error("cannot {operation}: {cause}")]
    Os {
        /// The operation and its object.
        operation: String,
        /// The operating system's error.
        cause: io::Error,
    },
}

impl Error {
    /// The requirement that the machine lacks, if this is the cause.
    pub fn missing(&self) -> Option<&MissingRequirement> {
        match self {
            Error::Missing(missing) => Some(missing),
            _ => None,
        }
    }
}

/// Adds the attempted operation to an error of the operating system.
pub(super) trait Attempted<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|cause| Error::Os { operation: operation(), cause })
    }
}

impl<T> Attempted<T> for libbpf_rs::Result<T> {
    fn attempted(self, operation: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::Os { operation: operation(), cause: as_io(&e) })
    }
}

/// Converts libbpf's error to one of the operating system. libbpf-rs hides the number in a private type, but
/// prints it.
pub(super) fn as_io(error: &libbpf_rs::Error) -> io::Error {
    let text = format!("{error:#}");
    let number = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_number_survives_added_contexts() {
        use libbpf_rs::ErrorExt;
        let error = libbpf_rs::Error::from_raw_os_error(17).context("attach").context("more");
        assert_eq!(as_io(&error).kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(as_io(&error).raw_os_error(), Some(17));
    }
}
