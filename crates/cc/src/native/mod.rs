//! The native build: a congestion control as a shared object in this process.

// The compiler's location is used when foreign files are compiled.
#[allow(dead_code)]
mod compiler;

use crate::{Parameter, Source};
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

/// A native build: the shared object and what was read of it.
#[derive(Debug, Clone)]
pub struct SharedObject {
    bytes: Vec<u8>,
    parameters: Vec<Parameter>,
}

impl SharedObject {
    /// The ELF file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The parameters, in the order of the file.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
}

/// Builds a source natively.
pub fn build(source: &Source) -> Result<SharedObject, BuildError> {
    match source {
        Source::BuiltIn(algorithm) => {
            Ok(SharedObject { bytes: algorithm.native.to_vec(), parameters: Vec::new() })
        }
        Source::File { .. } => Err(BuildError::NoCompiler),
    }
}
