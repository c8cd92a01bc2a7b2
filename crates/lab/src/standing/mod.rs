//! A lab that stays up: `longfat lab up`, `exec`, `status`, `down`.

mod control;
mod enter;
mod host_mtus;
mod isolate;
mod keep;
mod links;
mod mounts;
mod tc;
mod tc_units;

pub use control::{Answer, LinkStatus, NodeStatus, Request, Status, StopCommand, ask};
pub use enter::{execute, network_of};
pub(crate) use isolate::try_isolation;
pub use isolate::{begin_session, leave_keys_to_children, leave_terminal};
pub use keep::{KeepOptions, keep};
pub use mounts::{CONTROL, REAL_TC};
pub use tc::is_for_emulated_port;
