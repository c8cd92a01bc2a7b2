//! Runs the experiments of a scenario file by closed forms, in the simulator, in the lab, in a guest kernel
//! or between real hosts.
//!
//! An [`Experiment`] is a scenario file with the settings that all its runs share. A [`Selection`] names the
//! runs: engines, variants, points of sweeps, repeats. [`RunOptions`] configure execution: records, progress,
//! parallelism. [`Experiment::run`] executes the runs and compares them with published figures,
//! [`Experiment::plan_sweep`] sweeps a metric, [`fit()`] searches for unknown fields.
//!
//! ```
//! use experiment::{EngineChoice, Experiment, RunOptions, Selection};
//!
//! # fn main() -> experiment::Result<()> {
//! let experiment = Experiment::from_file("../../scenarios/lab8.toml")?.set("duration", "5s");
//! let summary = experiment.run(&Selection::with_engine(EngineChoice::Model), &RunOptions::default())?;
//! for run in &summary.runs {
//!     println!("{:?}: {:?}", run.variant, run.flows[0].goodput_bps);
//! }
//! # assert_eq!(summary.runs.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! The kernel engine starts the calling program again inside the guest. That program must call
//! [`guest::init`] for the arguments `guest init SEED` and [`guest::run`] for `guest run`. Call
//! [`LabSetup::acquire`] before the process starts a second thread.
//!
//! Not here: tables, plots and pages (`view`), and measurements between real hosts (`measurement`,
//! `diagnosis`).

mod batch;
pub mod built_in;
mod closed_form;
pub mod confidence;
pub mod congestion;
mod engine_outcome;
mod engines;
pub mod error;
mod experiment;
mod fit;
mod instant;
mod job;
mod load;
pub mod machine;
pub mod mininet;
mod model_predictions;
mod observer;
mod order;
pub mod path_comparison;
mod point_store;
mod published;
mod recent_goodput;
mod recorded_runs;
mod reliability;
mod repeat;
pub mod reproduce;
mod run_figure;
mod run_job;
pub mod scenario_file;
mod selection;
mod shard;
pub mod sheet_defaults;
mod stepped;
mod sweep;
mod validation;

pub use batch::{JobResult, run_all, run_each};
pub use computed_runs::{EngineChoice, EngineChoices, flow_context};
pub use engine_outcome::Outcome;
pub use engines::{HostsSetup, LabSetup, check_guest, clean_journal, find_guest, guest};
pub use error::{Error, ErrorKind, Result};
pub use experiment::Experiment;
pub use fit::{FitRange, Search, fit};
pub use instant::{compact, now, rfc3339, since};
pub use job::{Job, Point};
pub use lab::Progress;
pub use load::{ExcessiveLoad, Load};
pub use observer::{Observer, RunObserver};
pub use order::RunOrder;
pub use point_store::{POINT_SCHEMA, PointDocument, PointStore};
pub use recent_goodput::RecentGoodput;
pub use recorded_runs::RecordedRuns;
pub use repeat::RepeatTime;
pub use run_figure::RunFigure;
pub use run_job::{CompletedRun, Retention, Rows, RunOptions};
pub use selection::Selection;
pub use shard::Shard;
pub use stepped::{FlowControl, run_stepped};
pub use sweep::SweepPlan;
pub use validation::{FileSummary, validate};
