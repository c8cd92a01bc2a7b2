//! A host's settings for long fat paths: reads them ([`inspect`]), recommends changes ([`advise`], pure),
//! changes and restores them ([`apply`], [`revert`]), checks them later ([`check`]), and writes them in other
//! programs' formats ([`export`]).
//!
//! [`apply`] changes sysctls. If a device is named, it also changes its transmit queue, rings, offloads and
//! interrupt coalescing until the next reboot. For all other settings there are only commands to run by hand,
//! because these settings belong to the machine's network configuration, or need a decision of its
//! administrator.
//!
//! ```
//! use tune::{Goal, HostFacts, advise};
//!
//! let goal = Goal {
//!     rate: "10gbit".parse().unwrap(),
//!     rtt: "50ms".parse().unwrap(),
//!     streams: 1,
//!     device: None,
//!     lower: false,
//! };
//! let advice = advise(&HostFacts::default(), &goal).unwrap();
//! assert_eq!((advice.bdp_bytes, advice.buffer_bytes), (62_500_000, 120 << 20));
//! ```

mod advice;
mod advise;
mod advise_devices;
mod apply;
mod apply_mode;
mod check;
mod error;
mod ethtool;
mod export;
mod facts;
mod host_paths;
mod inspect;
mod journal;
mod netlink;
mod overriding;
mod setting;
mod sys;
mod sysctl;

pub use advice::{Advice, Goal, InfeasibleGoal, Recommendation, RecommendationStatus, Target};
pub use advise::advise;
pub use apply::{
    Applied, RejectedSetting, RequestedSettings, Reverted, apply, is_secret_setting, read_setting, revert,
};
pub use check::{Difference, check, limits_throughput};
pub use error::Error;
pub use export::{ExportFormat, export, manual_command};
pub use facts::{
    Coalescing, Device, HostFacts, Interrupt, Offloads, Pause, Reading, Rings, Route, Softnet, SysctlValue,
};
pub use host_paths::HostPaths;
pub use inspect::{
    device_towards, device_with_address, inspect, is_lab_host, read_transmit_queue, read_tx_counters,
};
pub use journal::{FileChange, Journal, SettingChange};
