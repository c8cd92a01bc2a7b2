//! Available bandwidth by chirps: trains with increasing rate (pathChirp, Ribeiro et al., PAM 2003). They
//! need a tenth of the packets of streams, and are less precise.
//!
//! Differences from pathChirp:
//! 1. The capacity is measured first. It determines the range of rates, and whether there is a token bucket,
//!    after which chirps detect nothing.
//! 2. The available bandwidth is not the rate at which delays begin to increase, which bursts of cross
//!    traffic shift in both directions. It comes from the part of a chirp that is faster than the link: this
//!    keeps the link busy, and its additional duration is due to cross traffic (`cross_traffic.rs`). One
//!    chirp is therefore imprecise, but the mean of many has no bias.
//! 3. The rate at which delays begin to increase must be consistent with that.

use std::ops::Range;

use units::Time;

use crate::{
    available_bandwidth::AvailableBandwidthResult,
    capacity::{Capacity, CapacityResult},
    cross_traffic::{CrossTrafficEstimate, cross_traffic_bps, estimate, queue_start},
    result::{Interval, ProbeLimits, Validity},
    statistics::mean,
    train::{Fleet, Method, Step, Train, TrainObservation},
};

/// Factor by which each gap is shorter than the previous one (1.2 in the paper).
const GAMMA: f64 = 1.06;
/// Lowest and highest rate of a chirp, as multiples of the capacity.
const MIN_RATE: f64 = 0.2;
const MAX_RATE: f64 = 4.0;
/// Number of chirps of a round.
const CHIRPS: usize = 60;
/// Minimum and maximum number of rounds.
const MIN_ROUNDS: usize = 2;
const MAX_ROUNDS: usize = 4;
/// Number of chirps whose mean counts as one value.
const GROUP: usize = 6;
/// Target of the standard error, as a fraction of the available bandwidth.
const TARGET_ERROR: f64 = 0.03;
/// Maximum width of a reliable interval, as a fraction of its value.
const MAX_RELATIVE_WIDTH: f64 = 0.45;
/// Plausible range of the mean rate at which delays begin to increase, over the available bandwidth; bursts
/// of cross traffic disturb that rate.
const KNEE_RANGE: Range<f64> = 0.5..2.5;
/// Duration of the fast end of a chirp (the sum of its gaps), in packet times of the link.
const FAST_END_PACKET_TIMES: f64 = 13.0;
/// Mean rate of the fast end, as a multiple of the capacity.
const FAST_END_RATE: f64 = 1.9;
/// An excursion ends when the delay has decreased to its maximum divided by this factor (F in the paper).
const EXCURSION_END_FACTOR: f64 = 1.5;
/// Minimum number of packets of an excursion (L in the paper).
const MIN_EXCURSION_PACKETS: usize = 5;

/// The measurement method.
#[derive(Debug, Clone)]
pub struct Chirps {
    limits: ProbeLimits,
    bytes: u32,
    capacity: Capacity,
    capacity_result: Option<CapacityResult>,
    /// Rate of cross traffic during the fast end of each chirp, bit/s.
    cross_bps: Vec<f64>,
    /// Rates at which delays began to increase, bit/s.
    knees_bps: Vec<f64>,
    cross_estimate: Option<CrossTrafficEstimate>,
    rounds: usize,
    is_done: bool,
    has_host_drops: bool,
}

impl Chirps {
    /// A measurement of the capacity and then of the available bandwidth.
    pub fn new(limits: ProbeLimits) -> Self {
        Chirps {
            limits,
            bytes: limits.mtu,
            capacity: Capacity::new(limits),
            capacity_result: None,
            cross_bps: Vec::new(),
            knees_bps: Vec::new(),
            cross_estimate: None,
            rounds: 0,
            is_done: false,
            has_host_drops: false,
        }
    }
}

impl Chirps {
    fn capacity_bps(&self) -> f64 {
        self.capacity_result.as_ref().and_then(|known| known.capacity_bps).map_or(0.0, |found| found.value)
    }
}

