//! The engines: each takes a scenario and gives a run's rows and summary.

pub mod guest;
mod kernel;
mod lab;
mod model;
mod sim;

use std::sync::atomic::AtomicBool;

use record::Writer;
use scenario::Scenario;
use schema::RunSummary;

use crate::{Outcome, Result, RunObserver};

pub(crate) use self::{kernel::Kernel, lab::Lab, model::Model, model::without_run, sim::Sim};
pub use self::{
    kernel::{check as check_guest, find as find_guest},
    lab::{LabSetup, clean_journal},
};

/// A way to run scenarios.
pub(crate) trait Engine {
    /// Runs the scenario and completes the summary that was begun.
    ///
    /// # Errors
    /// Where nothing was measured. A run that measured something and then failed is an outcome that says so.
    fn run(&self, task: Task<'_>) -> Result<Outcome>;
}

/// What an engine is given.
pub(crate) struct Task<'a> {
    pub scenario: &'a Scenario,
    /// The summary of the run, as it was begun.
    pub begun: RunSummary,
    pub observer: &'a mut dyn RunObserver,
    /// The record that rows go to as they are measured. Lab and guests need one, for their captures.
    pub writer: Option<&'a mut Writer>,
    /// Ends the run early.
    pub stop: &'a AtomicBool,
}
