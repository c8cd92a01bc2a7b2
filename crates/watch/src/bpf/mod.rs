//! eBPF: looks at many connections for little, and tells each event of those that are wanted.

mod clocks;
mod contract;
mod kernel;
mod missing;

pub use clocks::Clocks;
pub(crate) use contract::Pass;
pub use contract::{Event, EventKind, Sample};
pub use kernel::Kernel;
