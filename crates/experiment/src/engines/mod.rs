//! The engines. Each runs a scenario and returns the rows and the summary of the run.

pub mod guest;
mod hosts;
mod kernel;
mod lab;
mod model;
mod simulator;

use std::sync::atomic::AtomicBool;

use record::Writer;
use scenario::Scenario;
use schema::RunSummary;

use crate::{Outcome, Result, RunObserver};

pub(crate) use self::{hosts::Hosts, kernel::Kernel, lab::Lab, model::Model, simulator::Sim};
pub use self::{
    hosts::HostsSetup,
    kernel::{check as check_guest, find as find_guest},
    lab::{LabSetup, clean_journal},
};

/// Runs scenarios.
pub(crate) trait Engine {
    /// Runs the scenario and completes its initial summary.
    ///
    /// # Errors
    /// Nothing was measured. For a run that failed after measuring something, see [`Outcome::failed`].
    fn run(&self, task: Task<'_>) -> Result<Outcome>;
}

/// Input of an engine.
pub(crate) struct Task<'a> {
    pub scenario: &'a Scenario,
    /// The summary of the run before its start.
    pub initial: RunSummary,
    pub observer: &'a mut dyn RunObserver,
    /// Receives rows as they are measured. Lab and guest runs need one, for their captures.
    pub writer: Option<&'a mut Writer>,
    /// Set to end the run early.
    pub stop: &'a AtomicBool,
}
