//! Linux kernels of any version as ordinary programs: User-Mode Linux (UML) guests in virtual time.
//!
//! A guest boots in a second, needs neither root nor KVM, and sees this machine's files read-only. Its time is virtual
//! (`time-travel=inf-cpu`): computing takes no time, and while all its threads sleep the clock jumps to the next timer. So a
//! guest does the same in every run, however busy the machine is.
//!
//! [`Guest::boot`] starts one from outside; inside, [`init::run`] is its first process.

mod boot;
mod error;
pub mod init;
mod memory_dir;
mod sys;

pub use boot::{Guest, Line, Running};
pub use error::Error;
