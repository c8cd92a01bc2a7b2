//! The lab: the real kernel's TCP over an emulated network on one machine.
//!
//! A host is a network namespace with a device; everything between the devices is [`net`], driven in real
//! time by one thread, or in virtual time inside a guest kernel ([`TimeMode`]). File descriptors of this
//! process hold all of it, so the lab ends with the process. The lab works for root, and for every user where
//! user namespaces are allowed ([`acquire_privilege`] reports which of the two applies).
//!
//! [`run`] takes a resolved scenario and returns the rows of the record and the run's quality; [`standing`]
//! keeps a network up for programs of all kinds.

pub mod baseline;
mod budget;
mod buffers;
mod capture;
mod check;
mod child;
mod clock;
mod cpu_latency;
mod cpu_times;
mod driver;
mod error;
mod facts;
#[doc(hidden)]
pub mod flood;
mod flow;
mod flow_bulk;
mod flow_udp;
mod frame;
#[cfg(test)]
mod frame_at_router;
mod frame_layers;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod journal;
mod machine;
mod namespace;
mod namespace_limits;
mod netlink;
mod outcome;
mod port;
mod processors;
mod quality;
mod recorder;
mod run;
mod sampler;
mod stall_effects;
mod stalls;
pub mod standing;
mod sys;
mod sysctl;
mod taps;
mod turnaround;
mod writer;

pub use check::{Check, CheckItem, CheckState, check};
pub use clock::TimeMode;
pub use error::Error;
pub use flow::has_congestion_control;
pub use journal::{CleanupReport, Journal, JournalEntry, StandingLab};
pub use machine::{Privilege, acquire_privilege, host_info};
pub use outcome::{Observer, Outcome, OwnControl, Progress, RunOptions};
pub use port::Backend;
pub use run::{check_flows, run};
pub use turnaround::{HalfRoundTrips, Turnaround};
