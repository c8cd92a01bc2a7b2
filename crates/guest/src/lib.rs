//! Linux kernels of any version as ordinary programs: User-Mode Linux (UML) guests in virtual time.
//!
//! [`build`] compiles a kernel from a distribution's source package or a kernel tree and stores it in the
//! user's [`Cache`]; [`Image`] is a stored kernel. [`Guest::boot`] boots one; inside, [`init::Init`] is its
//! first process. None of this needs root. Builds write to the cache only, and a guest to the directory that
//! it shares.
//!
//! A guest boots in a second and sees this machine's files read-only. Its time is virtual
//! (`time-travel=inf-cpu`): computing takes no time, and while all threads of the guest sleep its clock jumps
//! to the next timer. So a guest behaves the same in every run, however busy the machine is.
//!
//! ```no_run
//! use guest::Cache;
//!
//! let newest = Cache::of_this_user()?.find(Some("6.1"))?;
//! newest.verify()?;
//! println!("{} is {}", newest.release, newest.path.display());
//! # Ok::<(), guest::Error>(())
//! ```

mod apt;
mod boot;
mod build;
mod cache;
mod children;
mod config;
mod error;
mod image;
pub mod init;
mod memory_dir;
mod package;
mod progress;
mod sys;
mod tools;
mod tree;
mod uml;
mod work;

pub use boot::{ConsoleOutput, Guest, RunningGuest, SHARED_DIR};
pub use build::{BuildOutcome, BuildRequest, KernelSource, build};
pub use cache::Cache;
pub use error::Error;
pub use image::{Image, Origin};
pub use progress::{BuildProgress, BuildStage};

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
