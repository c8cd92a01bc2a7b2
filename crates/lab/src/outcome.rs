//! Input and output of a run.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use engine_common::{FlowTotals, LinkTotals};
use os::TxCounters;
use schema::{Event, FlowSample, LinkSample, Quality};
use units::Time;

use crate::{Error, Journal, clock::TimeMode, machine::Privilege, port::Backend};

/// How to run.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// Returned by [`crate::acquire_privilege`].
    pub privilege: Privilege,
    /// How time passes: virtual only inside a guest kernel with virtual time.
    pub time: TimeMode,
    /// How hosts are connected to the emulator.
    pub backend: Backend,
    /// The journal in which this lab is registered.
    pub journal: &'a Journal,
    /// Directory of the capture files; without it the scenario's captures are skipped.
    pub capture_dir: Option<&'a Path>,
    /// The kernel's names of congestion controls, by flow, for flows that set one.
    pub congestion_controls: &'a BTreeMap<String, String>,
    /// The congestion controls of transports that run in this program, by flow. A QUIC flow without an entry
    /// uses quinn's CUBIC.
    pub own_controls: &'a BTreeMap<String, OwnControl>,
    /// The caller sets this flag to end the run early.
    pub stop: &'a AtomicBool,
}

/// Creates the congestion control of a flow, on the flow's thread.
#[derive(Clone)]
pub struct OwnControl(Arc<CreateControl>);

type CreateControl = dyn Fn() -> Result<Box<dyn tcp::CongestionControl>, Box<dyn std::error::Error + Send + Sync>>
    + Send
    + Sync;

impl OwnControl {
    /// The congestion control that this function creates, which is set to [`tcp::DRIVER_HZ`].
    pub fn new(
        create: impl Fn() -> Result<Box<dyn tcp::CongestionControl>, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        OwnControl(Arc::new(create))
    }

    pub(crate) fn create(&self) -> io::Result<Box<dyn tcp::CongestionControl>> {
        (self.0)().map_err(io::Error::other)
    }
}

impl fmt::Debug for OwnControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnControl")
    }
}

/// Receives rows and progress during a run.
pub trait Observer {
    /// Called with the rows since the last call, in order of time.
    ///
    /// # Errors
    /// Any error ends the run, which then fails with [`Error::Observer`].
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
    /// Called with the run's progress several times a second.
    fn progress(&mut self, progress: &Progress);
}

/// Ignores rows and progress: the outcome has all rows.
impl Observer for () {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn progress(&mut self, _: &Progress) {}
}

/// Progress of a run.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Time,
    /// The latest sample of each flow that has one, in the scenario's order.
    pub flows: Vec<FlowSample>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// All samples in order of time.
    pub flows: Vec<FlowSample>,
    /// All link samples.
    pub links: Vec<LinkSample>,
    /// All events.
    pub events: Vec<Event>,
    /// The flows' ends, in the scenario's order.
    pub flow_ends: Vec<FlowTotals>,
    /// Final counters of links that are not ideal.
    pub link_ends: Vec<LinkTotals>,
    /// The transmit counters of each host's devices during the run, by the host's name.
    pub transmitted: BTreeMap<String, TxCounters>,
    /// Whether the measurement is reliable.
    pub quality: Quality,
    /// Wall-clock time, set-up included.
    pub wall: Duration,
    /// Duration of the flows.
    pub duration: Time,
    /// True if the caller ended the run early.
    pub interrupted: bool,
    /// The first failure of a flow, if other flows were measured.
    pub failed: Option<Error>,
}
