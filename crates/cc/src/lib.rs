//! Congestion controls: one C file each, compiled natively for the simulator and to eBPF for the running
//! kernel.
//!
//! A [`Source`] is a built-in algorithm or a user's file. Its [`Parameter`]s are the `const volatile` globals
//! of the C file. [`native`] runs it in this process behind [`tcp::CongestionControl`]; [`kernel`] loads it
//! into the kernel. `examples/drive.rs` compiles a C file and drives its controller.

mod build_error;
mod compiler;
mod headers;
pub mod kernel;
pub mod kernel_source;
pub mod native;
mod source;
mod user_headers;

pub use source::{Algorithm, Source, SourceError};
pub use tcp::parameters::{
    Parameter, ParameterError, ParameterType, ParameterValue, ParameterValues, encode,
};
pub use user_headers::UserHeader;
