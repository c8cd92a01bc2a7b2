//! Why a congestion control's C file does not compile natively, and the messages of compilers.

use std::path::PathBuf;

use crate::compiler;

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
