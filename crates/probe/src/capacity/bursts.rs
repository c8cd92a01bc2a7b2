//! Bursts of equal packets: selects those that no cross traffic disturbed, and estimates the rate.

use super::{Capacity, CapacityPhase, MAX_LONG_FLEETS};
use crate::{
    arrival_curve::fit_arrival_curve,
    result::Interval,
    statistics::{median, minimum, mode, quantile},
    train::TrainObservation,
};

/// Number of bursts of the final length in a fleet.
pub(super) const BURSTS: usize = 16;
/// Maximum number of fleets of final bursts.
const MAX_ROUNDS: usize = 6;
/// Sufficient number of undisturbed bursts.
const ENOUGH_UNDISTURBED: usize = 6;
/// Maximum relative difference of undisturbed bursts, in addition to the error of timestamps.
const MAX_DIFFERENCE: f64 = 0.05;
/// Quantile of the bursts' rates that is the upper bound.
const FASTEST_QUANTILE: f64 = 0.98;
/// Maximum ratio of that bound to the value: a queue after the narrow link makes single bursts faster.
const MAX_ABOVE_VALUE: f64 = 1.1;
/// Minimum gap between two packets that counts, in units of the resolution.
const MIN_GAP: f64 = 15.0;

/// Maximum ratio of the gaps of evenly spaced packets.
const MAX_GAP_RATIO: f64 = 1.1;
/// Where a link alternates between two rates, the slower one is less than this fraction of the faster one.
const SLOWER_FRACTION: f64 = 0.8;
/// The slower rate must occur in at least 3 bursts, and in at least one of 12.
const MIN_SLOW_BURSTS: usize = 3;
const SLOW_BURST_SHARE: usize = 12;

/// The measurements of one burst.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    pub(super) rate_bps: f64,
    pub(super) first_delay: f64,
    pub(super) last_delay: f64,
    pub(super) lost: usize,
    pub(super) sent_bps: Option<f64>,
    /// Share of its packets before a bend.
    pub(super) bend: f64,
    /// Whether its packets arrived evenly spaced, as one link sends them: cross traffic between them would
    /// cause gaps of many sizes.
    pub(super) is_even: bool,
}

/// Whether there were enough bursts without cross traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum UndisturbedBursts {
    Unknown,
    Enough,
    TooFew,
}

impl Capacity {
    pub(super) fn evaluate_burst(&self, observation: &TrainObservation) -> Option<Burst> {
        let curve = fit_arrival_curve(observation, self.limits.resolution_ns)?;
        let (first, last) = (observation.received().next()?, observation.received().next_back()?);
        Some(Burst {
            rate_bps: curve.rate_bps,
            first_delay: first.delay_ns(),
            last_delay: last.delay_ns(),
            lost: observation.lost(),
            sent_bps: observation.sent_bps(),
            bend: curve.bend_bytes / (observation.sent() as f64 * f64::from(observation.bytes)),
            is_even: self.is_even(observation),
        })
    }

    fn is_even(&self, observation: &TrainObservation) -> bool {
        let arrived: Vec<i64> = observation.received().map(|packet| packet.arrived_ns).collect();
        let gaps: Vec<f64> = arrived.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let (Some(low), Some(high)) = (quantile(&gaps, 0.1), quantile(&gaps, 0.9)) else { return false };
        observation.lost() == 0 && low > MIN_GAP * self.limits.resolution_ns && high <= MAX_GAP_RATIO * low
    }

    /// A slower rate at which bursts arrived as evenly spaced as at the estimate: the link alternates between
    /// two rates.
    pub(super) fn slower_rate(&self, estimate_bps: f64) -> Option<f64> {
        let slow = self
            .bursts
            .iter()
            .filter(|burst| burst.is_even && burst.rate_bps < SLOWER_FRACTION * estimate_bps);
        let rates: Vec<f64> = slow.map(|burst| burst.rate_bps).collect();
        let is_frequent =
            rates.len() >= MIN_SLOW_BURSTS && rates.len() >= self.bursts.len() / SLOW_BURST_SHARE;
        mode(&rates).filter(|_| is_frequent)
    }

