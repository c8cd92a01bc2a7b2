//! What can go wrong with a guest.

use std::{io, path::PathBuf};

/// An error of a guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that the kernel's command line cannot hold.
    #[error("a guest kernel cannot be given the path {0:?}: it has a quotation mark or a line break in it")]
    Path(PathBuf),
    /// The kernel did not start.
    #[error("cannot start the guest kernel {}: {source}", kernel.display())]
    Start {
        /// Its file.
        kernel: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No directory can hold a guest's memory.
    #[error(
        "no directory can hold the guest's memory of {needed_mb} MB: {tried}; set TMPDIR to a directory with space that is not mounted noexec"
    )]
    NoMemory {
        /// What is needed, MB.
        needed_mb: u64,
        /// The directories that were tried, and why each is unfit.
        tried: String,
    },
    /// A step of the guest's start, inside it.
    #[error("the guest cannot {attempted}: {source}")]
    Init {
        /// What was attempted.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
}
