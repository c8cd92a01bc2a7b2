//! What was measured and read of a path and its hosts, and what follows from several measurements together.

use model::{bdp_f64, loss_for_reno};
use probe::{AvailableAnswer, Interval};
use schema::{Cause, FlowSummary};
use serde::Serialize;
use tune::HostFacts;
use units::{BitRate, Time};

use crate::{change::Change, losses::Losses};

/// A flow that has so much of the path's goodput has the path.
const WHOLE: f64 = 0.88;
/// A thread that runs or waits for a processor for so much of the time has no time left.
const BUSY: f64 = 0.85;

/// A path is policed where a longer load gets less than this share of what a shorter one gets.
pub(crate) const POLICED_SHARE: f64 = 0.93;
/// A queue that is there in so many of the samples stands.
const STANDS: f64 = 0.8;
/// What others have is known by a burst to within this share of what the path carries.
const BURST_ERROR: f64 = 0.1;
/// Without load, usual round trips that are longer than the fastest by this share, and by this time, microseconds, wait for others.
const IDLE: (f64, f64) = (0.03, 300.0);
/// Others are there if the test's packets were behind theirs in so many of the samples.
const BEHIND: f64 = 0.4;
/// What others must have had of what the path carries, to be worth mentioning.
const OTHERS: f64 = 0.2;
/// Where other traffic leaves less than so much of what a path carries, the path is shared.
const UNSHARED: f64 = 0.93;
/// Maximum share left by other traffic that fills the path whatever its rate, as TCP does.
const NOTHING_LEFT: f64 = 0.2;
/// Minimum queue that is not too short, in round trips.
const AMPLE_QUEUE: f64 = 0.5;
/// A path that carries less than this share of the expected rate is slower than it should be.
const EXPECTED: f64 = 0.9;
/// Minimum ratio of the goodput of several connections to that of one, where each is served in turn.
const IN_TURN: f64 = 1.25;
/// Minimum number of lost packets from which a loss rate is computed.
pub(crate) const MIN_LOST_FOR_RATE: u64 = 3;
/// IPv4 and TCP headers with timestamps, bytes.
const TCP_IP_HEADERS: f64 = 52.0;

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
    /// What was sent for that, as TCP payload in bit/s, where the path was overloaded.
    pub offered_bps: Option<f64>,
    /// How long packets waited in the queue before the slowest link when it was full, where it was.
    pub queue: Option<Time>,
    /// Where the path was overloaded, this host's own device dropped more than half of the lost packets.
    pub overflows_here: bool,
    /// Payload that came sooner than at that rate where the path was overloaded, bytes: what a policer lets pass at once.
    pub at_once_bytes: Option<f64>,
    /// Rate of a longer overload, where one was tried and got less: TCP payload, bit/s.
    pub later_bps: Option<f64>,
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
    /// Round trip without load: the fastest.
    pub rtt: Time,
    /// The median of round trips without load; `None` where there was one only.
    pub usual_rtt: Option<Time>,
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
    /// The test's losses; `None` where there were none.
    pub losses: Option<Losses>,
    /// Number of connections that were tested together, and their goodput, bit/s.
    pub several: Option<(u32, f64)>,
    /// A change of the path's rate during the test.
    pub change: Option<Change>,
    /// Segments of the test that arrived with a congestion mark (ECN).
    pub marked_segs: u64,
    /// In what share of the samples of the test's second half a queue stood in the path.
    pub queued: Option<f64>,
    /// In what share of them packets waited longer than the test's own could make them.
    pub behind_others: Option<f64>,
    /// How much of the time the sending thread was busy.
    pub sender_busy: Option<f64>,
    /// The same of the receiving one.
    pub receiver_busy: Option<f64>,
}

/// Connections that are served in turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InTurn {
    /// Estimated number of others' connections.
    pub others: f64,
    /// Goodput of one connection, bit/s.
    pub one: f64,
    /// Number of connections that were tested together.
    pub connections: u32,
    /// Their goodput together, bit/s.
    pub together: f64,
}

