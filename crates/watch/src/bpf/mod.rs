//! eBPF: samples many connections cheaply, and reports each event of the selected ones.

#[cfg(test)]
mod btf_file;
mod clocks;
mod contract;
mod report;
mod requirements;
mod tracer;

pub use clocks::Clocks;
pub use contract::{BpfSample, SocketEvent, SocketEventKind, WindowLimits};
pub(crate) use contract::{RawBpfSample, SamplingPass};
pub(crate) use requirements::unmet_requirement;
pub use tracer::BpfTracer;
pub(crate) use tracer::{silence_libbpf, walk_connections};
