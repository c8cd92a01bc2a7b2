//! The kernel's side of a congestion control: its C file as eBPF, registered by struct_ops.
//!
//! A [`Registration`] lives as long as its value, or as the process however it ends: the kernel holds it by a
//! descriptor (a BPF link, Linux 6.4). [`pins`] keeps one beyond that, until it is removed. The machine's default
//! congestion control and its list of allowed ones are never touched: sockets choose by name.

mod clang;
mod compile;
mod error;
mod list;
mod load;
mod log;
mod missing;
mod names;
mod object;
pub mod pins;
mod smoke;
mod statistics;
mod sys;

pub use compile::compile;
pub use error::Error;
pub use list::{Loaded, Machine, loaded, machine};
pub use load::{Name, Registration, load, load_named};
pub use log::Rejection;
pub use missing::{Missing, missing};
pub use object::{OpsInfo, ops};
pub use smoke::Trial;
pub use statistics::{Calls, Measuring};