impl Observed {
    /// Goodput of the test, bit/s; 0 where there was no test.
    pub fn got(&self) -> f64 {
        self.flow.as_ref().and_then(FlowSummary::steady_or_overall_goodput_bps).unwrap_or(0.0)
    }

    /// What the slowest link carries where nobody else uses it, as TCP payload in bit/s: a burst of datagrams shares it with other
    /// traffic, the probe's trains do not.
    pub fn carried_bps(&self) -> Option<f64> {
        if let Some(InTurn { others, one, .. }) = self.in_turn() {
            return Some(one * (others + 1.0));
        }
        let burst = self.capacity.as_ref().map(|capacity| capacity.goodput_bps);
        self.policed_bps().or_else(|| [burst, self.probed_bps()].into_iter().flatten().reduce(f64::max))
    }

    /// Whether the path carries less than it should.
    pub(crate) fn is_slow(&self) -> bool {
        let known = self.expected.as_ref().zip(self.carried_bps());
        known.is_some_and(|((expected, _), carried)| carried < EXPECTED * expected)
            && self.capacity.as_ref().is_some_and(|capacity| !capacity.at_least)
    }

    /// Whether each connection is served in turn (fair queueing), beside others': then several get more than one, and a burst of datagrams gets
    /// as much as one.
    pub(crate) fn in_turn(&self) -> Option<InTurn> {
        let (connections, together) = self.several?;
        let (count, one) = (f64::from(connections), self.capacity.as_ref()?.goodput_bps);
        let times = (together / one.max(1.0)).min(count - 0.1);
        // One of others + 1 shares against `count` of others + count.
        let others = count * (times - 1.0) / (count - times);
        (times >= IN_TURN).then_some(InTurn { others, one, connections, together })
    }

    /// What the probe's trains found that the slowest link carries.
    pub(crate) fn probed_bps(&self) -> Option<f64> {
        let capacity = self.available.as_ref()?.capacity.as_ref()?;
        Some(capacity.capacity_bps?.value * payload_share(capacity.packet_bytes))
    }

    /// What a policer lets pass in the long run, where there is one: short trains pass faster than a burst of half a second that is more than
    /// the path carries, and nobody else is there to take the difference; or the trains emptied its bucket.
    pub fn policed_bps(&self) -> Option<f64> {
        let capacity = self.capacity.as_ref().filter(|capacity| !capacity.at_least)?;
        if self.in_turn().is_some() {
            return None;
        }
        if capacity.later_bps.is_some() {
            return capacity.later_bps;
        }
        let (answer, probed) = (self.available.as_ref()?, self.probed_bps()?);
        let left = answer.available_bps.map(|left| left.value * payload_share(answer.packet_bytes));
        let is_alone = left.is_some_and(|left| left >= UNSHARED * probed);
        (self.emptied_a_bucket() || (is_alone && capacity.goodput_bps < POLICED_SHARE * probed))
            .then_some(capacity.goodput_bps)
    }

    /// Whether a policer may be what drops packets, so that it is worth while to see what passes for longer than a burst: there is one, or
    /// packets were lost while the queue that bursts found was not half full.
    pub(crate) fn may_be_policed(&self) -> bool {
        let Some(capacity) = self.capacity.as_ref().filter(|capacity| !capacity.at_least) else {
            return false;
        };
        self.policed_bps().is_some()
            || (!self.is_whole() && self.verdict() == Some(Cause::Loss) && self.had_room_for_losses(capacity))
    }

    /// Whether the queue that bursts filled is as long as TCP wants it, and was not half full when the test's packets were lost.
    pub(crate) fn had_room_for_losses(&self, capacity: &Capacity) -> bool {
        let waited = self.losses.and_then(|losses| Some(losses.rtt_us? - self.base_rtt_us()));
        capacity.queue.zip(waited).is_some_and(|(queue, waited)| {
            queue.0 as f64 >= AMPLE_QUEUE * self.rtt.0 as f64 && waited < queue.as_micros_f64() / 2.0
        })
    }

