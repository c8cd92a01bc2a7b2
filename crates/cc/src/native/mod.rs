//! The native build: a congestion control as a shared object in this process.
//!
//! [`build`] returns the shared object of a [`Source`](crate::Source) with its description. [`Library`] is a
//! loaded copy of it with values of its parameters. [`Controller`] is the congestion control of one socket in
//! a library.

mod compile;
mod compiler;
mod controller;
#[cfg_attr(target_feature = "crt-static", path = "static_image.rs")]
mod image;
mod inspect;
#[cfg(test)]
mod layout_tests;
mod library;
mod loaded_copy;
mod object;
mod runtime;
mod signatures;
#[cfg(all(test, not(target_feature = "crt-static")))]
mod static_image;
mod trial;

pub use compiler::MISSING as NO_COMPILER;
pub use controller::Controller;
pub use library::Library;
pub use object::{SharedObject, build};
pub use trial::{NativeTrial, run_trial};

use crate::ParameterError;
use std::path::PathBuf;

/// A message of the compiler, or of longfat's additional checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 if the message is about no line.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// The message.
    pub message: String,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Why a file has no native build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No compiler was found.
    #[error("{}", compiler::MISSING)]
    NoCompiler,
    /// The compiler or longfat's checks refused the file.
    #[error("{}", lines.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n"))]
    Refused {
        /// The errors.
        lines: Vec<Diagnostic>,
    },
    /// An operation on the machine failed.
    #[error("cannot {operation}: {cause}")]
    Os {
        /// The operation and its object.
        operation: String,
        /// The operating system's error.
        cause: std::io::Error,
    },
}

/// Why a congestion control cannot be loaded natively.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The native build failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Invalid value of a parameter.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The loader refused the object.
    #[error("cannot load {name} into this process: {cause}")]
    Load {
        /// The congestion control.
        name: String,
        /// The loader's error.
        cause: std::io::Error,
    },
    /// The file has no such `struct tcp_congestion_ops`.
    #[error("no congestion control {wanted} in the file; it has {names}")]
    NoSuchOperations {
        /// The requested name.
        wanted: String,
        /// The existing names.
        names: String,
    },
}
