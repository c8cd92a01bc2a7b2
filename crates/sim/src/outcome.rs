//! The interfaces of a run to its caller, and its result.

use engine_common::{FlowTotals, LinkTotals};
use scenario::FlowSpec;
use schema::{Event, FlowSample, LinkSample, TraceRow};
use tcp::CongestionControl;
use units::{Instant, Picoseconds, Time};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that sends the flow's data.
    Sender,
    /// The end that receives it.
    Receiver,
}

/// Creates congestion controls. The receiver needs one too: it sends no data, but with ECN its ACKs depend on
/// it.
pub trait Controllers {
    /// Creates the congestion control of one end of a TCP flow.
    ///
    /// # Errors
    /// If there is no congestion control of the name that the flow gives, or it cannot be loaded. The error
    /// ends the run.
    fn controller(
        &mut self,
        flow: &FlowSpec,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Receives rows and progress during a run.
pub trait Observer {
    /// Receives the rows since the last call, in order of time.
    ///
    /// # Errors
    /// Errors end the run with [`crate::Error::Observer`].
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Receives the elapsed virtual time and each flow's latest sample, once a sample interval. False ends
    /// the run.
    fn progress(&mut self, elapsed: Time, latest: &[FlowSample]) -> bool;

    /// True if a TCP flow's sender is to be traced. Called once for each flow, before the run.
    fn is_traced(&self, _flow: &FlowSpec) -> bool {
        false
    }

    /// Receives the rows of traces since the last call, in order of time. The [`Outcome`] does not have them.
    ///
    /// # Errors
    /// Errors end the run with [`crate::Error::Observer`].
    fn trace_rows(&mut self, _rows: &[TraceRow]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
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

    fn progress(&mut self, _: Time, _: &[FlowSample]) -> bool {
        true
    }
}

/// The work of a host whose packets cost time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLoad {
    /// The host's name.
    pub host: String,
    /// In order of time.
    pub samples: Vec<HostSample>,
}

/// The processing time of a host since the run's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Since the run's start.
    pub time: Instant,
    /// Time in which its processor was busy.
    pub processor: Picoseconds,
    /// Time in which its bus was busy.
    pub bus: Picoseconds,
    /// Interrupts.
    pub interrupts: u64,
    /// Packets dropped because too many waited for the processor.
    pub dropped: u64,
}

/// Packets that a host dropped while they waited for the address of a neighbour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnresolvedDrops {
    /// The host's name.
    pub host: String,
    /// Packets dropped because too many waited.
    pub queue_full: u64,
    /// Packets dropped because no request had a reply.
    pub no_reply: u64,
}

/// Packets that the full transmit queue of a host (`nic.tx_queue`) dropped. TCP's data is not among them: TCP
/// notices that the queue is full, and keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransmitQueueDrops {
    /// The host's name.
    pub host: String,
    /// Their number.
    pub packets: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All samples of flows in order of time.
    pub flows: Vec<FlowSample>,
    /// All link samples.
    pub links: Vec<LinkSample>,
    /// All events in order of time.
    pub events: Vec<Event>,
    /// The flows' totals, in the scenario's order.
    pub flow_totals: Vec<FlowTotals>,
    /// The final counters of link directions that are not ideal.
    pub link_totals: Vec<LinkTotals>,
    /// The work of the hosts whose packets cost time.
    pub hosts: Vec<HostLoad>,
    /// The hosts that dropped packets without a neighbour's address.
    pub unresolved: Vec<UnresolvedDrops>,
    /// The hosts whose transmit queues dropped packets.
    pub transmit_queue_drops: Vec<TransmitQueueDrops>,
    /// Virtual time until the last flow ended.
    pub duration: Time,
    /// True if the observer ended the run.
    pub interrupted: bool,
    /// Data segments that all TCP senders sent, retransmissions included.
    pub data_segments: u64,
}
