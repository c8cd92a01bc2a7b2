//! The lab as an engine: the real kernel's TCP over an emulated network on this machine.

use lab::{Backend, Journal, Privilege, TimeMode};
use scenario::{EngineKind, Flow};
use schema::FlowSummary;

use super::{Engine, Task};
use crate::{
    Error, Observer, Outcome, Result,
    congestion::Registered,
    outcome::{Recording, complete},
};

/// What all lab runs of one program share.
#[derive(Debug)]
pub struct LabSetup {
    /// Where labs are entered.
    pub journal: Journal,
    /// By what right.
    pub privilege: Privilege,
    /// How time passes.
    pub time: TimeMode,
    /// How hosts are connected.
    pub backend: Backend,
}

impl LabSetup {
    /// Removes what dead labs left and gets the right to make new ones, before this process has a second thread. Without
    /// `ports` hosts are connected by TAP devices where /dev/net/tun may be opened.
    ///
    /// # Errors
    /// Where this user may not make network namespaces.
    pub fn acquire(ports: Option<Backend>, observer: &dyn Observer) -> Result<Self> {
        // Before the privilege: in a user namespace this user would look like root.
        let journal = Journal::of_this_user();
        if let Err(error) = clean_journal(&journal) {
            // What cannot be cleaned does not stand in the way of a new lab.
            observer.note(&format!("longfat: {error}"));
        }
        let privilege = lab::acquire()?;
        let backend = ports.unwrap_or_else(Backend::for_this_machine);
        Ok(LabSetup { journal, privilege, time: TimeMode::Real, backend })
    }
}

/// Removes what the dead labs of a journal left.
///
/// # Errors
/// Entries that cannot be read: the user has to inspect them.
pub fn clean_journal(journal: &Journal) -> Result<lab::Cleaned> {
    journal.clean().map_err(|error| match error {
        lab::Error::Journal { .. } => {
            Error::BadInput(format!("{error}; remove the file if it is not needed"))
        }
        other => other.into(),
    })
}

/// The lab, with the congestion controls that a scenario's flows need.
pub(crate) struct Lab<'a> {
    pub setup: &'a LabSetup,
    pub registered: &'a Registered,
}

impl Engine for Lab<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, begun, observer, writer, stop } = task;
        let Some(writer) = writer else {
            return Err(Error::BadInput("a lab needs a directory for its record".into()));
        };
        // The record's files stay in it when it is finished and renamed.
        let capture_dir = writer.path().to_owned();
        let options = lab::Options {
            privilege: self.setup.privilege,
            time: self.setup.time,
            backend: self.setup.backend,
            journal: &self.setup.journal,
            capture_dir: Some(&capture_dir),
            congestion_controls: &self.registered.kernel_names,
            stop,
        };
        let mut recording = Recording { writer: Some(writer), observer };
        let mut outcome = lab::run(scenario, &options, &mut recording)?;
        // The kernel applies all sysctls; one that it does not have fails the run.
        outcome.quality.notes.extend(scenario.not_modelled(EngineKind::Lab, |_, _| true));
        let describe_cc = |flow: &Flow, used: Option<&str>, flow_summary: &mut FlowSummary| {
            self.registered.describe(flow, used, flow_summary);
        };
        Ok(complete(scenario, describe_cc, begun, outcome.into()))
    }
}
