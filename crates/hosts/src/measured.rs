//! The options, the observer and the result of a run.

use std::{collections::BTreeMap, sync::atomic::AtomicBool, time::Duration};

use engine_common::FlowTotals;
use iperf3::Token;
use scenario::FlowSpec;
use schema::{Event, FlowSample};
use units::Time;

use crate::{Error, host_locations::HostLocations};

/// How a scenario is run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions<'a> {
    /// The addresses of the hosts.
    pub locations: &'a HostLocations,
    /// The secret of all servers.
    pub token: Option<&'a Token>,
    /// Whether this machine's settings may be changed for the run. Each server decides this for its own
    /// settings.
    pub allows_tune: bool,
    /// How long the run tries to continue flows whose connection was lost; `None`: such flows are not
    /// continued.
    pub reconnect: Option<Duration>,
    /// Set it to end the run early.
    pub stop: &'a AtomicBool,
}

/// Receives the progress of a run.
pub trait Observer {
    /// A message for the user while the run waits, one sentence.
    fn note(&mut self, sentence: &str);

    /// Rows as they arrive, of the sending end if it is longfat; times since the run's start.
    ///
    /// # Errors
    /// Ends the run.
    fn rows(
        &mut self,
        elapsed: Time,
        rows: &[FlowSample],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// The measurement of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Samples of both ends in order of time since the run's start. The run's start is the instant for which
    /// the first flow's data began at that flow's start.
    pub rows: Vec<FlowSample>,
    /// Lost echoes.
    pub events: Vec<Event>,
    /// Flows that continue others, whose connection was lost, in the order of the losses.
    pub continuations: Vec<FlowSpec>,
    /// The flows' totals, in the scenario's order, then those of the continuations.
    pub flow_totals: Vec<FlowTotals>,
    /// Share of the time that the sending and the receiving thread of each of these flows were busy, 0 to 1.
    pub busy: Vec<[Option<f64>; 2]>,
    /// The hosts, by their names in the scenario.
    pub hosts: BTreeMap<String, HostReport>,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// Duration of the flows.
    pub duration: Time,
    /// Why a flow failed, if others were measured.
    pub failed: Option<Error>,
    /// The stop flag was set.
    pub interrupted: bool,
    /// The names of the flows that failed after they had begun, or before their start had come.
    pub(crate) lost: Vec<String>,
    /// The flows that failed and were not continued, each with the reason.
    pub(crate) failures: Vec<(String, String)>,
    /// The run's start by this machine's clock, ns since 1970.
    pub(crate) zero_ns: Option<i64>,
}

/// A host of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostReport {
    /// Its address; `None` for this machine.
    pub address: Option<String>,
    /// Release of its kernel, if known.
    pub kernel: Option<String>,
    /// The values of the scenario's settings, and of TCP's buffers, during the run. Empty for an iperf3.
    pub settings: BTreeMap<String, String>,
    /// Its clock's time minus this machine's and the maximum error, ns; `None` for this machine and for an
    /// iperf3.
    pub clock_offset_ns: Option<(i64, i64)>,
}
