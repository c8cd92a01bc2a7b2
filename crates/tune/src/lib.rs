//! A host's settings for long fat paths: read ([`inspect`]), judged ([`advise`], pure), changed and put back ([`apply`],
//! [`revert`]), watched ([`check`]), told to other programs ([`export`]).
//!
//! Sysctls are changed, and of a device that is named its transmit queue, rings and offloads, until the next restart. For all else the
//! commands are told, because it is a matter of the machine's own network configuration, or of its owner alone.
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
mod check;
mod error;
mod ethtool;
mod export;
mod facts;
mod inspect;
mod journal;
mod netlink;
mod roots;
mod setting;
mod sys;
mod sysctl;

pub use advice::{Advice, Goal, Item, Refusal, State, Target};
pub use advise::advise;
pub use apply::{Applied, Refused, Reverted, Wanted, apply, revert};
pub use check::{Difference, check};
pub use error::Error;
pub use export::{Format, command, export};
pub use facts::{
    Coalescing, Device, HostFacts, Interrupt, Offloads, Outgoing, Pause, Reading, Rings, Route, Setting,
    Softnet,
};
pub use inspect::{device_towards, inspect, is_lab_host, outgoing};
pub use journal::{FileChange, Journal, SettingChange};
pub use roots::Roots;
