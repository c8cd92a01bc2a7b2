//! Measurements of a path and settings of its hosts, and values derived from several measurements.

use model::{bdp_f64, loss_for_reno};
use probe::{AvailableBandwidthResult, Interval};
use schema::{Cause, FlowSample, FlowSummary};
use serde::Serialize;
use tune::HostFacts;
use units::{BitRate, Time};
use verdict::StartOfFlow;

use crate::{
    change::{Change, Variation},
    losses::Losses,
};

/// Minimum share of the path's capacity at which a test counts as limited by the path's rate.
const MIN_FULL_SHARE: f64 = 0.88;
/// [`MIN_FULL_SHARE`] for a test that was limited by a window or a buffer and had no standing queue: its
/// samples show that the path had space, so only the error of the capacity remains.
const MIN_FULL_SHARE_OF_WINDOW: f64 = 0.95;
/// Minimum ratio of a burst's goodput to the test's; a lower one shows that the burst was not measured well.
const MIN_BURST_SHARE_OF_TEST: f64 = 0.95;
/// Minimum share of the time that a saturated thread runs or waits for a CPU.
const MIN_BUSY_SHARE: f64 = 0.85;

/// A path is policed if a longer load passes at less than this share of the rate of a shorter load.
pub(crate) const MAX_POLICED_SHARE: f64 = 0.93;
/// Minimum share of samples with a queue, for a standing queue.
const MIN_STANDING_SHARE: f64 = 0.8;
/// Error of the available bandwidth measured by a burst, as a share of the capacity.
const BURST_ERROR: f64 = 0.1;
/// Minimum excess of the median round-trip time without load over the minimum, as a share and in
/// microseconds, as a sign of other traffic.
const MIN_UNLOADED_EXCESS: (f64, f64) = (0.03, 300.0);
/// Minimum share of samples with queueing delay that other packets cause, as a sign of other traffic.
const MIN_BEHIND_OTHERS: f64 = 0.4;
/// Other traffic that uses less than this share of the capacity is ignored.
const MIN_OTHERS_SHARE: f64 = 0.2;
/// A path is shared if less than this share of its capacity is available.
const MIN_UNSHARED: f64 = 0.93;
/// Maximum available share of a path that elastic traffic, such as TCP, fills.
const MAX_ELASTIC_AVAILABLE: f64 = 0.2;
/// Minimum number of evenly spaced datagrams without a loss that show that no other connections fill the
/// path's queue.
const MIN_REFUTING_DATAGRAMS: u64 = 1000;
/// Minimum length of a sufficient queue, in round trips.
const MIN_AMPLE_QUEUE: f64 = 0.5;
/// A path with less than this share of the expected rate is slow.
const MIN_EXPECTED_SHARE: f64 = 0.9;
/// Minimum ratio of the goodput of several connections to that of one, with fair queueing.
const MIN_FAIR_QUEUEING_RATIO: f64 = 1.25;
/// Minimum number of lost packets from which a loss rate is computed.
pub(crate) const MIN_LOST_FOR_RATE: u64 = 3;
/// IPv4 and TCP headers with timestamps, bytes.
const TCP_IP_HEADERS: f64 = 52.0;

/// Maximum headers of a segment (IPv6 and TCP with timestamps), and of a frame around it (IPv4, TCP with
/// timestamps, Ethernet), bytes.
const MAX_TCP_IP_HEADERS: u32 = 72;
const FRAME_HEADERS: f64 = 66.0;
/// Segments are clamped if they carry less than this share of what the largest packet that passes can carry.
const MAX_CLAMPED_SHARE: f64 = 0.75;

/// The packet sizes that pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Mtu {
    /// MTU of the outgoing device, bytes of IP.
    pub device: u32,
    /// The largest packet that passed; `None` if unknown.
    pub passes: Option<u32>,
}

impl Mtu {
    /// Whether packets that the device may send are lost.
    pub fn has_black_hole(&self) -> bool {
        self.passes.is_some_and(|passes| passes < self.device)
    }
}

