//! The record of a run: a directory with the run's series as Parquet and its summary as JSON.
//!
//! ```text
//! runs/<scenario>/<id>/
//!   scenario.toml     the scenario as it was run
//!   summary.json      longfat.summary/1 with this one run in it
//!   flows.parquet     one row a flow and sample
//!   links.parquet     one row a link direction and sample
//!   events.parquet    losses, retransmissions, changes of state
//! ```
//!
//! A record is complete or absent: it is written as `.<id>.partial` beside its place and renamed when all
//! of it is on the disk. A run that is killed leaves the `.partial` directory, which opens like any other
//! record and says that it is partial. pandas, polars and DuckDB read the Parquet files as they are.
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
//! Not here: what the columns mean (`schema`), and how they are drawn (`view`).

mod columns;
mod csv;
mod error;
mod find;
mod id;
mod parquet_file;
mod run;
mod table;
mod writer;

pub use columns::{ColumnFile, TableName, Texts};
pub use error::Error;
pub use find::{RunEntry, find, list};
pub use id::new_id;
pub use run::Run;
pub use writer::Writer;

/// A minimal summary, for examples and tests.
#[doc(hidden)]
pub const EXAMPLE_SUMMARY: &str = r#"{"schema": "longfat.summary/1", "scenario": "lab8", "title": "Lab 8",
  "host": {"kernel": "6.18.0", "cpus": 2}, "runs": [{"id": "", "engine": "lab", "variant": "tuned", "repeat": 1,
  "seed": 1, "duration_s": 20.0, "wall_s": 21.0, "flows": [], "links": [], "fairness_jain": null,
  "quality": {"ok": true, "emulator_late_p99_us": null, "cpu_idle_min": null, "notes": []}}]}"#;
