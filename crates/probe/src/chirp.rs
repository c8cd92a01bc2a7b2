//! Available bandwidth by chirps, as pathChirp finds it (Ribeiro et al., PAM 2003): packets ever closer together pass through all
//! rates in one train, and the queue begins to grow where the rate exceeds what is available.
//!
//! Only differences of delays count, so clocks need not agree; a tenth of the packets of streams, and less exact. Departure: the
//! capacity is measured first, which says through which rates to pass, and whether there is a token bucket, behind which chirps see
//! nothing.

use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    available::AvailableAnswer,
    capacity::{Capacity, CapacityAnswer},
    statistics::{mean, quantile},
    train::{Fleet, Method, Seen, Step, Train},
};

/// Each gap is shorter than the one before by this factor (1.2 in the paper).
const GAMMA: f64 = 1.06;
/// Slowest and fastest rate, of the capacity.
const FROM: f64 = 0.05;
const TO: f64 = 1.5;
/// Chirps.
const CHIRPS: usize = 60;
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
    estimates: Vec<f64>,
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
            estimates: Vec::new(),
            done: false,
            host: false,
        }
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
        self.estimates = seen.iter().filter_map(|seen| estimate(seen, self.limits.resolution_ns)).collect();
        self.done = true;
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
        // The mean of chirps is the paper's; the interval is that of most of them.
        let most = known.capacity_bps.map_or(f64::INFINITY, |found| found.high);
        let found = mean(&self.estimates).map(|value| value.min(most)).and_then(|value| {
            let (low, high) = (quantile(&self.estimates, 0.1)?, quantile(&self.estimates, 0.9)?);
            Some(Interval { low: low.min(value), value, high: high.max(value) })
        });
        match found {
            None => doubts.push("no chirp arrived whole".into()),
            Some(found) => {
                if self.estimates.len() < CHIRPS / 2 {
                    doubts.push(format!("only {} chirps arrived whole", self.estimates.len()));
                }
                if found.high - found.low > 0.5 * found.value {
                    doubts.push(
                        "chirps differ: what is available varies, or packets were not sent on time".into(),
                    );
                }
                if f64::from(self.bytes) * 8e9 / found.value < 2.0 * self.limits.resolution_ns {
                    doubts.push("packets are closer together than time stamps can tell: use streams".into());
                }
            }
        }
        if self.host {
            doubts.push("a host dropped packets: it is what was measured".into());
        }
        AvailableAnswer {
            available_bps: found,
            varies_bps: None,
            packet_bytes: self.bytes,
            fleets: usize::from(self.done),
            capacity: Some(known),
            validity: Validity::of(doubts, || format!("{} chirps agree", self.estimates.len())),
        }
    }

    fn doing(&self) -> String {
        match self.known {
            None => format!("capacity first: {}", self.capacity.doing()),
            Some(_) => format!("{CHIRPS} chirps"),
        }
    }
}

/// What one chirp says, bit/s; `None` where packets are missing.
fn estimate(seen: &Seen, resolution_ns: f64) -> Option<f64> {
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
        let found = estimate(&seen, 100.0).unwrap();
        assert!((0.9..1.12).contains(&(found / 20e6)), "{found}");
        assert_eq!(estimate(&Seen::default(), 100.0), None);
    }
}