impl Method for Chirps {
    type Output = AvailableBandwidthResult;

    fn next_step(&mut self) -> Step {
        if self.capacity_result.is_none() {
            if let Step::Send(fleet) = self.capacity.next_step() {
                return Step::Send(fleet);
            }
            self.capacity_result = Some(self.capacity.result());
        }
        let Some(capacity) =
            self.capacity_result.as_ref().and_then(|known| known.capacity_bps).filter(|_| !self.is_done)
        else {
            return Step::Done;
        };
        let packets = ((MAX_RATE / MIN_RATE).ln() / GAMMA.ln()) as usize + 1;
        let train = Train::chirp(self.bytes, packets, MIN_RATE * capacity.value, GAMMA);
        let gap = Time::from_nanos(train.duration_ns() / 2 + 1_000_000);
        Step::Send(Fleet { trains: vec![train; CHIRPS], gap })
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        if self.capacity_result.is_none() {
            return self.capacity.add_observations(observations);
        }
        self.has_host_drops |= observations.iter().any(|observation| observation.host_drops > 0);
        self.rounds += 1;
        let capacity = self.capacity_bps();
        let margin = 2.0 * f64::from(self.bytes) * 8e9 / capacity + 2.0 * self.limits.resolution_ns;
        let is_bucket = self.capacity_result.as_ref().is_some_and(|known| known.bucket_bytes.is_some());
        for observation in observations.iter().filter(|observation| observation.lost() == 0) {
            let start = if is_bucket { 0 } else { queue_start(observation, margin) };
            let from = first_at_rate(observation, capacity).max(start);
            self.cross_bps.extend(cross_traffic_bps(observation, capacity, from..observation.sent()));
            self.knees_bps.extend(knee_bps(observation, self.limits.resolution_ns));
        }
        self.cross_estimate = estimate(&self.cross_bps, GROUP);
        let is_good =
            self.cross_estimate.is_some_and(|found| found.error <= TARGET_ERROR * (capacity - found.value));
        self.is_done = is_good && self.rounds >= MIN_ROUNDS || self.rounds >= MAX_ROUNDS;
    }