/// The capacity of a path, measured by datagrams or a probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// TCP payload, bit/s.
    pub goodput_bps: f64,
    /// The capacity is a minimum: higher rates were not tried.
    pub at_least: bool,
    /// The rate sent, as TCP payload in bit/s, if it overloaded the path.
    pub offered_bps: Option<f64>,
    /// Queueing delay of the slowest link's full queue, if it filled.
    pub queue: Option<Time>,
    /// More than half of the packets lost in an overload were dropped by this host's device.
    pub overflows_here: bool,
    /// Payload that passed in excess of `goodput_bps` at the start of an overload, bytes: a policer's bucket.
    pub at_once_bytes: Option<f64>,
    /// Goodput of a longer overload if that was less: TCP payload, bit/s.
    pub later_bps: Option<f64>,
    /// How it was measured.
    pub how: String,
}

/// Datagrams sent below the path's capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Datagrams {
    /// Number sent.
    pub sent: u64,
    /// Number lost.
    pub lost: u64,
}

impl Datagrams {
    /// The loss rate.
    pub fn loss_rate(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// All observations of a path and the hosts at its ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The sending host's name.
    pub from: String,
    /// The receiving host's name.
    pub to: String,
    /// Settings of the sending host.
    pub sender: Option<HostFacts>,
    /// Settings of the receiving host, if it reports them.
    pub receiver: Option<HostFacts>,
    /// Minimum round-trip time without load.
    pub rtt: Time,
    /// Median round-trip time without load; `None` if only one was measured.
    pub median_rtt: Option<Time>,
    /// Expected goodput of the path, bit/s, and the source of the expectation.
    pub expected: Option<(f64, String)>,
    /// Packet sizes.
    pub mtu: Mtu,
    /// The capacity.
    pub capacity: Option<Capacity>,
    /// The available bandwidth.
    pub available: Option<AvailableBandwidthResult>,
    /// Loss below the capacity.
    pub datagrams: Datagrams,
    /// The flow of the TCP test; `None` without a test.
    pub flow: Option<FlowSummary>,
    /// Losses of the TCP test; `None` without losses.
    pub losses: Option<Losses>,
    /// Number of parallel connections of a second test, and their total goodput, bit/s.
    pub parallel: Option<(u32, f64)>,
    /// A change of the path's rate during the test.
    pub change: Option<Change>,
    /// The rates of a path that was full and whose rate varied.
    pub variation: Option<Variation>,
    /// Segments of the test that arrived with a congestion mark (ECN).
    pub marked_segs: u64,
    /// The settings with which the test's connection began.
    pub start: StartOfFlow,
    /// Share of the samples in the test's second half with a queue in the path.
    pub queued: Option<f64>,
    /// Share of these samples with more queueing delay than the test itself can cause.
    pub behind_others: Option<f64>,
    /// Share of the time that the sending thread was busy.
    pub sender_busy: Option<f64>,
    /// Share of the time that the receiving thread was busy.
    pub receiver_busy: Option<f64>,
}

/// Fair queueing at the slowest link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FairQueueing {
    /// Estimated number of other connections.
    pub others: f64,
    /// Goodput of one connection, bit/s.
    pub one_bps: f64,
    /// Number of parallel connections.
    pub connections: u32,
    /// Their total goodput, bit/s.
    pub total_bps: f64,
}

/// A clamped MSS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClampedMss {
    /// Payload of the test's segments, bytes.
    pub mss: f64,
    /// Payload of segments in the largest packets that pass, bytes.
    pub possible: f64,
}

impl ClampedMss {
    /// Payload that a full link carries in these segments, divided by the payload that it carries in the
    /// largest possible segments.
    fn payload_share(self) -> f64 {
        let share = |mss: f64| mss / (mss + FRAME_HEADERS);
        share(self.mss) / share(self.possible)
    }
}

impl Observed {
    /// The test's segments, if they are much smaller than the packets that pass. In an MTU black hole the
    /// kernel makes them smaller.
    pub(crate) fn clamped_mss(&self) -> Option<ClampedMss> {
        let passes = self.mtu.passes.filter(|_| !self.mtu.has_black_hole())?;
        let possible = f64::from(passes.saturating_sub(MAX_TCP_IP_HEADERS));
        let mss = self.flow.as_ref()?.mss_bytes? as f64;
        (mss < MAX_CLAMPED_SHARE * possible).then_some(ClampedMss { mss, possible })
    }

    /// Share of a full link's TCP payload that the test can carry: less than 1 with small segments.
    pub(crate) fn segment_share(&self) -> f64 {
        self.clamped_mss().map_or(1.0, ClampedMss::payload_share)
    }

