//! The simulator: a resolved scenario in, the rows of the record out, in virtual time.
//!
//! Links, queues and losses come from `net`, the ends of TCP connections from `tcp`. This crate adds the
//! applications, address resolution and the event loop. The caller provides the congestion controls, see
//! [`Controllers`]. [`run`] simulates a whole scenario; a [`MeasurementSession`] measures on request while
//! the scenario's flows continue.
//!
//! Pure: the same scenario, settings and seed give the same rows on any machine. A run uses one thread, and
//! any number of runs may execute in parallel.
//!
//! ```
//! use sim::{Controllers, HostDefaults, Side};
//!
//! /// The scenario below has no TCP flows, so no congestion control is requested.
//! /// `examples/goodput.rs` shows TCP flows.
//! struct NoTcp;
//!
//! impl Controllers for NoTcp {
//!     fn controller(
//!         &mut self,
//!         flow: &scenario::FlowSpec,
//!         _: Side,
//!     ) -> Result<Box<dyn tcp::CongestionControl>, Box<dyn std::error::Error + Send + Sync>> {
//!         Err(format!("flow {} needs a congestion control", flow.name).into())
//!     }
//! }
//!
//! let text = r#"
//!     duration = "2s"
//!     sample = "100ms"
//!     [hosts]
//!     h1.address = "10.0.0.1/8"
//!     h2.address = "10.0.0.2/8"
//!     [[links]]
//!     ends = ["h1", "h2"]
//!     forward = { rate = "10mbit", delay = "20ms", queue = "50kB" }
//!     [[flows]]
//!     name = "stream"
//!     kind = "udp"
//!     from = "h1"
//!     to = "h2"
//!     rate = "4mbit"
//!     packet = "1000B"
//! "#;
//! let scenario = scenario::ScenarioFile::parse("stream.toml", text).unwrap().resolve(None, &[]).unwrap();
//! // Nothing observes the run; the outcome has all rows.
//! let outcome = sim::run(&scenario, &HostDefaults::default(), &mut NoTcp, &mut ()).unwrap();
//!
//! let last = outcome.flows.last().unwrap();
//! // 4 Mb/s are 500 datagrams of 1000 B a second.
//! assert!((990..=1001).contains(&last.datagrams_sent.unwrap()));
//! assert_eq!(last.datagrams_lost, Some(0));
//! // 20 ms of propagation, and 1042 B (with UDP, IP and Ethernet headers) at 10 Mb/s.
//! assert_eq!(last.min_owd_us, Some(20_833));
//! ```

mod addresses;
mod application;
mod bulk;
mod compact_packet;
mod config;
mod control_connection;
mod engine;
mod error;
mod fragments;
mod host_defaults;
mod host_processing;
mod link_layer;
mod neighbours;
mod outcome;
mod pace;
mod packet;
mod path_mtu;
mod ping;
mod recorder;
mod run;
mod sample;
mod session;
mod trace;
mod transfer;
mod transmit_queue;
mod udp;
mod udp_receiver;
mod xcp;
mod xcp_window;

pub use config::applies_sysctl;
pub use error::Error;
pub use host_defaults::{HostDefaults, Segmentation};
pub use outcome::{
    Controllers, HostLoad, HostSample, Observer, Outcome, Side, TransmitQueueDrops, UnresolvedDrops,
};
pub use run::run;
pub use session::{MeasuredFlow, MeasurementSession};
