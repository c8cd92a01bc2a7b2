//! longfat as a tool of pScheduler, perfSONAR's scheduler: the methods of a tool plug-in, each a JSON
//! document in and one out.
//!
//! pScheduler executes a program per method (`enumerate`, `can-run`, `duration`, `participant-data`, `run`,
//! `merged-results`), passes a document on standard input and reads one from standard output. [`call`] is
//! such a program. Source: pScheduler's developer's guide (`docs/developers-guide.tex`, section Tool) and the
//! specifications and results of its tests `throughput` (schema 7) and `rtt` (schema 4).
//!
//! - [`throughput`]: participant 0 is an iperf3 client, participant 1 a server for it alone; the verdict is
//!   in the result's `diags`
//! - [`rtt`]: round-trip times to a reflector of TWAMP or STAMP
//!
//! Not here: tests that need a raw socket (`trace`, and `rtt` by ICMP), because pScheduler runs its tools as
//! an ordinary user.
//!
//! ```
//! use pscheduler::{Method, Settings, call};
//!
//! let test = r#"{ "type": "throughput", "spec": { "schema": 1, "dest": "b.example", "duration": "PT20S" } }"#;
//! let reply = call(Method::Duration, test, &Settings::default()).unwrap();
//! assert_eq!(reply.to_string(), r#"{"duration":"PT30S"}"#);
//! ```

mod documents;
mod duration;
mod error;
mod method;
pub mod rtt;
mod server_data;
mod settings;
mod slot;
pub mod throughput;
mod verdict_text;

pub use error::Error;
pub use method::{Method, call};
pub use settings::Settings;