    /// Goodput of the test, bit/s; 0 without a test.
    pub fn test_goodput_bps(&self) -> f64 {
        self.flow.as_ref().and_then(FlowSummary::steady_or_overall_goodput_bps).unwrap_or(0.0)
    }

    /// Capacity of the slowest link, as TCP payload in bit/s. A burst of datagrams shares it with other
    /// traffic, the probe's trains do not.
    pub fn capacity_bps(&self) -> Option<f64> {
        if let Some(FairQueueing { others, one_bps, .. }) = self.fair_queueing() {
            return Some(one_bps * (others + 1.0));
        }
        self.policed_bps()
            .or_else(|| [self.burst_bps(), self.probed_bps()].into_iter().flatten().reduce(f64::max))
    }

    /// Goodput of a burst of datagrams, bit/s. A busy receiver that drops datagrams makes it too small, so it
    /// is at least the goodput of the test and of parallel connections.
    fn burst_bps(&self) -> Option<f64> {
        let burst = self.capacity.as_ref()?.goodput_bps;
        Some(if self.is_burst_valid() {
            burst
        } else {
            self.parallel.map_or(0.0, |(_, total_bps)| total_bps).max(self.test_goodput_bps())
        })
    }

    /// Whether the burst of datagrams had as much goodput as the test.
    fn is_burst_valid(&self) -> bool {
        self.capacity
            .as_ref()
            .is_some_and(|capacity| capacity.goodput_bps >= MIN_BURST_SHARE_OF_TEST * self.test_goodput_bps())
    }

    /// Whether the capacity is below the expected rate.
    pub(crate) fn is_slow(&self) -> bool {
        let known = self.expected.as_ref().zip(self.capacity_bps());
        known.is_some_and(|((expected, _), carried)| carried < MIN_EXPECTED_SHARE * expected)
            && self.capacity.as_ref().is_some_and(|capacity| !capacity.at_least)
    }

    /// Fair queueing with other connections: several connections reach more than one, and a burst of
    /// datagrams as much as one connection.
    pub(crate) fn fair_queueing(&self) -> Option<FairQueueing> {
        let (connections, total_bps) = self.parallel.filter(|_| self.is_burst_valid())?;
        let (count, one_bps) = (f64::from(connections), self.capacity.as_ref()?.goodput_bps);
        let ratio = (total_bps / one_bps.max(1.0)).min(count - 0.1);
        // One connection has 1 of `others` + 1 shares; `count` connections have `count` of `others` + `count`
        // shares.
        let others = count * (ratio - 1.0) / (count - ratio);
        (ratio >= MIN_FAIR_QUEUEING_RATIO).then_some(FairQueueing { others, one_bps, connections, total_bps })
    }

    /// Capacity of the slowest link by the probe's trains, as TCP payload in bit/s.
    pub(crate) fn probed_bps(&self) -> Option<f64> {
        let capacity = self.available.as_ref()?.capacity.as_ref()?;
        let probed = capacity.capacity_bps?.value * payload_share(capacity.packet_bytes);
        // On a busy host, trains of packets arrive compressed, and the probe then reports more than the path
        // can have.
        let expected = self.expected.as_ref().map_or(f64::INFINITY, |(expected, _)| *expected);
        let burst = self.capacity.as_ref().map_or(0.0, |capacity| capacity.goodput_bps);
        Some(probed.min(expected.max(burst).max(self.test_goodput_bps())))
    }

    /// Rate of a policer, if there is one: short trains pass faster than an overload of half a second, and no
    /// other traffic explains the difference; or the trains emptied its bucket.
    pub fn policed_bps(&self) -> Option<f64> {
        let capacity = self.capacity.as_ref().filter(|capacity| !capacity.at_least)?;
        if self.fair_queueing().is_some() || !self.is_burst_valid() {
            return None;
        }
        if capacity.later_bps.is_some() {
            return capacity.later_bps;
        }
        let (available, probed) = (self.available.as_ref()?, self.probed_bps()?);
        let left = available.available_bps.map(|left| left.value * payload_share(available.packet_bytes));
        let is_alone = left.is_some_and(|left| left >= MIN_UNSHARED * probed);
        (self.emptied_a_bucket() || (is_alone && capacity.goodput_bps < MAX_POLICED_SHARE * probed))
            .then_some(capacity.goodput_bps)
    }

