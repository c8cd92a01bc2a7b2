//! What limits TCP between two hosts, from what was measured and read: each limit with the goodput that it allows, the lowest
//! first. Pure.
//!
//! What a setting allows is computed (`model`); what limited the test has what the test got. A computed limit below what was
//! reached is wrong by that much, and counts as just above it: so the first of the list is what bound, and the next is what
//! will.

use model::bdp_f64;
use probe::AvailableAnswer;
use schema::{Cause, FlowSample, FlowSummary};
use serde::Serialize;
use tune::HostFacts;
use units::{BitRate, Time};

/// A flow that has so much of the path's goodput has the path.
const WHOLE: f64 = 0.88;
/// A thread that runs or waits for a processor for so much of the time has no time left.
const BUSY: f64 = 0.85;

/// IPv4 and TCP headers with timestamps, bytes.
const TCP_IP_HEADERS: f64 = 52.0;

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets above some size vanish, and nobody is told.
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
    /// A link of the path is slower than it should be.
    SlowHop,
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
    /// What the next limit allows beyond this one, bit/s; `None` where none is known.
    pub gain_bps: Option<f64>,
}

/// All limits that are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// The lowest first.
    pub limits: Vec<Limit>,
    /// TCP has what the path gives, and that is as it should be.
    pub healthy: bool,
}

/// What packets pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Mtu {
    /// Of the device that leads there, bytes of IP.
    pub device: u32,
    /// The largest packet that came through, where that was tried.
    pub passes: Option<u32>,
}

impl Mtu {
    /// Some packets that may be sent never come.
    pub fn has_black_hole(&self) -> bool {
        self.passes.is_some_and(|passes| passes < self.device)
    }
}

/// What the path carries, as datagrams or a probe told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// TCP payload, bit/s.
    pub goodput_bps: f64,
    /// It carries at least that; more was not tried.
    pub at_least: bool,
    /// How it was found.
    pub how: String,
}

/// Datagrams at a rate that the path carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Datagrams {
    /// How many.
    pub sent: u64,
    /// That never came.
    pub lost: u64,
}

impl Datagrams {
    /// Of those sent, how many never came.
    pub fn share(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// All that is known of a path and the hosts at its ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The sending host's name.
    pub from: String,
    /// The receiving host's.
    pub to: String,
    /// The sending host.
    pub sender: Option<HostFacts>,
    /// The receiving host, where it told.
    pub receiver: Option<HostFacts>,
    /// Round trip without load.
    pub rtt: Time,
    /// What the path should carry as goodput, bit/s, and who says so.
    pub expected: Option<(f64, String)>,
    /// Packet sizes.
    pub mtu: Mtu,
    /// What it carries.
    pub capacity: Option<Capacity>,
    /// What other traffic leaves of that.
    pub available: Option<AvailableAnswer>,
    /// Loss below that.
    pub datagrams: Datagrams,
    /// The test's only flow; `None` where there was none.
    pub flow: Option<FlowSummary>,
    /// Median of what was outstanding when losses came, bytes.
    pub outstanding_at_loss: Option<f64>,
    /// How much of the time the sending thread was busy.
    pub sender_busy: Option<f64>,
    /// The same of the receiving one.
    pub receiver_busy: Option<f64>,
}

impl Observed {
    /// Goodput of the test, bit/s.
    pub(crate) fn got(&self) -> f64 {
        let flow = self.flow.as_ref();
        flow.and_then(|flow| flow.steady_goodput_bps.or(flow.goodput_bps)).unwrap_or(0.0)
    }

    /// What the path has to give beside other traffic, as TCP payload in bit/s: a rate at which packets are not lost for want of room.
    pub fn free_bps(&self) -> Option<f64> {
        let capacity = self.capacity.as_ref()?.goodput_bps;
        Some(self.available_bps().map_or(capacity, |(available, _)| available.min(capacity)))
    }

    /// What other traffic leaves, as TCP payload in bit/s, and whether the probe stands by it.
    pub fn available_bps(&self) -> Option<(f64, bool)> {
        let answer = self.available.as_ref()?;
        let payload = 1.0 - TCP_IP_HEADERS / f64::from(answer.packet_bytes.max(100));
        Some((answer.available_bps?.value * payload, answer.validity.valid))
    }

    /// The path's bandwidth-delay product, bytes.
    pub fn bdp(&self) -> Option<f64> {
        let carried = self.capacity.as_ref()?.goodput_bps.max(self.got());
        Some(bdp_f64(BitRate(carried as u64), self.rtt))
    }

    pub(crate) fn verdict(&self) -> Option<Cause> {
        self.flow.as_ref()?.verdict
    }

    /// The test had what the path gives.
    pub(crate) fn is_whole(&self) -> bool {
        if self.expected.as_ref().is_some_and(|(expected, _)| self.got() >= WHOLE * expected) {
            return true;
        }
        match self.capacity.as_ref().filter(|capacity| !capacity.at_least) {
            Some(capacity) => self.got() >= WHOLE * capacity.goodput_bps,
            None => self.verdict() == Some(Cause::PathRate) && !is_busy(self.receiver_busy),
        }
    }
}

/// The median of what was outstanding when losses came, bytes: the most of the last two round trips before a retransmission,
/// counted once for each episode. `None` without losses.
pub fn outstanding_at_loss(rows: &[FlowSample]) -> Option<f64> {
    let mut found: Vec<f64> = Vec::new();
    let mut quiet_until = i64::MIN;
    for (index, pair) in rows.windows(2).enumerate() {
        let lost = pair[1].total_retrans_segs > pair[0].total_retrans_segs;
        if !lost || pair[1].time_us < quiet_until {
            continue;
        }
        let reach = 2 * pair[1].srtt_us.unwrap_or(0);
        quiet_until = pair[1].time_us + reach;
        let before =
            rows[..=index].iter().rev().take_while(|row| row.time_us >= pair[1].time_us - reach.max(1));
        let outstanding = |row: &FlowSample| Some((row.unacked_segs? * row.snd_mss_bytes?) as f64);
        found.extend(before.filter_map(outstanding).reduce(f64::max));
    }
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied()
}

/// Whether a thread that ran, or waited for a processor, for this share of the time had none left.
pub fn is_busy(share: Option<f64>) -> bool {
    share.is_some_and(|share| share >= BUSY)
}
