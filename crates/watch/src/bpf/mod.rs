//! eBPF: looks at many connections for little, and tells each event of those that are wanted.

mod clocks;
mod contract;
mod kernel;
mod missing;
mod report;

pub use clocks::Clocks;
pub use contract::{Event, EventKind, Sample};
pub(crate) use contract::{Pass, RawSample};
pub use kernel::Kernel;