    pub(super) fn add_bursts(&mut self, packets: usize, observations: &[TrainObservation]) {
        let new: Vec<Burst> =
            observations.iter().filter_map(|observation| self.evaluate_burst(observation)).collect();
        self.bursts.extend(new);
        for observation in observations {
            self.add_pair_rates(observation);
        }
        self.rounds += 1;
        if self.bursts.is_empty() {
            self.phase = CapacityPhase::Done;
            return;
        }
        // If losses are rare, only bursts without losses count, whose slopes have no bend.
        let lossless: Vec<Burst> = self.bursts.iter().filter(|b| b.lost == 0).copied().collect();
        let bursts = if lossless.len() * 4 >= self.bursts.len() { lossless } else { self.bursts.clone() };
        let rates: Vec<f64> = bursts.iter().map(|b| b.rate_bps).collect();
        let Some(typical) = median(&rates) else { return self.phase = CapacityPhase::Done };
        let dispersion = f64::from(self.bytes) * 8e9 * packets as f64 / typical;
        let tolerance = 2.0 * self.limits.resolution_ns + 0.02 * dispersion;
        let (first, last) =
            (minimum(bursts.iter().map(|b| b.first_delay)), minimum(bursts.iter().map(|b| b.last_delay)));
        let (Some(first), Some(last)) = (first, last) else { return self.phase = CapacityPhase::Done };
        let undisturbed: Vec<f64> = bursts
            .iter()
            .filter(|b| b.first_delay <= first + tolerance && b.last_delay <= last + tolerance)
            .map(|b| b.rate_bps)
            .collect();
        let relative_error = 2.0 * self.limits.resolution_ns / dispersion;
        let is_consistent = rates_agree(&undisturbed, relative_error);
        if (undisturbed.len() < ENOUGH_UNDISTURBED || !is_consistent) && self.rounds < MAX_ROUNDS {
            return;
        }
        let (value, sample) =
            if is_consistent && undisturbed.len() >= ENOUGH_UNDISTURBED.min(self.bursts.len() / 2) {
                self.undisturbed = UndisturbedBursts::Enough;
                (median(&undisturbed).unwrap_or(typical), undisturbed)
            } else if let Some(value) = self.most_frequent_pair_rate() {
                self.undisturbed = UndisturbedBursts::Enough;
                (value, vec![value])
            } else {
                self.undisturbed = UndisturbedBursts::TooFew;
                (mode(&rates).unwrap_or(typical), rates.clone())
            };
        // With cross traffic the fastest bursts are those with the least of it between their packets.
        let fastest =
            quantile(&rates, FASTEST_QUANTILE).unwrap_or(value).clamp(value, value * MAX_ABOVE_VALUE);
        let (low, high) = (quantile(&sample, 0.1).unwrap_or(value), quantile(&sample, 0.9).unwrap_or(value));
        self.estimate = Some(Interval {
            low: low.min(value) * (1.0 - relative_error),
            value,
            high: high.max(fastest) * (1.0 + relative_error),
        });
        self.phase = CapacityPhase::Long { rate_bps: 2.0 * value, remaining: MAX_LONG_FLEETS };
    }

    /// Adds the rates between consecutive packets, which cross traffic often does not affect.
    fn add_pair_rates(&mut self, observation: &TrainObservation) {
        let all: Vec<_> = observation.received().collect();
        // The later half, as for all slopes: a token bucket may have let the earlier packets pass at once.
        for pair in all[all.len() / 2..].windows(2) {
            let gap = (pair[1].arrived_ns - pair[0].arrived_ns) as f64;
            if pair[1].number == pair[0].number + 1 {
                self.pair_rates_bps.push(f64::from(self.bytes) * 8e9 / gap.max(1.0));
            }
        }
    }

    /// The mode of the rates between consecutive packets, if a fifth of them is within two per cent of it,
    /// and at most a twentieth is faster. Otherwise most gaps may contain small packets of cross traffic.
    /// `None` if gaps are below the resolution.
    fn most_frequent_pair_rate(&self) -> Option<f64> {
        let mode = mode(&self.pair_rates_bps)?;
        if f64::from(self.bytes) * 8e9 / mode < MIN_GAP * self.limits.resolution_ns {
            return None;
        }
        let near = self.pair_rates_bps.iter().filter(|rate| (*rate / mode - 1.0).abs() < 0.02).count();
        let faster = self.pair_rates_bps.iter().filter(|rate| **rate > mode * 1.02).count();
        (near >= 50 && near * 5 >= self.pair_rates_bps.len() && faster * 20 <= self.pair_rates_bps.len())
            .then_some(mode)
    }
}

/// Whether the rates agree, which shows that the bursts are undisturbed, and not merely the least disturbed
/// ones.
fn rates_agree(rates: &[f64], relative_error: f64) -> bool {
    let range = quantile(rates, 0.9).zip(quantile(rates, 0.1));
    range.is_some_and(|(high, low)| high <= low * (1.0 + MAX_DIFFERENCE + 2.0 * relative_error))
}
