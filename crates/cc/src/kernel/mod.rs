//! Congestion controls in the kernel: the C file as eBPF, registered by struct_ops.
//!
//! A [`Registration`] ends when its value is dropped or the process ends, however that happens: the kernel
//! ties it to a file descriptor (a BPF link, Linux 6.4). [`pins`] makes a registration outlive the process,
//! until it is removed. The machine's default congestion control and its list of allowed ones never change:
//! sockets select a congestion control by name.

mod clang;
mod compile;
mod error;
mod kernel_types;
mod libbpf_log;
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
pub use list::{KernelControls, LoadedControl, kernel_controls, loaded_controls};
pub use load::{KernelName, Registration, load, load_named};
pub use log::Rejection;
pub use missing::{MissingRequirement, missing_requirement};
pub use object::{OpsInfo, ops};
pub use smoke::LoopbackTrial;
pub use statistics::{CallMeasurement, ProgramCalls};