    fn result(&self) -> AvailableBandwidthResult {
        let mut warnings = Vec::new();
        let known = self.capacity_result.clone().unwrap_or_else(|| self.capacity.result());
        if !known.validity.valid {
            warnings.extend(known.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        if known.bucket_bytes.is_some() {
            warnings.push(
                "chirps pass through a token bucket at once: the available bandwidth may be smaller".into(),
            );
        }
        let found = self.cross_estimate.zip(known.capacity_bps).map(|(cross, capacity)| {
            let value = (capacity.value - cross.value).clamp(0.0, capacity.value);
            let factor = FAST_END_RATE - 1.0 + cross.value / capacity.value;
            Interval::of_available(capacity, value, cross.error, factor)
        });
        match found {
            None => warnings.push("no chirp arrived completely".into()),
            Some(found) => {
                if self.cross_bps.len() * 10 < self.rounds * CHIRPS * 9 {
                    warnings.push(format!(
                        "only {} chirps arrived completely and were sent on time",
                        self.cross_bps.len()
                    ));
                }
                if found.high - found.low > MAX_RELATIVE_WIDTH * found.value {
                    warnings.push("chirps disagree: the available bandwidth varies".into());
                }
                if mean(&self.knees_bps).is_some_and(|knee| !KNEE_RANGE.contains(&(knee / found.value))) {
                    warnings.push("delays begin to increase at a very different rate".into());
                }
                let end_ns = f64::from(self.bytes) * 8e9 / self.capacity_bps() * FAST_END_PACKET_TIMES;
                if end_ns < 4.0 * self.limits.resolution_ns {
                    warnings.push(
                        "packets are closer together than the resolution of the timestamps: use streams"
                            .into(),
                    );
                }
            }
        }
        if self.has_host_drops {
            warnings.push("a host dropped packets, so the host was measured and not the path".into());
        }
        AvailableBandwidthResult {
            available_bps: found,
            varies_bps: self.cross_estimate.map(|found| found.spread),
            packet_bytes: self.bytes,
            fleets: self.rounds,
            capacity: Some(known),
            validity: Validity::new(warnings, || format!("{} chirps agree", self.cross_bps.len())),
        }
    }

    fn progress(&self) -> String {
        match self.capacity_result {
            None => format!("capacity first: {}", self.capacity.progress()),
            Some(_) => format!("{CHIRPS} chirps"),
        }
    }
}

/// Index of the packet from which a chirp is at least as fast as the link.
fn first_at_rate(observation: &TrainObservation, capacity_bps: f64) -> usize {
    let gap = f64::from(observation.bytes) * 8e9 / capacity_bps;
    observation
        .sent_ns
        .windows(2)
        .position(|pair| (pair[1] - pair[0]) as f64 <= gap)
        .unwrap_or(observation.sent())
}

/// The rate at which the delays of a chirp begin to increase, bit/s, by the paper's algorithm; `None` if
/// packets are missing.
fn knee_bps(observation: &TrainObservation, resolution_ns: f64) -> Option<f64> {
    let all: Vec<_> = observation.received().collect();
    if all.len() < observation.sent() || all.len() < 2 * MIN_EXCURSION_PACKETS {
        return None;
    }
    let delays: Vec<f64> = all.iter().map(|packet| packet.delay_ns()).collect();
    let gaps: Vec<f64> =
        all.windows(2).map(|pair| (pair[1].sent_ns - pair[0].sent_ns).max(1) as f64).collect();
    let rates: Vec<f64> = gaps.iter().map(|gap| f64::from(observation.bytes) * 8e9 / gap).collect();
    let last = gaps.len() - 1;
    let mut estimates: Vec<Option<f64>> = vec![None; gaps.len()];
    let mut default_rate = rates[last];
    let mut start = 0;
    while start < last {
        if delays[start + 1] <= delays[start] + resolution_ns {
            start += 1;
            continue;
        }
        let Some(end) = end_of_excursion(&delays, start) else {
            // The delay does not decrease again: the queue grows until the end.
            if delays.len() - start > MIN_EXCURSION_PACKETS {
                default_rate = rates[start];
            }
            break;
        };
        if end - start >= MIN_EXCURSION_PACKETS {
            for k in (start..end.min(gaps.len())).filter(|k| delays[k + 1] >= delays[*k]) {
                estimates[k] = Some(rates[k]);
            }
        }
        start = end.max(start + 1);
    }
    let weighted: f64 = estimates
        .iter()
        .zip(&gaps)
        .map(|(own, gap)| own.unwrap_or(default_rate).min(default_rate) * gap)
        .sum();
    Some(weighted / gaps.iter().sum::<f64>())
}

/// Index at which the delay, which increases from `start`, has decreased again; `None` if it never does.
fn end_of_excursion(delays: &[f64], start: usize) -> Option<usize> {
    let mut highest: f64 = 0.0;
    for (index, delay) in delays.iter().enumerate().skip(start + 1) {
        let above = delay - delays[start];
        highest = highest.max(above);
        if above < highest / EXCURSION_END_FACTOR {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_rate_from_which_a_queue_grows() {
        // 20 Mb/s are available: at higher rates each packet waits for the previous one.
        let train = Train::chirp(1500, 40, 2e6, 1.1);
        let service = 1500.0 * 8e9 / 20e6;
        let mut free = 0f64;
        let sent_ns: Vec<i64> = train.offsets_ns.iter().map(|at| *at as i64).collect();
        let arrived_ns = sent_ns
            .iter()
            .map(|sent| {
                free = free.max(*sent as f64) + service;
                Some(free as i64)
            })
            .collect();
        let observation = TrainObservation { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 };
        let found = knee_bps(&observation, 100.0).unwrap();
        assert!((0.9..1.12).contains(&(found / 20e6)), "{found}");
        assert_eq!(knee_bps(&TrainObservation::default(), 100.0), None);
    }
}
