//! The limits of a path ([`crate::rank()`] finds them in the observations) and their order.
//!
//! The goodput that a setting allows is computed (`model`); a limit that bound the test allows the test's
//! goodput. A computed limit below the test's goodput is disproved, and set to just above it.

use serde::Serialize;

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets above some size are dropped, and no ICMP error reports it.
    MtuBlackHole,
    /// Window scaling is disabled on a host.
    WindowScaling,
    /// The receive buffer.
    ReceiveBuffer,
    /// The send buffer.
    SendBuffer,
    /// The CPU of the receiving host.
    ReceiverCpu,
    /// The CPU of the sending host.
    SenderCpu,
    /// Packet loss on a path that is not full.
    Loss,
    /// The queue of the slowest link is too short.
    ShortQueue,
    /// A policer: packets above a rate are dropped, not queued.
    Policer,
    /// Selective acknowledgement is disabled on a host, so that losses take long to repair.
    SackOff,
    /// Segments are much smaller than the packets that pass: something clamps the MSS.
    SmallMss,
    /// The slow-start threshold was small from the beginning: it was cached, or a route sets it.
    CachedSsthresh,
    /// Congestion marks (ECN) on a path that is not full.
    EcnMarks,
    /// The sending host's device or queueing discipline drops packets.
    LocalQueue,
    /// A link of the path is slower than expected.
    SlowHop,
    /// The path's rate changed during the test.
    PathChanged,
    /// Other traffic on the path.
    CompetingTraffic,
    /// The path's rate, as expected.
    PathRate,
    /// The reading or writing application.
    Application,
    /// The test ended in slow start.
    SlowStart,
    /// A pacing rate.
    Pacing,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The kind of the limit.
    pub kind: Kind,
    /// The host, for limits of a host.
    pub host: Option<String>,
    /// The goodput that it allows, bit/s.
    pub allows_bps: f64,
    /// Whether the test showed it; otherwise it is computed.
    pub measured: bool,
    /// The evidence, as sentences.
    pub evidence: Vec<String>,
    /// The fix.
    pub change: Option<String>,
    /// Goodput gained by removing this limit alone, bit/s; `None` if unknown.
    pub gain_bps: Option<f64>,
    /// Whether `gain_bps` is only an upper bound, because this limit hides others.
    #[serde(rename = "gain_is_most")]
    pub gain_is_upper_bound: bool,
    /// Why it may be another limit; `None` if it is certain.
    pub doubt: Option<Doubt>,
}

/// Why a limit is uncertain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// The alternative, if known.
    pub instead: Option<Kind>,
    /// Why the alternative cannot be excluded.
    pub why: String,
    /// The measurement that would decide.
    pub decide: String,
}

/// All known limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// First the limits that bound the test, by the gain of removing each; then the others, lowest first.
    pub limits: Vec<Limit>,
    /// TCP reaches the path's full rate, and that rate is as expected.
    pub healthy: bool,
    /// Two limits that hide each other: removing only one gains little.
    pub together: Option<JointRemoval>,
    /// The measured path as a scenario file, if it was simulated.
    pub scenario: Option<String>,
}

/// The gain of removing two limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JointRemoval {
    /// The two kinds.
    pub kinds: [Kind; 2],
    /// Goodput gained, bit/s.
    pub gain_bps: f64,
}
