//! Runs that are computed from a scenario alone: the model and the simulator as engines, and the summary of
//! any engine's measurement.
//!
//! Pure, so the same runs are computed by the program and in a browser. The caller supplies everything that a
//! machine decides: the settings that hosts inherit ([`Sysctls`]), the congestion controls
//! ([`sim_engine::CongestionControls`]) and the real time.
//!
//! Not here: the choice of runs, repeats, records and published figures (`experiment`).

mod cc_law;
pub mod congestion;
mod counters32;
mod engine;
pub mod flow_context;
mod host_bursts;
mod host_costs;
pub mod model_engine;
mod nothing_arrived;
mod outcome;
mod parts;
pub mod sim_engine;
mod stream;
pub mod sysctl_defaults;

pub use engine::{EngineChoice, EngineChoices};
pub use outcome::{MeasuredRun, Measurement, complete};
pub use parts::add_parts;

/// The sysctls of the machine whose settings hosts inherit, by name; `None` if it has none of this name.
pub type Sysctls<'a> = &'a dyn Fn(&str) -> Option<String>;
