//! Why a congestion control cannot be loaded into this process.

use crate::{ParameterError, build_error::BuildError};

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