    /// Whether the probe's trains took all that a policer lets pass at once.
    pub(crate) fn emptied_a_bucket(&self) -> bool {
        let capacity = self.available.as_ref().and_then(|answer| answer.capacity.as_ref());
        capacity.is_some_and(|capacity| capacity.bucket_bytes.is_some())
    }

    /// What other traffic leaves of that: as the probe found it, or else as a burst that overloaded the path did.
    pub fn left_bps(&self) -> Option<Interval> {
        if let Some(InTurn { one, .. }) = self.in_turn() {
            return Some(Interval { low: one, value: one, high: one });
        }
        let probed = self
            .available
            .as_ref()
            .and_then(|answer| Some(answer.available_bps?.times(payload_share(answer.packet_bytes))));
        probed.or_else(|| self.left_by_burst())
    }

    /// Whether others take what there is, as TCP connections do.
    pub(crate) fn leaves_nothing(&self) -> bool {
        let known = self.carried_bps().zip(self.left_bps());
        known.is_none_or(|(carried, left)| left.value <= NOTHING_LEFT * carried)
    }

    /// A burst that is more than the path carries gets its share of the packets that arrive: less than all of what the path carries, if others
    /// send as well.
    fn left_by_burst(&self) -> Option<Interval> {
        let capacity = self.capacity.as_ref()?;
        let (carried, offered) = (self.carried_bps()?, capacity.offered_bps?);
        let others = offered * (carried / capacity.goodput_bps.max(1.0) - 1.0);
        let left = (carried - others).max(0.0);
        let by = BURST_ERROR * carried;
        (others >= OTHERS * carried).then_some(Interval {
            low: (left - by).max(0.0),
            value: left,
            high: (left + by).min(carried),
        })
    }

    /// Whether packets waited in queues even without load.
    fn is_queued_without_load(&self) -> bool {
        let base = self.base_rtt_us();
        self.usual_rtt.is_some_and(|usual| usual.as_micros_f64() - base >= (IDLE.0 * base).max(IDLE.1))
    }

    /// Whether other traffic takes a part of the path that is worth mentioning: a probe says so, or what it must have had.
    pub fn is_shared(&self) -> bool {
        if self.policed_bps().is_some() {
            return false;
        }
        match self.carried_bps().zip(self.left_bps()) {
            Some((carried, left)) => left.high < UNSHARED * carried,
            None => self.others_had_bps().is_some(),
        }
    }

    /// What others had while the test ran, as TCP payload in bit/s, at most: a queue stood in the path, or others' packets stood in it, so its
    /// slowest link was busy, and the test had a part of that only. `None` where no queue was, or the test had nearly all.
    pub fn others_had_bps(&self) -> Option<f64> {
        let stood = self.queued.is_some_and(|queued| queued >= STANDS);
        let behind = self.behind_others.is_some_and(|behind| behind >= BEHIND);
        let is_busy = stood || behind || self.is_queued_without_load();
        let carried = self.carried_bps().filter(|_| is_busy)?;
        let others = carried - self.got();
        (others >= OTHERS * carried).then_some(others)
    }

    /// A rate at which packets are not lost for want of room, as TCP payload in bit/s.
    pub fn free_bps(&self) -> Option<f64> {
        let carried = self.carried_bps()?;
        let others = if self.others_had_bps().is_some() { self.got() } else { carried };
        Some(self.left_bps().map_or(others, |left| left.value.min(carried)))
    }

    /// The path's bandwidth-delay product, bytes.
    pub fn bdp(&self) -> Option<f64> {
        let carried = self.carried_bps()?.max(self.got());
        Some(bdp_f64(BitRate(carried as u64), self.rtt))
    }

