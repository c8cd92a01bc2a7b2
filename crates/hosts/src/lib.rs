//! Runs the flows of a scenario between real hosts.
//!
//! Each host of the scenario is this machine, a `longfat serve`, or an iperf3 server ([`HostLocations`]).
//! [`run()`] connects to them, applies the settings that the scenario states, starts the flows at their
//! times, and collects both ends' samples on one time axis. A flow between two other hosts is started by the
//! server at its sending end.
//!
//! - [`HostService`]: the part of such runs that a `longfat serve` executes;
//! - [`ChangedSettings`]: settings that are restored even if this process is killed;
//! - [`guard_settings`]: the process that restores them if this one is killed;
//! - [`restore_left_settings`]: restores them if both were killed.
//!
//! The data is sent by the protocol of [`iperf3`], echo requests by [`traffic`]. The program that calls
//! [`run()`] or serves must call [`guard_settings`] for the argument [`GUARD_COMMAND`].

mod clock;
mod error;
mod flow;
mod flow_limits;
mod host_locations;
mod measured;
mod message;
mod plan;
mod prepare;
mod reply_queue;
mod run;
mod running;
mod server_session;
mod service;
mod settings;
#[cfg(test)]
mod test_support;

pub use error::Error;
pub use host_locations::HostLocations;
pub use measured::{HostReport, Measured, Observer, RunOptions};
pub use plan::{check, check_flows};
pub use run::run;
pub use scenario::{Address, HostLocation};
pub use service::HostService;
pub use settings::{
    ChangedSettings, GUARD_COMMAND, guard_settings, restore_left_settings, restore_left_settings_with_note,
};
