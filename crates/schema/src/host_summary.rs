//! The load of a simulated host whose scenario states processing costs of packets.

use serde::{Deserialize, Serialize};

/// The work of one host in a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// The host's name.
    pub name: String,
    /// Share of the run in which its processor was busy, from 0 to 1.
    pub processor_busy: f64,
    /// Time in which its processor was busy, seconds.
    pub processor_s: f64,
    /// Share of the run in which its bus was busy; absent without a bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_busy: Option<f64>,
    /// Interrupts.
    pub interrupts: u64,
    /// Packets dropped because too many waited for the processor.
    pub dropped_packets: u64,
}
