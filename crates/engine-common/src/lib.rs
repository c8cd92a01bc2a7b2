//! Code shared by the simulator and the lab: both run a scenario on a [`net::Network`], and both write rows
//! of the record.
//!
//! [`build_network`] makes the network that a scenario describes, [`datagram_source`] the schedule of a udp
//! flow. [`LinkSampler`] and [`datagram_row`] turn counters into rows. The model engine needs none of this.
//!
//! Pure: time is an argument, and nothing here does I/O.
//!
//! ```
//! let text = r#"
//!     duration = "5s"
//!     [hosts]
//!     h1.address = "10.0.0.1/8"
//!     h2.address = "10.0.0.2/8"
//!     [[links]]
//!     ends = ["h1", "h2"]
//!     forward = { rate = "1gbit", delay = "20ms" }
//! "#;
//! let scenario = scenario::ScenarioFile::parse("short.toml", text).unwrap().resolve(None, &[]).unwrap();
//! let network = engine_common::build_network::<net::test_packet::TestPacket>(&scenario).unwrap();
//! assert_eq!(network.stations(), 2);
//! // The backward direction is ideal: it neither limits, delays nor loses, so it has no rows.
//! let sampled = engine_common::sampled_pipes(&scenario);
//! assert_eq!((sampled.len(), sampled[0].direction()), (1, net::Direction::Forward));
//! ```

mod bulk;
mod error_chain;
mod flows;
mod network;
mod play_out;
mod rows;
mod sampled;

pub use self::bulk::{bulk_events, bulk_plan, bulk_row};
pub use error_chain::error_chain;
pub use flows::{UDP_HEADER_BYTES, datagram_source, echo_timeout};
pub use network::{build_network, build_topology};
pub use play_out::stream_summary;
pub use rows::{FlowTotals, LinkSampler, LinkTotals, datagram_row, micros, time_us};
pub use sampled::{SampledPipe, sampled_pipes};
