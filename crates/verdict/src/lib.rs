//! The verdict: what limited a flow, sample by sample, with the evidence and the setting that would change it.
//!
//! Pure, and reads only the record's rows: the same for every engine. [`decide`] labels each sample,
//! [`summarize`] makes the flow's summary of labelled samples.
//!
//! The kernel's own clocks (`rwnd_limited`, `sndbuf_limited`) are quoted as a check, not used as the
//! answer: where the send buffer alone was the limit, Linux 6.18 showed `sndbuf_limited` at 10 to 39 %.

mod context;
mod decide;
mod explain;
mod series;
mod steady;
mod summarize;

pub use context::{Buffer, FlowContext, Generator, PathLink};
pub use decide::decide;
pub use summarize::{FlowTimes, summarize};
