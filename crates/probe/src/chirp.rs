//! Available bandwidth by chirps, trains of packets ever closer together that pass through all rates (pathChirp, Ribeiro et al., PAM
//! 2003): a tenth of the packets of streams, and less exact.
//!
//! Departures:
//! 1. The capacity is measured first, which says through which rates to pass, and whether there is a token bucket, behind which chirps
//!    see nothing.
//! 2. What is available is not taken from where the delays begin to rise, which bursts of others make earlier or later, but
//!    from the part of a chirp that is faster than the link: it keeps the link busy, and what it takes longer than alone is
//!    other traffic's (`cross.rs`). So one chirp says little, and the mean of many has no bias.
//! 3. Where the delays begin to rise must agree with that, as far as it can be told.

use std::ops::Range;

use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    available::AvailableAnswer,
    capacity::{Capacity, CapacityAnswer},
    cross::{Estimate, cross_traffic, estimate, queue_begins},
    statistics::mean,
    train::{Fleet, Method, Seen, Step, Train},
};

/// Each gap is shorter than the one before by this factor (1.2 in the paper).
const GAMMA: f64 = 1.06;
/// Slowest and fastest rate, of the capacity.
const FROM: f64 = 0.2;
const TO: f64 = 4.0;
/// Chirps of a round, and rounds at least and at most.
const CHIRPS: usize = 60;
const LEAST_ROUNDS: usize = 2;
const ROUNDS: usize = 4;
/// Chirps whose mean is one value.
const GROUP: usize = 6;
/// Good enough is a standard error of this share of what is available.
const ERROR: f64 = 0.03;
/// An interval is in doubt that is wider than this share of its value.
const WIDE: f64 = 0.45;
/// The mean of where delays begin to rise, over what is available: within this, as bursts of others disturb it.
const KNEE: Range<f64> = 0.5..2.5;
/// Packet times of the link that the fast end of a chirp lasts, the sum of its gaps; and its rate over that time, in capacities.
const END: f64 = 13.0;
const MEAN: f64 = 1.9;
/// An excursion ends where the delay has fallen to its largest over this (F in the paper), and counts from so many packets
/// on (L).
const FALLEN: f64 = 1.5;
const LEAST_EXCURSION: usize = 5;

/// The method.
#[derive(Debug, Clone)]
pub struct Chirps {
    limits: Limits,
    bytes: u32,
    capacity: Capacity,
    known: Option<CapacityAnswer>,
    /// What other traffic took of the end of each chirp, bit/s.
    cross: Vec<f64>,
    /// The rates from which on delays rose, bit/s.
    knees: Vec<f64>,
    found: Option<Estimate>,
    rounds: usize,
    done: bool,
    host: bool,
}

impl Chirps {
    /// Measures, the capacity first.
    pub fn new(limits: Limits) -> Self {
        Chirps {
            limits,
            bytes: limits.mtu,
            capacity: Capacity::new(limits),
            known: None,
            cross: Vec::new(),
            knees: Vec::new(),
            found: None,
            rounds: 0,
            done: false,
            host: false,
        }
    }
}

impl Chirps {
    fn capacity_bps(&self) -> f64 {
        self.known.as_ref().and_then(|known| known.capacity_bps).map_or(0.0, |found| found.value)
    }
}

impl Method for Chirps {
    type Answer = AvailableAnswer;

    fn next(&mut self) -> Step {
        if self.known.is_none() {
            if let Step::Send(fleet) = self.capacity.next() {
                return Step::Send(fleet);
            }
            self.known = Some(self.capacity.answer());
        }
        let Some(capacity) = self.known.as_ref().and_then(|known| known.capacity_bps).filter(|_| !self.done)
        else {
            return Step::Done;
        };
        // From the slowest to the fastest.
        let packets = ((TO / FROM).ln() / GAMMA.ln()) as usize + 1;
        let train = Train::chirp(self.bytes, packets, FROM * capacity.value, GAMMA);
        let gap = Time(train.duration_ns() / 2 + 1_000_000);
        Step::Send(Fleet { trains: vec![train; CHIRPS], gap })
    }

    fn take(&mut self, seen: &[Seen]) {
        if self.known.is_none() {
            return self.capacity.take(seen);
        }
        self.host |= seen.iter().any(|seen| seen.host_drops > 0);
        self.rounds += 1;
        let capacity = self.capacity_bps();
        let margin = 2.0 * f64::from(self.bytes) * 8e9 / capacity + 2.0 * self.limits.resolution_ns;
        let is_bucket = self.known.as_ref().is_some_and(|known| known.bucket_bytes.is_some());
        for seen in seen.iter().filter(|seen| seen.lost() == 0) {
            let begins = if is_bucket { 0 } else { queue_begins(seen, margin) };
            let from = as_fast_as(seen, capacity).max(begins);
            self.cross.extend(cross_traffic(seen, capacity, from..seen.sent()));
            self.knees.extend(knee(seen, self.limits.resolution_ns));
        }
        self.found = estimate(&self.cross, GROUP);
        let is_good = self.found.is_some_and(|found| found.error <= ERROR * (capacity - found.value));
        self.done = is_good && self.rounds >= LEAST_ROUNDS || self.rounds >= ROUNDS;
    }

