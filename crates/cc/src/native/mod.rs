//! The native build: a congestion control as a shared object in this process.
//!
//! [`build`] gives the shared object of a [`Source`](crate::Source) with what was read of it; [`Library`] is a copy of it with values of
//! its parameters; [`Controller`] is one socket's share of a library.

mod compile;
mod compiler;
mod controller;
#[cfg_attr(target_feature = "crt-static", path = "static_image.rs")]
mod image;
mod inspect;
#[cfg(test)]
mod layout_tests;
mod library;
mod object;
mod runtime;
mod signatures;
#[cfg(all(test, not(target_feature = "crt-static")))]
mod static_image;

pub use compiler::MISSING as NO_COMPILER;
pub use controller::Controller;
pub use library::Library;
pub use object::{SharedObject, build};

use crate::ParameterError;
use std::path::PathBuf;

/// One message of the compiler, or of what longfat checks beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 if it is of no line.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Line {
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
    /// There is no compiler.
    #[error("{}", compiler::MISSING)]
    NoCompiler,
    /// The compiler, or what longfat checks beside it, refused the file.
    #[error("{}", lines.iter().map(Line::to_string).collect::<Vec<_>>().join("\n"))]
    Refused {
        /// What is wrong where.
        lines: Vec<Line>,
    },
    /// An operation on the machine failed.
    #[error("{operation}: {cause}")]
    Os {
        /// The operation and its object.
        operation: String,
        /// The answer.
        cause: std::io::Error,
    },
}

/// Why a congestion control cannot be loaded natively.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// It has no native build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A parameter's value does not fit.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The loader refused the object.
    #[error("loading {name} into this process: {cause}")]
    Load {
        /// The congestion control.
        name: String,
        /// The loader's answer.
        cause: std::io::Error,
    },
    /// The file has no such `struct tcp_congestion_ops`.
    #[error("no congestion control {wanted} in the file; it has {names}")]
    NoSuchOperations {
        /// The name that was asked for.
        wanted: String,
        /// What there is.
        names: String,
    },
}