    /// Whether a policer may drop the packets, so that a longer overload is worth testing: a policer was
    /// found, or packets were lost while the queue measured by bursts was not half full.
    pub(crate) fn may_be_policed(&self) -> bool {
        let Some(capacity) = self.capacity.as_ref().filter(|capacity| !capacity.at_least) else {
            return false;
        };
        self.policed_bps().is_some()
            || (!self.reached_full_rate()
                && self.verdict() == Some(Cause::Loss)
                && self.was_queue_half_empty_at_losses(capacity))
    }

    /// Whether the queue measured by bursts is long enough for TCP, and was not half full when the test's
    /// packets were lost.
    pub(crate) fn was_queue_half_empty_at_losses(&self, capacity: &Capacity) -> bool {
        let queueing_us = self.losses.and_then(|losses| Some(losses.rtt_us? - self.base_rtt_us()));
        capacity.queue.zip(queueing_us).is_some_and(|(queue, queueing_us)| {
            queue.as_nanos() as f64 >= MIN_AMPLE_QUEUE * self.rtt.as_nanos() as f64
                && queueing_us < queue.as_micros_f64() / 2.0
        })
    }

    /// Whether the probe's trains emptied a policer's bucket.
    pub(crate) fn emptied_a_bucket(&self) -> bool {
        let capacity = self.available.as_ref().and_then(|result| result.capacity.as_ref());
        capacity.is_some_and(|capacity| capacity.bucket_bytes.is_some())
    }

    /// Available bandwidth, as TCP payload in bit/s: by the probe, otherwise by a burst that overloaded the
    /// path.
    pub fn available_bps(&self) -> Option<Interval> {
        if let Some(FairQueueing { one_bps, .. }) = self.fair_queueing() {
            return Some(Interval { low: one_bps, value: one_bps, high: one_bps });
        }
        let probed = self
            .available
            .as_ref()
            .and_then(|result| Some(result.available_bps?.scaled(payload_share(result.packet_bytes))));
        let credible = |left: &Interval| !self.dropped_probes_here(*left) && !self.is_refuted(*left);
        probed.filter(credible).or_else(|| self.available_by_burst().filter(credible))
    }

    /// Whether a valid probe measured the available bandwidth.
    pub(crate) fn is_available_confirmed(&self) -> bool {
        self.available.as_ref().is_some_and(|available| available.validity.valid)
    }

    /// Whether other measurements refute this available bandwidth, which other connections would leave if
    /// they kept the path full: no probe confirmed it, no echo and no segment of the test waited in a queue,
    /// and no evenly spaced datagram was lost. Without other traffic, bursts overflow a short queue as well.
    fn is_refuted(&self, left: Interval) -> bool {
        let is_nearly_full =
            self.capacity_bps().is_some_and(|carried| left.value <= MAX_ELASTIC_AVAILABLE * carried);
        !self.is_available_confirmed()
            && is_nearly_full
            && self.datagrams.lost == 0
            && self.datagrams.sent >= MIN_REFUTING_DATAGRAMS
            && self.others_had_bps().is_none()
    }

    /// Whether this available bandwidth is a measurement of this host's own queue: the host drops bursts
    /// itself, and the test had more goodput.
    fn dropped_probes_here(&self, left: Interval) -> bool {
        self.capacity.as_ref().is_some_and(|capacity| capacity.overflows_here)
            && left.high < self.test_goodput_bps()
    }

    /// Whether the other traffic is elastic, as TCP connections are.
    pub(crate) fn is_other_traffic_elastic(&self) -> bool {
        let known = self.capacity_bps().zip(self.available_bps());
        known.is_none_or(|(carried, left)| left.value <= MAX_ELASTIC_AVAILABLE * carried)
    }

    /// Available bandwidth, computed from the share of the capacity that an overloading burst takes.
    fn available_by_burst(&self) -> Option<Interval> {
        let capacity = self.capacity.as_ref()?;
        let (carried, offered) = (self.capacity_bps()?, capacity.offered_bps?);
        // Packets that this host's own device drops never reach the other traffic.
        let offered = if capacity.overflows_here { offered.min(carried) } else { offered };
        let others = offered * (carried / capacity.goodput_bps.max(1.0) - 1.0);
        let left = (carried - others).max(0.0);
        let by = BURST_ERROR * carried;
        (others >= MIN_OTHERS_SHARE * carried).then_some(Interval {
            low: (left - by).max(0.0),
            value: left,
            high: (left + by).min(carried),
        })
    }

