//! Standing labs, which stay up until they are ended: `longfat lab up`, `exec`, `status`, `down`.

mod control;
mod enter;
mod host_mtus;
mod isolate;
mod keeper;
pub mod lesson;
mod links;
mod mounts;
mod tc;
mod tc_change;
mod tc_compose;
mod tc_kinds;
mod tc_units;
mod terminal;

pub use control::{LinkStatus, NodeKind, NodeStatus, Reply, Request, Status, StopCommand, send_request};
pub use enter::{host_network_namespace, run_on_host};
pub(crate) use isolate::try_isolation;
pub use isolate::{detach_standard_streams, ignore_terminal_signals, start_session, terminal_interrupts};
pub use keeper::{KeeperOptions, run_keeper};
pub use mounts::{CONTROL, REAL_TC};
pub use tc::is_for_emulated_port;
pub use terminal::run_in_foreground;
