//! The measurements that a diagnosis needs, as a trait.

use probe::AvailableBandwidthResult;
use schema::{FlowSample, FlowSummary};
use tune::HostFacts;
use units::{BitRate, Time};

use crate::Mtu;

/// A path between two hosts that can be measured.
pub trait Path {
    /// Why a measurement failed; it ends the diagnosis.
    type Error;

    /// Called before each measurement with its description.
    fn report_step(&mut self, what: &str);

    /// Measures the round-trip times without load and the packet sizes that pass.
    ///
    /// # Errors
    /// If the path cannot be measured.
    fn round_trips_and_mtu(&mut self) -> Result<(RoundTrips, Mtu), Self::Error>;

    /// Measures the minimum of a few round-trip times now; `None` if that is not possible.
    fn round_trip(&mut self) -> Option<Time>;

    /// The path MTU in this host's routing cache, if known: larger packets are fragmented.
    fn route_mtu(&mut self) -> Option<u32>;

    /// Sends a burst of datagrams; `None` if the other end accepts none.
    ///
    /// # Errors
    /// If the test failed.
    fn datagrams(&mut self, plan: &DatagramPlan) -> Result<Option<Burst>, Self::Error>;

    /// Runs a TCP test; `None` if no data flowed.
    ///
    /// # Errors
    /// If the test failed.
    fn tcp(&mut self, plan: &TcpPlan) -> Result<Option<TcpResult>, Self::Error>;

    /// Measures the total goodput of parallel TCP connections, bit/s; `None` if that is not possible.
    ///
    /// # Errors
    /// If the test failed.
    fn parallel_goodput(&mut self, connections: u32, plan: &TcpPlan) -> Result<Option<f64>, Self::Error>;

    /// Measures the available bandwidth by a probe with at most `max_rate` over any second and packets of at
    /// most `mtu` bytes; `None` if the other end does not support probes.
    ///
    /// # Errors
    /// If the probe failed.
    fn available(
        &mut self,
        max_rate: BitRate,
        mtu: Option<u32>,
    ) -> Result<Option<AvailableBandwidthResult>, Self::Error>;
}

/// Round-trip times without load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrips {
    /// The minimum.
    pub min: Time,
    /// The median; `None` if only one was measured.
    pub median: Option<Time>,
}

/// A burst of datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct DatagramPlan {
    /// Rate of payload, bit/s.
    pub rate: BitRate,
    /// Payload of a datagram, bytes.
    pub payload: u32,
    /// Duration.
    pub time: Time,
    /// Datagrams behind schedule are skipped: sent together they would overflow short queues and count as
    /// loss.
    pub is_even: bool,
}

/// The result of a burst.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Burst {
    /// Payload that was sent, bit/s.
    pub sent_bps: f64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Maximum number of datagrams lost between two samples of the receiver; 0 if it reports none.
    pub lost_at_once: u64,
    /// Packets dropped by this host's device or queueing discipline during the burst; included in `lost`.
    pub dropped_here: u64,
    /// The receiver's measurements.
    pub arrived: Arrived,
    /// The receiving thread was saturated: its losses are not losses of the path.
    pub receiver_was_busy: bool,
}

/// A burst as measured by its receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Arrived {
    /// Rate of payload arriving after the queue had filled, bit/s.
    pub bps: f64,
    /// Minimum and maximum one-way delay, microseconds, by two unsynchronized clocks: only differences
    /// between bursts are meaningful.
    pub delays_us: Option<(i64, i64)>,
}

/// A TCP test.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPlan {
    /// Duration.
    pub time: Time,
    /// The sender's congestion control; `None`: the host's default.
    pub congestion: Option<String>,
}

/// The result of a TCP test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TcpResult {
    /// The flow's summary, with its verdict.
    pub flow: FlowSummary,
    /// Both ends' samples.
    pub rows: Vec<FlowSample>,
    /// Settings of the receiving host, if it reports them.
    pub receiver: Option<HostFacts>,
    /// Share of the time that the sending thread was busy, 0 to 1.
    pub sender_busy: Option<f64>,
    /// Share of the time that the receiving thread was busy, 0 to 1.
    pub receiver_busy: Option<f64>,
}
