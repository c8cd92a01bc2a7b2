//! Long trains, which empty token buckets; at two rates they also separate cross traffic.

use std::ops::Range;

use super::{
    Capacity, CapacityPhase, LONG_TRAINS, MAX_BURST_BEND,
    bursts::{Burst, UndisturbedBursts},
    max_packets,
};
use crate::{
    arrival_curve::{ArrivalCurve, fit_arrival_curve},
    cross_traffic::growing_bps,
    result::Interval,
    statistics::{median, quantile},
    train::TrainObservation,
};

/// The rate before a queue overflows, divided by the rate of the whole train, is in this range if both are
/// rates of the same queue.
const SAME_QUEUE_RATIO: Range<f64> = 0.9..1.35;
/// Minimum ratio of two rates that determine the cross traffic.
const MIN_RATE_RATIO: f64 = 1.6;
/// Minimum relative uncertainty of a received rate.
const MIN_SPREAD: f64 = 0.004;
/// Duration of a long train, if the limit on the load allows it, ns.
const LONG_TRAIN_NS: f64 = 150e6;
/// Minimum and maximum number of packets of a long train.
const MIN_LONG_PACKETS: usize = 200;
const MAX_LONG_PACKETS: usize = 200_000;
/// A bend counts if more than this share of a train passed before it, and more than [`MIN_BEND_PACKETS`].
const MIN_BEND_SHARE: f64 = 0.08;
/// A bend counts if more than this number of packets passed before it.
const MIN_BEND_PACKETS: f64 = 4.0;

/// The measurements of long trains at one rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongTrains {
    pub(super) sent_bps: f64,
    pub(super) rate_bps: f64,
    /// Relative uncertainty of the rate, from the differences of the trains.
    spread: f64,
    /// Whether the queue overflowed: cross traffic then loses another share than the trains.
    overflows: bool,
}

impl LongTrains {
    fn new(sent_bps: f64, rates: &[f64], overflows: bool) -> Option<LongTrains> {
        let rate_bps = median(rates)?;
        let range = quantile(rates, 1.0)? - quantile(rates, 0.0)?;
        // Three values have a range of 1.7 standard deviations, and their median has a standard deviation of
        // two thirds of one; for six values these are 2.5 and one half.
        let error_per_range = if rates.len() > LONG_TRAINS { 0.2 } else { 0.4 };
        Some(LongTrains { sent_bps, rate_bps, spread: error_per_range * range / rate_bps, overflows })
    }
}

impl Capacity {
    /// Number of packets of a long train at this rate.
    pub(super) fn long_packets(&self, rate_bps: f64) -> usize {
        let requested = rate_bps * LONG_TRAIN_NS / 8e9 / f64::from(self.bytes);
        let max = max_packets(&self.limits, self.bytes) / 2;
        (requested as usize).clamp(MIN_LONG_PACKETS, MAX_LONG_PACKETS).min(max).max(8)
    }

