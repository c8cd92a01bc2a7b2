//! The limits of a path ([`crate::rank()`] makes them of what was observed), and how they stand to each other.
//!
//! What a setting allows is computed (`model`); what limited the test has what the test got. A computed limit below what was reached is wrong
//! by that much, and counts as just above it.

use serde::Serialize;

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets above some size are dropped, and no ICMP error reports it.
    MtuBlackHole,
    /// A host does not scale windows.
    WindowScaling,
    /// The receiver's buffer.
    ReceiveBuffer,
    /// The sender's buffer.
    SendBuffer,
    /// The receiving host has no time.
    ReceiverCpu,
    /// The sending host has no time.
    SenderCpu,
    /// Packets are lost though the path is not full.
    Loss,
    /// The queue before the slowest link is too short.
    ShortQueue,
    /// Packets beyond a rate are dropped, and none waits.
    Policer,
    /// A host does not acknowledge selectively, so that losses take long to repair.
    SackOff,
    /// Routers mark packets (ECN) though the path is not full.
    EcnMarks,
    /// The sending host's own device or queueing discipline drops packets.
    LocalQueue,
    /// A link of the path is slower than it should be.
    SlowHop,
    /// What the path gives changed during the test.
    PathChanged,
    /// Other traffic on the path.
    CompetingTraffic,
    /// The path's rate, as it should be.
    PathRate,
    /// The reading or the writing program.
    Application,
    /// The connection was still growing.
    SlowStart,
    /// A pacing rate.
    Pacing,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// What kind.
    pub kind: Kind,
    /// The host that it is on, where it is on one.
    pub host: Option<String>,
    /// The goodput that it allows, bit/s.
    pub allows_bps: f64,
    /// The test showed it; else it is computed.
    pub measured: bool,
    /// How that is known.
    pub evidence: Vec<String>,
    /// What to do.
    pub change: Option<String>,
    /// What the test would get beyond what it got if this one limit were gone, bit/s; `None` where that is not known.
    pub gain_bps: Option<f64>,
    /// The gain is a maximum: other limits cannot be seen while this one is there.
    pub gain_is_most: bool,
    /// Why it may be another; `None` where it is sure.
    pub doubt: Option<Doubt>,
}

/// Why a limit is not sure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// What it may be instead, where that is known.
    pub instead: Option<Kind>,
    /// Why that cannot be excluded.
    pub why: String,
    /// What would decide.
    pub decide: String,
}

/// All limits that are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// Those that bound the test first, by what would be gained without each; then the others, the lowest first.
    pub limits: Vec<Limit>,
    /// TCP has what the path gives, and that is as it should be.
    pub healthy: bool,
    /// Two limits that hide each other: neither alone is worth removing.
    pub together: Option<Together>,
    /// The measured path as a scenario file, where its limits were simulated.
    pub scenario: Option<String>,
}

/// What is gained without two limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Together {
    /// Which.
    pub kinds: [Kind; 2],
    /// What the test would get beyond what it got, bit/s.
    pub gain_bps: f64,
}
