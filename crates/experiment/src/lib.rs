//! Experiments: a scenario file in, runs out, by closed forms, simulation, the lab or a guest kernel.
//!
//! An [`Experiment`] is a scenario file with the settings that all its runs share. A [`Selection`] names the runs: engines,
//! variants, points of sweeps, repeats. [`RunOptions`] configure execution: records, progress, parallelism. [`Experiment::run`]
//! executes the runs and compares them with published figures, [`Experiment::plan_sweep`] sweeps a metric, [`fit()`] searches
//! for unknown fields.
//!
//! ```
//! use experiment::{EngineChoice, Experiment, RunOptions, Selection};
//!
//! # fn main() -> experiment::Result<()> {
//! let experiment = Experiment::from_file("../../scenarios/lab8.toml")?.set("duration", "5s");
//! let summary = experiment.run(&Selection::by(EngineChoice::Model), &RunOptions::default())?;
//! for run in &summary.runs {
//!     println!("{:?}: {:?}", run.variant, run.flows[0].goodput_bps);
//! }
//! # assert_eq!(summary.runs.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! The kernel engine runs the calling program once more, inside the guest: it must call [`guest::init`] for the arguments `guest
//! init SEED` and [`guest::run`] for `guest run`. The lab must be set up ([`LabSetup::acquire`]) before the process has a second
//! thread.
//!
//! Not here: tables, plots and pages (`view`), and measurements between real hosts (`perf`, `diagnosis`).

mod batch;
mod cc_law;
mod closed_form;
pub mod confidence;
pub mod congestion;
mod earlier;
mod engine;
mod engines;
pub mod error;
mod experiment;
mod fit;
pub mod flow_context;
mod host_bursts;
mod instant;
mod job;
mod nothing_arrived;
mod observer;
mod outcome;
mod presets;
mod published;
mod reliability;
mod repeat;
pub mod reproduce;
pub mod scenario_file;
mod selection;
mod sweep;

pub use batch::run_all;
pub use earlier::EarlierRuns;
pub use engine::{EngineChoice, EngineChoices};
pub use engines::{LabSetup, check_guest, clean_journal, find_guest, guest};
pub use error::{Error, ErrorKind, Result};
pub use experiment::Experiment;
pub use fit::{FitRange, Search, fit};
pub use instant::{compact, now, rfc3339};
pub use job::{CompletedRun, Job, Point, Retention, Rows, RunOptions};
pub use lab::Progress;
pub use observer::{Observer, RunObserver};
pub use outcome::Outcome;
pub use repeat::RepeatTime;
pub use selection::Selection;
pub use sweep::SweepPlan;
