//! The lab as an engine: the real kernel's TCP over an emulated network on this machine.

use lab::{Backend, Journal, Privilege, TimeMode};
use scenario::{EngineKind, FlowSpec};
use schema::FlowSummary;

use super::{Engine, Task};
use crate::{
    Error, Observer, Outcome, Result,
    congestion::Registered,
    engine_outcome::{Recording, complete, of_lab},
};

/// Configuration of all lab runs of one process.
#[derive(Debug)]
pub struct LabSetup {
    /// Lists the running labs, for clean-up after a crash.
    pub journal: Journal,
    /// How network namespaces are created.
    pub privilege: Privilege,
    /// Real or virtual time.
    pub time: TimeMode,
    /// How hosts are connected.
    pub backend: Backend,
}

impl LabSetup {
    /// Cleans up after dead labs and acquires the privilege to create network namespaces. Call it before the
    /// process starts a second thread. If `ports` is `None`, TAP devices connect the hosts if this user can
    /// open /dev/net/tun.
    ///
    /// # Errors
    /// This user is not permitted to create network namespaces.
    pub fn acquire(ports: Option<Backend>, observer: &dyn Observer) -> Result<Self> {
        // Before acquiring the privilege: in a user namespace this user has uid 0.
        let journal = Journal::of_this_user();
        if let Err(error) = clean_journal(&journal) {
            // A failed clean-up does not prevent a new lab.
            observer.note(&format!("longfat: {error}"));
        }
        let privilege = lab::acquire_privilege()?;
        let backend = ports.unwrap_or_else(Backend::for_this_machine);
        Ok(LabSetup { journal, privilege, time: TimeMode::Real, backend })
    }
}

/// Cleans up after the dead labs of a journal.
///
/// # Errors
/// The journal has unreadable entries, which the user has to inspect.
pub fn clean_journal(journal: &Journal) -> Result<lab::CleanupReport> {
    journal.clean().map_err(|error| match error {
        lab::Error::Journal { .. } => {
            Error::BadInput(format!("{error}; remove the file if it is not needed"))
        }
        other => other.into(),
    })
}

/// The lab, with the registered congestion controls of a scenario's flows.
pub(crate) struct Lab<'a> {
    pub setup: &'a LabSetup,
    pub registered: &'a Registered,
}

impl Engine for Lab<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, initial, observer, writer, stop } = task;
        let Some(writer) = writer else {
            return Err(Error::BadInput("a lab run needs a record directory (Retention::Record)".into()));
        };
        // Captures stay in the record's directory when it is renamed at the end.
        let capture_dir = writer.path().to_owned();
        let options = lab::RunOptions {
            privilege: self.setup.privilege,
            time: self.setup.time,
            backend: self.setup.backend,
            journal: &self.setup.journal,
            capture_dir: Some(&capture_dir),
            congestion_controls: &self.registered.kernel_names,
            own_controls: &self.registered.own_controls,
            stop,
        };
        let mut recording = Recording { writer: Some(writer), observer };
        let mut outcome = lab::run(scenario, &options, &mut recording)?;
        // The kernel applies all sysctls; an unknown sysctl fails the run.
        outcome.quality.notes.extend(scenario.not_modelled(EngineKind::Lab, |_, _| true));
        let describe_cc = |flow: &FlowSpec, used: Option<&str>, flow_summary: &mut FlowSummary| {
            self.registered.describe(flow, used, flow_summary);
        };
        let (measurement, failed) = of_lab(scenario, outcome);
        Ok(complete(scenario, describe_cc, initial, measurement, failed))
    }
}
