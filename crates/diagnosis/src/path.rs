//! What a diagnosis asks of whoever measures.

use probe::AvailableAnswer;
use schema::{FlowSample, FlowSummary};
use tune::HostFacts;
use units::{BitRate, Time};

use crate::Mtu;

/// A path between two hosts that can be measured, one measurement after another.
pub trait Path {
    /// Why a measurement failed; it ends the diagnosis.
    type Error;

    /// Told before each measurement.
    fn doing(&mut self, what: &str);

    /// The round-trip times without load, the fastest and the median where there are several, and what packets pass.
    ///
    /// # Errors
    /// Where the path cannot be measured at all.
    fn round_trips_and_mtu(&mut self) -> Result<(RoundTrips, Mtu), Self::Error>;

    /// The fastest of a few round trips from now on; `None` where that cannot be measured.
    fn round_trip(&mut self) -> Option<Time>;

    /// The MTU of the route as this host knows it by now, where it does: larger packets leave in fragments.
    fn route_mtu(&mut self) -> Option<u32>;

    /// A burst of datagrams; `None` where the other end takes none.
    ///
    /// # Errors
    /// Where the test failed.
    fn datagrams(&mut self, plan: &DatagramPlan) -> Result<Option<Burst>, Self::Error>;

    /// A TCP test; `None` where no data flowed.
    ///
    /// # Errors
    /// Where the test failed.
    fn tcp(&mut self, plan: &TcpPlan) -> Result<Option<TcpSeen>, Self::Error>;

    /// Goodput of this many TCP connections together, bit/s; `None` where that cannot be tested.
    ///
    /// # Errors
    /// Where the test failed.
    fn several(&mut self, connections: u32, plan: &TcpPlan) -> Result<Option<f64>, Self::Error>;

    /// What other traffic leaves, by a probe that sends no more than `most` over any second in packets of `mtu` bytes at most; `None` where
    /// the other end does not take part.
    ///
    /// # Errors
    /// Where the probe failed.
    fn available(&mut self, most: BitRate, mtu: Option<u32>) -> Result<Option<AvailableAnswer>, Self::Error>;
}

/// Round trips without load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrips {
    /// The fastest.
    pub fastest: Time,
    /// The median; `None` where there was one only.
    pub median: Option<Time>,
}

/// A burst of datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct DatagramPlan {
    /// Payload, bit/s.
    pub rate: BitRate,
    /// Payload of each, bytes.
    pub payload: u32,
    /// For how long.
    pub time: Time,
    /// They come evenly or not at all: late ones that come together would overflow short queues, and be taken for loss.
    pub is_even: bool,
}

/// What came of a burst.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Burst {
    /// Payload that was sent, bit/s.
    pub sent_bps: f64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Packets that this host's device or its queueing discipline dropped meanwhile; they are among the lost.
    pub dropped_here: u64,
    /// What the receiver measured.
    pub arrived: Arrived,
    /// The receiver had no time: what it did not take says nothing of the path.
    pub receiver_was_busy: bool,
}

/// A burst as its receiver measured it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Arrived {
    /// Payload that arrived once the queue on the way was full, bit/s.
    pub bps: f64,
    /// The shortest and the longest one-way delay, microseconds, by two clocks: only differences between the bursts of one diagnosis mean
    /// something.
    pub delays_us: Option<(i64, i64)>,
    /// Payload that came sooner than at that rate, bytes: what a policer let pass at once.
    pub at_once_bytes: f64,
}

/// A TCP test.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPlan {
    /// For how long.
    pub time: Time,
    /// The sender's congestion control, where it is not the host's own choice.
    pub congestion: Option<String>,
}

/// What came of a TCP test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TcpSeen {
    /// The flow's summary, with its verdict.
    pub flow: FlowSummary,
    /// Both ends' samples.
    pub rows: Vec<FlowSample>,
    /// The receiving host, where it said what it is.
    pub receiver: Option<HostFacts>,
    /// How much of the time the sending thread was busy, 0 to 1.
    pub sender_busy: Option<f64>,
    /// The same of the receiving one.
    pub receiver_busy: Option<f64>,
}
