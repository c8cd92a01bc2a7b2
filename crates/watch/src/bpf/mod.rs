//! eBPF: looks at many connections for little, and tells each event of those that are wanted.

mod contract;
mod kernel;
mod missing;

pub use contract::{Event, EventKind, Sample};
pub use kernel::Kernel;