    pub(super) fn add_long_trains(
        &mut self,
        rate_bps: f64,
        remaining: usize,
        observations: &[TrainObservation],
    ) {
        let curves: Vec<ArrivalCurve> = observations
            .iter()
            .filter_map(|observation| fit_arrival_curve(observation, self.limits.resolution_ns))
            .collect();
        let sent = median(&observations.iter().filter_map(TrainObservation::sent_bps).collect::<Vec<_>>())
            .unwrap_or(rate_bps);
        let Some(trains) = self.evaluate_long_trains(sent, observations) else {
            self.warnings.push("long trains were lost".into());
            return self.phase = CapacityPhase::Done;
        };
        let rate = trains.rate_bps;
        let bend = median(&curves.iter().map(|c| c.bend_bytes).collect::<Vec<_>>()).unwrap_or(0.0);
        let total = median(&curves.iter().map(|c| c.bytes).collect::<Vec<_>>()).unwrap_or(1.0);
        let before = self.estimate.map_or(f64::INFINITY, |estimate| estimate.value);
        let bends = median(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>())
            .is_some_and(|b| b > MAX_BURST_BEND);
        // Even if cross traffic fills the capacity, a train at twice the rate gets two thirds of it.
        let bent = bend > (MIN_BEND_SHARE * total).max(MIN_BEND_PACKETS * f64::from(self.bytes))
            || rate < 0.6 * before
            || bends;
        let is_unknown = self.estimate.is_none();
        if is_unknown && rate > 0.95 * sent && remaining > 1 {
            // No link limited the train, so the next one is sent faster.
            return self.phase = CapacityPhase::Long { rate_bps: 2.0 * rate_bps, remaining: remaining - 1 };
        }
        if self.bucket_bytes.is_some() || is_unknown || (bent && rate < 0.9 * before) {
            if self.bucket_bytes.is_none() {
                self.peak_bps = self.estimate.map(|estimate| estimate.value);
            }
            // Packets reach the bucket at most at the rate of the links before it.
            let sent = sent.min(self.peak_bps.unwrap_or(f64::INFINITY));
            self.long_trains.push(LongTrains { sent_bps: sent, ..trains });
            // Cross traffic empties the bucket at times, so the maximum counts.
            self.bucket_bytes = Some(bend.max(self.bucket_bytes.unwrap_or(0.0)));
            self.estimate_from_two_rates();
            self.phase = match (remaining, self.usable_long_trains().count()) {
                (0 | 1, _) => {
                    self.warnings.push("the rate after a token bucket did not converge".into());
                    CapacityPhase::Done
                }
                // The estimate is now close.
                (_, 0) => CapacityPhase::Long { rate_bps: 2.0 * rate, remaining: remaining - 1 },
                // Once more, at another rate: twice as fast, or slower if this host cannot send that fast.
                (_, 1) if self.peak_bps.is_none_or(|peak| peak > 3.0 * rate) && sent < 3.0 * rate => {
                    CapacityPhase::Long { rate_bps: 2.0 * sent, remaining: remaining - 1 }
                }
                (_, 1) => {
                    CapacityPhase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), remaining: remaining - 1 }
                }
                _ if self.two_rates().is_some() => CapacityPhase::Done,
                _ => {
                    CapacityPhase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), remaining: remaining - 1 }
                }
            };
            return;
        }
        // Each burst emptied a bucket: the later halves of the bursts show the token rate.
        let min_bend = quantile(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>(), 0.1).unwrap_or(0.0)
            * self.burst_packets as f64
            * f64::from(self.bytes);
        if self.undisturbed == UndisturbedBursts::Enough
            && min_bend > MIN_BEND_PACKETS * f64::from(self.bytes)
        {
            self.bucket_bytes = Some(min_bend);
        }
        self.phase = match self.undisturbed {
            UndisturbedBursts::TooFew => {
                self.long_trains.push(trains);
                CapacityPhase::Slow { rate_bps: before }
            }
            _ => CapacityPhase::Done,
        };
    }

    /// Evaluates long trains at one rate. If they overflow a queue, the part before counts, provided that it
    /// is long enough.
    fn evaluate_long_trains(&self, sent_bps: f64, observations: &[TrainObservation]) -> Option<LongTrains> {
        let rate = |observation: &TrainObservation| {
            Some(fit_arrival_curve(observation, self.limits.resolution_ns)?.rate_bps)
        };
        let rates: Vec<f64> = observations.iter().filter_map(rate).collect();
        let margin = 4.0 * f64::from(self.bytes) * 8e9 / median(&rates)? + 2.0 * self.limits.resolution_ns;
        let lossy =
            observations.iter().filter(|observation| observation.lost() > 0).count() * 2 > observations.len();
        if !lossy {
            return LongTrains::new(sent_bps, &rates, false);
        }
        // A queue with a much higher rate than the whole train is the rate of another queue: this host's,
        // before a policer.
        let typical = median(&rates)?;
        let growing: Vec<f64> = observations
            .iter()
            .filter_map(|observation| growing_bps(observation, margin))
            .filter(|rate| SAME_QUEUE_RATIO.contains(&(rate / typical)))
            .collect();
        match growing.len() * 2 > observations.len() {
            true => LongTrains::new(sent_bps, &growing, false),
            false => LongTrains::new(sent_bps, &rates, true),
        }
    }

    /// Adds long trains at the bursts' rate. Together with those at twice this rate they determine the
    /// capacity without cross traffic.
    pub(super) fn add_slow_trains(&mut self, observations: &[TrainObservation]) {
        self.phase = CapacityPhase::Done;
        let slow: Vec<Burst> =
            observations.iter().filter_map(|observation| self.evaluate_burst(observation)).collect();
        let sent = median(&slow.iter().filter_map(|b| b.sent_bps).collect::<Vec<_>>());
        let trains = sent.and_then(|sent| self.evaluate_long_trains(sent, observations));
        let (Some(slow), Some(fast)) = (trains, self.long_trains.last()) else { return };
        if fast.sent_bps > 1.3 * slow.sent_bps && slow.rate_bps < 0.98 * slow.sent_bps {
            let (capacity, cross) = without_cross_traffic(slow, *fast);
            (self.estimate, self.cross_bps) = (Some(capacity), Some(cross));
        }
    }

    /// Trains that arrived more slowly than they were sent, but not so slowly that most of their packets must
    /// have been lost.
    fn usable_long_trains(&self) -> impl Iterator<Item = LongTrains> + '_ {
        self.long_trains
            .iter()
            .copied()
            .filter(|trains| (1.1..8.0).contains(&(trains.sent_bps / trains.rate_bps)))
    }

    /// The slowest and the fastest of the usable trains, if their rates differ enough.
    pub(super) fn two_rates(&self) -> Option<[LongTrains; 2]> {
        let slow = self.usable_long_trains().min_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        let fast = self.usable_long_trains().max_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        (fast.sent_bps > MIN_RATE_RATIO * slow.sent_bps).then_some([slow, fast])
    }

    fn estimate_from_two_rates(&mut self) {
        match self.two_rates() {
            Some([slow, fast]) => {
                let (capacity, cross) = without_cross_traffic(slow, fast);
                (self.estimate, self.cross_bps) = (Some(capacity), Some(cross));
            }
            None => self.estimate = self.long_trains.last().map(|last| Interval::within(last.rate_bps, 0.1)),
        }
    }
}

