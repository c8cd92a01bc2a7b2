//! The model as an engine.

use computed_runs::model_engine;
use schema::HostInfo;

use super::{Engine, Task};
use crate::{Outcome, Result, machine::machine_setting};

/// The model.
pub(crate) struct Model<'a> {
    /// This machine. Its kernel is the kernel of hosts without the key `kernel`.
    pub host: &'a HostInfo,
}

impl Engine for Model<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        Ok(model_engine::run(&machine_setting, task.scenario, task.initial, &self.host.kernel).into())
    }
}