    /// Rate of a policer behind other traffic, as TCP payload in bit/s, if the other traffic does not explain
    /// the low rate of an overloading burst.
    pub(crate) fn policed_behind_others_bps(&self) -> Option<f64> {
        let capacity = self.capacity.as_ref().filter(|_| self.fair_queueing().is_none())?;
        let (carried, offered) = (self.capacity_bps()?, capacity.offered_bps?);
        let others = match self.available_bps() {
            // TCP connections give way to a burst.
            _ if self.is_other_traffic_elastic() => 0.0,
            Some(left) if self.is_available_confirmed() => (carried - left.value).max(0.0),
            _ => carried,
        };
        let expected = carried * offered / (offered + others);
        (capacity.goodput_bps < MAX_POLICED_SHARE * expected).then_some(capacity.goodput_bps)
    }

    /// Whether there was queueing delay without load.
    fn is_queued_without_load(&self) -> bool {
        let base = self.base_rtt_us();
        self.median_rtt.is_some_and(|median| {
            median.as_micros_f64() - base >= (MIN_UNLOADED_EXCESS.0 * base).max(MIN_UNLOADED_EXCESS.1)
        })
    }

    /// Whether other traffic takes a significant part of the path, by the probe or by the test.
    pub fn is_shared(&self) -> bool {
        if self.policed_bps().is_some() {
            return false;
        }
        match self.capacity_bps().zip(self.available_bps()) {
            Some((carried, left)) => left.high < MIN_UNSHARED * carried,
            None => self.others_had_bps().is_some(),
        }
    }

    /// Maximum rate of other traffic during the test, as TCP payload in bit/s: a queue shows that the slowest
    /// link was busy, and the test used only a part of it. `None` without a queue, or if the test used nearly
    /// all of the capacity.
    pub fn others_had_bps(&self) -> Option<f64> {
        let has_standing_queue = self.queued.is_some_and(|queued| queued >= MIN_STANDING_SHARE);
        let is_behind_others = self.behind_others.is_some_and(|share| share >= MIN_BEHIND_OTHERS);
        let is_busy = has_standing_queue || is_behind_others || self.is_queued_without_load();
        let carried = self.capacity_bps().filter(|_| is_busy)?;
        let others = carried * self.segment_share() - self.test_goodput_bps();
        (others >= MIN_OTHERS_SHARE * carried).then_some(others)
    }

    /// A rate that overflows no queue, as TCP payload in bit/s.
    pub fn safe_bps(&self) -> Option<f64> {
        let carried = self.capacity_bps()?;
        let others = if self.others_had_bps().is_some() { self.test_goodput_bps() } else { carried };
        Some(self.available_bps().map_or(others, |left| left.value.min(carried)))
    }

    /// The path's bandwidth-delay product, bytes.
    pub fn bdp(&self) -> Option<f64> {
        Some(bdp_f64(BitRate(self.carried_bps()? as u64), self.rtt))
    }

    /// TCP payload that the path carries, bit/s: its capacity, and at least the goodput of the test.
    pub(crate) fn carried_bps(&self) -> Option<f64> {
        Some(self.capacity_bps()?.max(self.test_goodput_bps()))
    }

    /// Loss episodes per segment of the test; `None` without losses.
    pub(crate) fn test_loss_rate(&self) -> Option<f64> {
        let sent = self.flow.as_ref()?.sent_segs?;
        Some(self.losses?.episodes as f64 / sent.max(1) as f64)
    }

    /// The loss rate that must be detectable: the minimum of the test's and the largest at which Reno fills
    /// the path (Mathis et al. 1997). `None` if nothing limits TCP below the path's rate.
    pub(crate) fn loss_rate_to_find(&self) -> Option<f64> {
        if self.reached_full_rate() {
            return self.test_loss_rate();
        }
        let packets = self.bdp()? / self.flow.as_ref()?.mss_bytes.unwrap_or(1448) as f64;
        let harmful = loss_for_reno(packets);
        Some(self.test_loss_rate().map_or(harmful, |lost| lost.min(harmful)))
    }

