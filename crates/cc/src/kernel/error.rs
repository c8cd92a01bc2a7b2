//! What can go wrong between a C file and the kernel, told apart by what the user can do about it.

use std::io;

use super::{Missing, Rejection};
use crate::{ParameterError, SourceError, native::Line};

/// Why a congestion control was not loaded, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine cannot do it, for want of this.
    #[error("{0}")]
    Missing(Missing),
    /// The file does not compile to BPF.
    #[error("{}", lines.iter().map(Line::to_string).collect::<Vec<_>>().join("\n"))]
    Compile {
        /// What is wrong where.
        lines: Vec<Line>,
    },
    /// The kernel, or the loader on its behalf, refuses the program.
    #[error("the kernel refuses {name}: {why}")]
    Rejected {
        /// The algorithm.
        name: String,
        /// Why, and where in the source.
        why: Box<Rejection>,
    },
    /// A file without a `struct tcp_congestion_ops`.
    #[error("{name} has no struct tcp_congestion_ops in section .struct_ops or .struct_ops.link")]
    NoOps {
        /// The algorithm.
        name: String,
    },
    /// A parameter or its value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A name that the kernel does not take.
    #[error("{name:?} is no name for a congestion control: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel has one of this name.
    #[error("this kernel already has a congestion control named {name}")]
    Taken {
        /// The name.
        name: String,
    },
    /// None of ours has this name.
    #[error("longfat has loaded no congestion control named {name}")]
    NotLoaded {
        /// The name.
        name: String,
    },
    /// The operating system said no.
    #[error("cannot {operation}: {cause}")]
    Os {
        /// What was tried, and with what.
        operation: String,
        /// The answer.
        cause: io::Error,
    },
}

impl Error {
    /// What the machine lacks, where that is why.
    pub fn missing(&self) -> Option<&Missing> {
        match self {
            Error::Missing(missing) => Some(missing),
            _ => None,
        }
    }
}

/// Puts what was tried beside the operating system's answer.
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

/// libbpf's error as the operating system's. libbpf-rs hides the number in a private type, but prints it.
pub(super) fn as_io(error: &libbpf_rs::Error) -> io::Error {
    let text = format!("{error:#}");
    let number = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_error_survives_its_contexts() {
        use libbpf_rs::ErrorExt;
        let error = libbpf_rs::Error::from_raw_os_error(17).context("attach").context("more");
        assert_eq!(as_io(&error).kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(as_io(&error).raw_os_error(), Some(17));
    }
}