/// Computes the capacity C and the cross traffic X from trains at two rates: 1 / received = 1 / C + (X / C) /
/// sent, with X / C from 0 to 1.
fn without_cross_traffic(slow: LongTrains, fast: LongTrains) -> (Interval, f64) {
    let reach = (1.0 / fast.sent_bps) / (1.0 / slow.sent_bps - 1.0 / fast.sent_bps);
    let computed = (1.0 / slow.rate_bps - 1.0 / fast.rate_bps) * fast.sent_bps * reach;
    let share = computed.clamp(0.0, 1.0);
    let value = 1.0 / (1.0 / fast.rate_bps - share / fast.sent_bps);
    // The error of the line through both, extrapolated to 1 / sent = 0.
    let contribution =
        |trains: LongTrains, weight: f64| weight * trains.spread.max(MIN_SPREAD) * value / trains.rate_bps;
    let error = contribution(fast, 1.0 + reach).hypot(contribution(slow, reach));
    // The correction for cross traffic is uncertain by at least a third of itself. If the trains overflowed a
    // queue it is entirely uncertain: a policer and a full queue of bytes drop large packets sooner than
    // small ones.
    let certainty = if slow.overflows || fast.overflows { 1.0 } else { 3.0 };
    // A computed share outside of 0 to 1 adds uncertainty.
    let impossible = (computed - share).abs() * value / fast.sent_bps;
    let min_error = ((value / fast.rate_bps - 1.0) / certainty).clamp(0.01, 0.9);
    (Interval::within(value, (2.5 * error + impossible).clamp(min_error, 0.9)), share * value)
}
