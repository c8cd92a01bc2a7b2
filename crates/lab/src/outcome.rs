//! What goes into a run and what comes out of it.

use std::{collections::BTreeMap, path::Path, sync::atomic::AtomicBool, time::Duration};

use scenario::rows::{FlowEnd, LinkEnd};
use schema::{Event, FlowSample, LinkSample, Quality};
use units::Time;

use crate::{Error, Journal, clock::TimeMode, machine::Privilege, port::Backend};

/// How to run.
#[derive(Debug)]
pub struct Options<'a> {
    /// By what right, see [`crate::acquire`].
    pub privilege: Privilege,
    /// How time passes: virtual only inside a guest kernel whose time is.
    pub time: TimeMode,
    /// How ports are made.
    pub backend: Backend,
    /// Where this lab is entered.
    pub journal: &'a Journal,
    /// Where captured packets are written; without it the scenario's captures are not made.
    pub capture_dir: Option<&'a Path>,
    /// The kernel's names of the congestion controls of flows that have one, by flow.
    pub congestion_controls: &'a BTreeMap<String, String>,
    /// Set from outside to end the run early.
    pub stop: &'a AtomicBool,
}

/// Sees a run while it goes on.
pub trait Observer {
    /// Rows since the last call, in order of time. An error ends the run.
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
    /// How far the run is, several times a second.
    fn progress(&mut self, progress: &Progress);
}

/// How far a run is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Time,
    /// The latest sample of each flow that has one, in the scenario's order.
    pub flows: Vec<FlowSample>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// All samples in order of time.
    pub flows: Vec<FlowSample>,
    /// All link samples.
    pub links: Vec<LinkSample>,
    /// All events.
    pub events: Vec<Event>,
    /// The flows' ends, in the scenario's order.
    pub flow_ends: Vec<FlowEnd>,
    /// The counters of links that are not ideal.
    pub link_ends: Vec<LinkEnd>,
    /// How far the run can be trusted.
    pub quality: Quality,
    /// Time on the wall's clock, set-up included.
    pub wall: Duration,
    /// How long the flows ran.
    pub duration: Time,
    /// True where it was ended early from outside.
    pub interrupted: bool,
    /// The first flow's failure, where other flows were measured all the same.
    pub failed: Option<Error>,
}