    /// How often losses came among the test's segments; `None` where none came.
    pub(crate) fn lost_share(&self) -> Option<f64> {
        let sent = self.flow.as_ref()?.sent_segs?;
        Some(self.losses?.episodes as f64 / sent.max(1) as f64)
    }

    /// The loss rate to search for: the test's own, or the largest at which Reno still fills the path (Mathis et al. 1997), whichever is
    /// less. `None` where nothing holds TCP down.
    pub(crate) fn share_to_find(&self) -> Option<f64> {
        if self.is_whole() {
            return self.lost_share();
        }
        let packets = self.bdp()? / self.flow.as_ref()?.mss_bytes.unwrap_or(1448) as f64;
        let harmful = loss_for_reno(packets);
        Some(self.lost_share().map_or(harmful, |lost| lost.min(harmful)))
    }

    /// How often packets are lost by chance, as far as that is known: as datagrams are, and TCP's packets where its window
    /// fills no queue.
    pub(crate) fn lost_by_chance(&self, are_tcps: bool) -> f64 {
        let flow = self.flow.as_ref();
        let tcp = flow.and_then(|flow| Some((self.losses?.episodes as u64, flow.sent_segs?)));
        let (lost, sent) =
            match tcp.filter(|_| matches!(self.verdict(), Some(Cause::ReceiveWindow | Cause::SendBuffer))) {
                Some((lost, sent)) => (lost + self.datagrams.lost, sent + self.datagrams.sent),
                None => (self.datagrams.lost, self.datagrams.sent),
            };
        match lost {
            MIN_LOST_FOR_RATE.. => lost as f64 / sent as f64,
            _ if are_tcps => self.lost_share().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The round-trip time without a queue, microseconds.
    pub(crate) fn base_rtt_us(&self) -> f64 {
        let least = self.flow.as_ref().and_then(|flow| flow.min_rtt_us).unwrap_or(f64::INFINITY);
        // TCP's timestamps count milliseconds.
        self.rtt.as_micros_f64().min(least + 1000.0)
    }

    /// What held the test down. The samples alone cannot tell a full link from bursts that wait for themselves; what the link carries, and
    /// what others leave of it, can.
    pub(crate) fn verdict(&self) -> Option<Cause> {
        let flow = self.flow.as_ref()?;
        let is_full = flow.verdict == Some(Cause::PathRate);
        let has_room = self.carried_bps().is_some_and(|carried| self.got() < WHOLE * carried);
        if !is_full || !has_room || self.is_shared() {
            return flow.verdict;
        }
        if self.losses.is_some_and(|losses| losses.episodes > 1) {
            return Some(Cause::Loss);
        }
        let share = |cause: &Cause| flow.limited_steady.share(*cause).max(flow.limited.share(*cause));
        let others = Cause::ALL.into_iter().filter(|cause| *cause != Cause::PathRate && share(cause) > 0.0);
        others.max_by(|a, b| share(a).total_cmp(&share(b))).or(flow.verdict)
    }

    /// The test had what the path gives where nobody else uses it.
    pub(crate) fn is_whole(&self) -> bool {
        if self.expected.as_ref().is_some_and(|(expected, _)| self.got() >= WHOLE * expected) {
            return true;
        }
        let at_least = self.capacity.as_ref().is_some_and(|capacity| capacity.at_least);
        match self.carried_bps() {
            Some(carried) if self.got() < WHOLE * carried => false,
            Some(_) if !at_least => true,
            _ => self.verdict() == Some(Cause::PathRate) && !is_busy(self.receiver_busy),
        }
    }
}

/// TCP's payload of packets of so many bytes.
fn payload_share(packet_bytes: u32) -> f64 {
    1.0 - TCP_IP_HEADERS / f64::from(packet_bytes.max(100))
}

/// Whether a thread that ran, or waited for a processor, for this share of the time had none left.
pub fn is_busy(share: Option<f64>) -> bool {
    share.is_some_and(|share| share >= BUSY)
}
