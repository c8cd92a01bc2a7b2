//! The scenario file: an experiment in TOML, parsed, checked and resolved.
//!
//! [`ScenarioFile::parse`] reads a file and checks all of it, every variant included. Its [`Error`] shows
//! each mistake with its line and a hint. [`ScenarioFile::resolve`] returns one [`Scenario`] with every
//! default filled in; engines see nothing else.
//!
//! Pure: it reads text, not files, and does not depend on the engines that run a scenario.
//!
//! ```
//! let file = scenario::ScenarioFile::parse("short.toml", r#"
//!     duration = "5s"
//!     [hosts]
//!     h1.address = "10.0.0.1/8"
//!     h2.address = "10.0.0.2/8"
//!     [[links]]
//!     ends = ["h1", "h2"]
//!     forward = { rate = "1gbit", delay = "20ms" }
//!     [[flows]]
//!     name = "bulk"
//!     from = "h1"
//!     to = "h2"
//! "#).unwrap();
//! let scenario = file.resolve(None, &[("flows.bulk.cc".into(), "reno".into())]).unwrap();
//! assert_eq!(scenario.links[0].name, "h1-h2");
//! assert_eq!(scenario.path("h2", "h1").unwrap()[0].direction, scenario::Direction::Backward);
//!
//! let error = scenario::ScenarioFile::parse("bad.toml", "duration = \"5s\"\nsampel = \"1ms\"\n").unwrap_err();
//! assert!(error.to_string().contains("bad.toml:2:1: unknown key \"sampel\""));
//! assert!(error.to_string().contains("did you mean \"sample\"?"));
//! ```

mod address;
mod amount;
mod cc;
mod change;
mod decode_bulk;
mod decode_cc;
mod decode_cost;
mod decode_direction;
mod decode_flows;
mod decode_hosts;
mod decode_interfaces;
mod decode_links;
mod decode_loss;
mod decode_nic;
mod decode_qdisc;
mod decode_queue;
mod decode_routers;
mod decode_scenario;
mod decode_trace;
mod domain;
mod error;
mod figure;
mod file;
mod fill;
#[doc(hidden)]
pub mod fuzzing;
mod host_cost;
mod host_location;
mod import;
mod layer;
mod metric;
mod modelled;
mod name;
mod path;
mod path_mtu;
mod print;
mod print_pipe;
mod published;
mod quote;
mod read;
mod set;
mod simple_path;
mod streams;
mod suggest;
mod sweep;
mod trace_file;
mod tree;
mod types;
mod validate;
mod validate_addresses;
mod validate_flows;
mod validate_topology;

pub use amount::Amount;
pub use cc::{Cc, CcValue, CcValues};
pub use change::{change_direction, describe_direction};
pub use decode_hosts::is_simulated;
pub use error::{Error, Mistake};
pub use figure::{CLOSED_FORM_KEYS, MetricPath};
pub use file::{CcMistake, ScenarioFile};
pub use host_cost::{COST_PRESETS, CostPreset, HostCost, Moderation};
pub use host_location::{Address, HostLocation};
pub use import::{ImportError, Imported, import_mn};
pub use metric::{LinkMetric, Metric, RunMetric};
pub use modelled::{EngineKind, FEATURES, Feature, Handling};
pub use net::Direction;
pub use path::PathHop;
pub use path_mtu::{BlackHole, PathMtu};
pub use published::{Across, Comparison, KNEE_TOLERANCE, Kind, PerEngine, Published};
pub use set::replaces;
pub use simple_path::{QueueLimit, SimplePath};
pub use suggest::{is_similar, nearest};
pub use sweep::MAX_POINTS;
pub use trace_file::ReadFile;
pub use types::{
    BurstLengths, Bursts, Cidr, FlowKind, FlowSpec, Host, Interface, Link, LinkChange, Nic, PingSpec,
    QuicSpec, Router, Scenario, StaticRoute, StreamSpec, SysctlDefaults, TcpSpec, TsunamiSpec, UdpSpec,
    UdtSpec, XcpSpec,
};