    /// Random loss rate, if known: that of datagrams, and of TCP's packets if its window fills no queue.
    /// `is_tcp_random`: TCP's losses are random.
    pub(crate) fn random_loss_rate(&self, is_tcp_random: bool) -> f64 {
        let flow = self.flow.as_ref();
        let tcp = flow.and_then(|flow| Some((self.losses?.episodes as u64, flow.sent_segs?)));
        let (lost, sent) =
            match tcp.filter(|_| matches!(self.verdict(), Some(Cause::ReceiveWindow | Cause::SendBuffer))) {
                Some((lost, sent)) => (lost + self.datagrams.lost, sent + self.datagrams.sent),
                None => (self.datagrams.lost, self.datagrams.sent),
            };
        match lost {
            MIN_LOST_FOR_RATE.. => lost as f64 / sent as f64,
            _ if is_tcp_random => self.test_loss_rate().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The round-trip time without a queue, microseconds.
    pub(crate) fn base_rtt_us(&self) -> f64 {
        let min_rtt_us = self.flow.as_ref().and_then(|flow| flow.min_rtt_us).unwrap_or(f64::INFINITY);
        // TCP's timestamps have a resolution of a millisecond.
        self.rtt.as_micros_f64().min(min_rtt_us + 1000.0)
    }

    /// The verdict of the test. The samples alone cannot distinguish a full link from queueing of the flow's
    /// own bursts; capacity and available bandwidth can.
    pub(crate) fn verdict(&self) -> Option<Cause> {
        let flow = self.flow.as_ref()?;
        let is_full = flow.verdict == Some(Cause::PathRate);
        let full_share = MIN_FULL_SHARE * self.segment_share();
        let has_spare_capacity =
            self.capacity_bps().is_some_and(|carried| self.test_goodput_bps() < full_share * carried);
        if !is_full || !has_spare_capacity || self.is_shared() {
            return flow.verdict;
        }
        if self.losses.is_some_and(|losses| losses.episodes > 1) {
            let is_local = flow.limited.local_queue > flow.limited.loss;
            return Some(if is_local { Cause::LocalQueue } else { Cause::Loss });
        }
        let share = |cause: &Cause| flow.limited_steady.share(*cause).max(flow.limited.share(*cause));
        let others = Cause::ALL.into_iter().filter(|cause| *cause != Cause::PathRate && share(cause) > 0.0);
        others.max_by(|a, b| share(a).total_cmp(&share(b))).or(flow.verdict)
    }

    /// Whether the test reached the path's full rate.
    pub(crate) fn reached_full_rate(&self) -> bool {
        let has_standing_queue = self.queued.is_some_and(|queued| queued >= MIN_STANDING_SHARE);
        let full_share = match self.verdict() {
            Some(Cause::ReceiveWindow | Cause::SendBuffer) if !has_standing_queue => MIN_FULL_SHARE_OF_WINDOW,
            _ => MIN_FULL_SHARE,
        } * self.segment_share();
        if self
            .expected
            .as_ref()
            .is_some_and(|(expected, _)| self.test_goodput_bps() >= full_share * expected)
        {
            return true;
        }
        let at_least = self.capacity.as_ref().is_some_and(|capacity| capacity.at_least);
        match self.capacity_bps() {
            Some(carried) if self.test_goodput_bps() < full_share * carried => false,
            Some(_) if !at_least => true,
            _ => self.verdict() == Some(Cause::PathRate) && !is_busy(self.receiver_busy),
        }
    }
}

/// Segments of a flow that arrived with an ECN mark.
pub(crate) fn marked_segs(rows: &[FlowSample]) -> u64 {
    let counts = rows.iter().filter_map(|row| row.delivered_ce_segs);
    u64::try_from(counts.max().unwrap_or(0)).unwrap_or(0)
}

/// TCP payload per byte of IP, for packets of this size.
fn payload_share(packet_bytes: u32) -> f64 {
    1.0 - TCP_IP_HEADERS / f64::from(packet_bytes.max(100))
}

/// Whether a thread that ran or waited for a CPU for this share of the time was saturated.
pub fn is_busy(share: Option<f64>) -> bool {
    share.is_some_and(|share| share >= MIN_BUSY_SHARE)
}
