//! The record of a run: a directory with the run's series as Parquet and its summary as JSON.
//!
//! ```text
//! runs/<scenario>/<id>/
//!   scenario.toml     the scenario as it was run
//!   summary.json      longfat.summary/1 with this one run in it
//!   flows.parquet     one row per flow and sample
//!   links.parquet     one row per link direction and sample
//!   events.parquet    losses, retransmissions, state changes
//!   trace.parquet     one row per segment or ACK, where flows were traced
//! ```
//!
//! A record is complete or absent: it is written as `.<id>.partial` next to its final directory and renamed
//! once all of it is on the disk. A killed run leaves the `.partial` directory, which opens like any other
//! record and is marked partial. pandas, polars and DuckDB read the Parquet files directly.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runs = std::env::temp_dir().join(format!("longfat-record-doc-{}", std::process::id()));
//! # let summary: schema::Summary = serde_json::from_str(record::EXAMPLE_SUMMARY)?;
//! let writer = record::Writer::create(&runs, "lab8", "20261121T031500Z-lab", "title = \"x\"", &summary)?;
//! let path = writer.finish(&summary, &[], &[], &[])?;
//! assert_eq!(record::find(&runs, "last")?.path, path);
//! # std::fs::remove_dir_all(&runs)?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RunsLocation`] is where a command's records are: a directory, or an object store behind the trait
//! [`RunStore`]. This crate does no I/O on networks.
//!
//! The `schema` crate defines the columns, and `view` plots them.

mod columns;
mod csv;
mod error;
mod find;
mod id;
mod layout;
mod location;
mod lock;
mod origin;
mod parquet_file;
mod remove;
mod run;
mod run_table;
mod select;
mod store;
mod table;
mod writer;

pub use columns::{ColumnFile, TableName, Texts};
pub use error::Error;
pub use find::{RunEntry, find, find_entry, list, names};
pub use id::new_id;
pub use layout::RUN_PARTITION;
pub use location::RunsLocation;
pub use remove::{check_writable, remove};
pub use run::Run;
pub use run_table::RunTable;
pub use select::{RunFilter, is_part, to_prune};
pub use store::RunStore;
pub use writer::{ID_SUFFIX_FILE, Writer};

/// A minimal summary, for examples and tests.
#[doc(hidden)]
pub const EXAMPLE_SUMMARY: &str = r#"{"schema": "longfat.summary/1", "scenario": "lab8", "title": "Lab 8",
  "host": {"kernel": "6.18.0", "cpus": 2}, "runs": [{"id": "", "engine": "lab", "variant": "tuned", "repeat": 1,
  "seed": 1, "duration_s": 20.0, "wall_s": 21.0, "flows": [], "links": [], "fairness_jain": null,
  "quality": {"ok": true, "emulator_late_p99_us": null, "cpu_idle_min": null, "notes": []}}]}"#;