    fn answer(&self) -> AvailableAnswer {
        let mut doubts = Vec::new();
        let known = self.known.clone().unwrap_or_else(|| self.capacity.answer());
        if !known.validity.valid {
            doubts.extend(known.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        if known.bucket_bytes.is_some() {
            doubts.push("a token bucket lets chirps pass whatever is available: it may be less".into());
        }
        let found = self.found.zip(known.capacity_bps).map(|(cross, capacity)| {
            let value = (capacity.value - cross.value).clamp(0.0, capacity.value);
            let factor = MEAN - 1.0 + cross.value / capacity.value;
            Interval::left_of(capacity, value, cross.error, factor)
        });
        match found {
            None => doubts.push("no chirp arrived whole".into()),
            Some(found) => {
                if self.cross.len() * 10 < self.rounds * CHIRPS * 9 {
                    doubts.push(format!("only {} chirps arrived whole and on time", self.cross.len()));
                }
                if found.high - found.low > WIDE * found.value {
                    doubts.push("chirps differ: what is available varies".into());
                }
                if mean(&self.knees).is_some_and(|knee| !KNEE.contains(&(knee / found.value))) {
                    doubts.push("delays begin to rise at quite another rate".into());
                }
                let end_ns = f64::from(self.bytes) * 8e9 / self.capacity_bps() * END;
                if end_ns < 4.0 * self.limits.resolution_ns {
                    doubts.push("packets are closer together than time stamps can tell: use streams".into());
                }
            }
        }
        if self.host {
            doubts.push("a host dropped packets: it is what was measured".into());
        }
        AvailableAnswer {
            available_bps: found,
            varies_bps: self.found.map(|found| found.spread),
            packet_bytes: self.bytes,
            fleets: self.rounds,
            capacity: Some(known),
            validity: Validity::of(doubts, || format!("{} chirps agree", self.cross.len())),
        }
    }

    fn doing(&self) -> String {
        match self.known {
            None => format!("capacity first: {}", self.capacity.doing()),
            Some(_) => format!("{CHIRPS} chirps"),
        }
    }
}

/// The packet from which on a chirp is as fast as the link.
fn as_fast_as(seen: &Seen, capacity_bps: f64) -> usize {
    let gap = f64::from(seen.bytes) * 8e9 / capacity_bps;
    seen.sent_ns.windows(2).position(|pair| (pair[1] - pair[0]) as f64 <= gap).unwrap_or(seen.sent())
}

/// From which rate on the delays of one chirp rise, bit/s, as in the paper; `None` where packets are missing.
fn knee(seen: &Seen, resolution_ns: f64) -> Option<f64> {
    let all: Vec<_> = seen.received().collect();
    if all.len() < seen.sent() || all.len() < 2 * LEAST_EXCURSION {
        return None;
    }
    let delays: Vec<f64> = all.iter().map(|packet| packet.delay_ns()).collect();
    let gaps: Vec<f64> =
        all.windows(2).map(|pair| (pair[1].sent_ns - pair[0].sent_ns).max(1) as f64).collect();
    let rates: Vec<f64> = gaps.iter().map(|gap| f64::from(seen.bytes) * 8e9 / gap).collect();
    let last = gaps.len() - 1;
    let mut estimates: Vec<Option<f64>> = vec![None; gaps.len()];
    let mut otherwise = rates[last];
    let mut at = 0;
    while at < last {
        if delays[at + 1] <= delays[at] + resolution_ns {
            at += 1;
            continue;
        }
        let Some(end) = end_of_excursion(&delays, at) else {
            // It never falls again: from here on the queue grows.
            if delays.len() - at > LEAST_EXCURSION {
                otherwise = rates[at];
            }
            break;
        };
        if end - at >= LEAST_EXCURSION {
            for k in (at..end.min(gaps.len())).filter(|k| delays[k + 1] >= delays[*k]) {
                estimates[k] = Some(rates[k]);
            }
        }
        at = end.max(at + 1);
    }
    let weighted: f64 =
        estimates.iter().zip(&gaps).map(|(own, gap)| own.unwrap_or(otherwise).min(otherwise) * gap).sum();
    Some(weighted / gaps.iter().sum::<f64>())
}

/// Where the delay has fallen again that rises from `start` on; `None` where it does not.
fn end_of_excursion(delays: &[f64], start: usize) -> Option<usize> {
    let mut highest: f64 = 0.0;
    for (index, delay) in delays.iter().enumerate().skip(start + 1) {
        let above = delay - delays[start];
        highest = highest.max(above);
        if above < highest / FALLEN {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_grows_from_a_rate_on_shows_it() {
        // 20 Mb/s are available: beyond it each packet waits for the one before.
        let train = Train::chirp(1500, 40, 2e6, 1.1);
        let service = 1500.0 * 8e9 / 20e6;
        let mut free = 0f64;
        let sent_ns: Vec<i64> = train.at_ns.iter().map(|at| *at as i64).collect();
        let arrived_ns = sent_ns
            .iter()
            .map(|sent| {
                free = free.max(*sent as f64) + service;
                Some(free as i64)
            })
            .collect();
        let seen = Seen { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 };
        let found = knee(&seen, 100.0).unwrap();
        assert!((0.9..1.12).contains(&(found / 20e6)), "{found}");
        assert_eq!(knee(&Seen::default(), 100.0), None);
    }
}
