//! What goes into a run beside the scenario, and what comes out of it.

use scenario::{
    Flow,
    rows::{FlowEnd, LinkEnd},
};
use schema::{Event, FlowSample, LinkSample};
use tcp::CongestionControl;
use units::Time;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It sends the flow's data.
    Sender,
    /// It receives them.
    Receiver,
}

/// Makes congestion controls. The receiver has one as well: it sends no data, but with ECN its ACKs depend on it.
pub trait Controllers {
    /// The congestion control of one end of a TCP flow.
    ///
    /// # Errors
    /// Where there is none of that name or it cannot be loaded.
    fn controller(
        &mut self,
        flow: &Flow,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Sees a run while it goes on.
pub trait Observer {
    /// Rows since the last call, in order of time.
    ///
    /// # Errors
    /// Ends the run.
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// How far the run is, with each flow's latest sample; false ends the run. Called once a sample interval.
    fn progress(&mut self, elapsed: Time, latest: &[FlowSample]) -> bool;
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All samples in order of time.
    pub flows: Vec<FlowSample>,
    /// All link samples.
    pub links: Vec<LinkSample>,
    /// All events in order of time.
    pub events: Vec<Event>,
    /// The flows' ends, in the scenario's order.
    pub flow_ends: Vec<FlowEnd>,
    /// The counters of links that are not ideal.
    pub link_ends: Vec<LinkEnd>,
    /// How long the flows ran.
    pub duration: Time,
    /// True where the observer ended it.
    pub interrupted: bool,
    /// Data segments that all TCP senders sent, retransmissions included.
    pub data_segments: u64,
    /// Of each flow, in the scenario's order: the segments that were sent again, in order of time, as offsets of their first
    /// bytes in the stream modulo 4 GiB.
    pub retransmitted: Vec<Vec<u32>>,
}
