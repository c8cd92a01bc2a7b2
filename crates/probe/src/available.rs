//! Available bandwidth by self-loading streams, as pathload finds it (Jain and Dovrolis, IEEE/ACM ToN 11(4), 2003).
//!
//! A stream faster than what is available makes a queue that grows as long as it lasts, a slower one does not. Fleets of
//! streams are sent at one rate each; a fleet that rises lowers the upper bound, one that does not raises the lower, and one that
//! does both makes a grey region, whose edges are then searched. The answer is the range that is left.
//!
//! Departures from pathload 1.3.2:
//! 1. The search begins between nothing and the capacity, which is measured first, instead of doubling a rate.
//! 2. Streams last at least many times the resolution of the time stamps, with more packets instead of smaller ones.
//! 3. Cross traffic that varies within a fleet makes a grey region as wide as its variation: the middle is the mean.

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    capacity::{Capacity, CapacityAnswer, most_packets},
    train::{Fleet, Method, Seen, Step, Train},
    trend::{Trend, trend},
};

/// Packets of a stream: at least pathload's, and more where that takes no longer than `STREAM_NS`.
const STREAM: (usize, usize) = (100, 240);
const STREAM_NS: f64 = 100e6;
/// Streams of a fleet.
const STREAMS: usize = 12;
/// A stream lasts so many times the resolution, at least.
const LONGER: f64 = 400.0;
/// Of a fleet's usable streams so many must agree (pathload's 60 %).
const AGREE: f64 = 0.6;
/// Loss of a stream above which the fleet counts as too fast, and loss that half of all streams may not have (pathload).
const LOST: f64 = 0.15;
const LOST_OFTEN: f64 = 0.03;
/// The search ends where the range is within this share of the capacity; the same for the edges of a grey region.
const RANGE: f64 = 0.02;
const GREY_EDGE: f64 = 0.03;
/// Fleets at most.
const FLEETS: usize = 24;
/// Rests between streams, in durations of a stream: so that the queue of one has gone before the next.
const PAUSE: f64 = 2.0;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AvailableAnswer {
    /// bit/s of IP at `packet_bytes`.
    pub available_bps: Option<Interval>,
    /// Rates at which some streams had room and others had not, bit/s.
    pub grey_bps: Option<(f64, f64)>,
    /// Bytes of a probe, IP header included.
    pub packet_bytes: u32,
    /// Fleets of streams that were sent.
    pub fleets: usize,
    /// The capacity, which was measured first; not by chirps.
    pub capacity: Option<CapacityAnswer>,
    /// Whether to believe it.
    pub validity: Validity,
}

/// The method.
#[derive(Debug, Clone)]
pub struct Available {
    limits: Limits,
    bytes: u32,
    capacity: Capacity,
    known: Option<CapacityAnswer>,
    /// Rates below which there is room, and above which there is not, bit/s.
    low: f64,
    high: f64,
    grey: Option<(f64, f64)>,
    rate: f64,
    fleets: usize,
    unusable: usize,
    cut: bool,
    host: bool,
    done: bool,
}

impl Available {
    /// Measures, the capacity first.
    pub fn new(limits: Limits) -> Self {
        Available {
            limits,
            bytes: limits.mtu,
            capacity: Capacity::new(limits),
            known: None,
            low: 0.0,
            high: 0.0,
            grey: None,
            rate: 0.0,
            fleets: 0,
            unusable: 0,
            cut: false,
            host: false,
            done: false,
        }
    }

    /// Measures on a path of known capacity.
    pub fn with_capacity(limits: Limits, known: CapacityAnswer) -> Self {
        let mut own = Available::new(limits);
        own.begin(known);
        own
    }

    fn begin(&mut self, known: CapacityAnswer) {
        // A little above, so that an idle path is inside.
        let capacity = known.capacity_bps.map_or(0.0, |found| found.value);
        self.high = capacity * (1.0 + RANGE / 2.0);
        self.rate = capacity / 2.0;
        self.done = known.capacity_bps.is_none();
        self.known = Some(known);
    }

    fn capacity_bps(&self) -> f64 {
        self.high.max(self.known.as_ref().and_then(|k| k.capacity_bps).map_or(0.0, |found| found.value))
    }

    fn stream(&mut self) -> Train {
        let lasts = LONGER * self.limits.resolution_ns;
        let wanted = (lasts * self.rate / 8e9 / f64::from(self.bytes)) as usize;
        let most = most_packets(&self.limits, self.bytes);
        self.cut |= wanted > most;
        let handy = (STREAM_NS * self.rate / 8e9 / f64::from(self.bytes)) as usize;
        Train::paced(self.bytes, wanted.max(handy.clamp(STREAM.0, STREAM.1)).min(most), self.rate)
    }

    /// What a fleet says: too fast, not too fast, or neither.
    fn verdict(&mut self, seen: &[Seen]) -> Option<bool> {
        let loss = |seen: &Seen| seen.lost() as f64 / seen.sent().max(1) as f64;
        let often = seen.iter().filter(|seen| loss(seen) >= LOST_OFTEN).count();
        if seen.iter().any(|seen| loss(seen) >= LOST) || often * 2 >= seen.len() {
            return Some(true);
        }
        let trends: Vec<Trend> = seen.iter().map(|seen| trend(seen, self.limits.resolution_ns)).collect();
        let count = |which: Trend| trends.iter().filter(|trend| **trend == which).count() as f64;
        let usable = count(Trend::Rises) + count(Trend::Level);
        self.unusable += usize::from(usable < STREAMS as f64 / 2.0);
        if count(Trend::Rises) >= AGREE * trends.len() as f64 {
            Some(true)
        } else if count(Trend::Level) >= AGREE * trends.len() as f64 {
            Some(false)
        } else {
            None
        }
    }

    fn narrow(&mut self, verdict: Option<bool>) {
        match verdict {
            Some(true) => {
                self.high = self.rate;
                self.grey = self.grey.filter(|grey| grey.0 < self.rate).map(|(a, b)| (a, b.min(self.rate)));
            }
            Some(false) => {
                self.low = self.rate;
                self.grey = self.grey.filter(|grey| grey.1 > self.rate).map(|(a, b)| (a.max(self.rate), b));
            }
            None => {
                let (a, b) = self.grey.unwrap_or((self.rate, self.rate));
                self.grey = Some((a.min(self.rate), b.max(self.rate)));
            }
        }
        let capacity = self.capacity_bps();
        self.done = match self.grey {
            None => {
                self.rate = (self.low + self.high) / 2.0;
                self.high - self.low <= RANGE * capacity
            }
            Some((a, b)) if self.high - b > GREY_EDGE * capacity => {
                self.rate = (b + self.high) / 2.0;
                a.is_nan()
            }
            Some((a, _)) => {
                self.rate = (self.low + a) / 2.0;
                a - self.low <= GREY_EDGE * capacity
            }
        } || self.fleets >= FLEETS;
    }
}

impl Method for Available {
    type Answer = AvailableAnswer;

    fn next(&mut self) -> Step {
        if self.known.is_none() {
            if let Step::Send(fleet) = self.capacity.next() {
                return Step::Send(fleet);
            }
            let known = self.capacity.answer();
            self.begin(known);
        }
        if self.done {
            return Step::Done;
        }
        let stream = self.stream();
        let gap = Time((stream.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Step::Send(Fleet { trains: vec![stream; STREAMS], gap })
    }

    fn take(&mut self, seen: &[Seen]) {
        if self.known.is_none() {
            return self.capacity.take(seen);
        }
        self.host |= seen.iter().any(|seen| seen.host_drops > 0);
        self.fleets += 1;
        let verdict = self.verdict(seen);
        self.narrow(verdict);
    }

    fn answer(&self) -> AvailableAnswer {
        let mut doubts = Vec::new();
        let known = self.known.clone().unwrap_or_else(|| self.capacity.answer());
        if !known.validity.valid {
            doubts.extend(known.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        let capacity = self.capacity_bps();
        let range = (self.fleets > 0 && capacity > 0.0).then(|| {
            let middle = (self.low + self.high) / 2.0;
            let most = known.capacity_bps.map_or(f64::INFINITY, |found| found.value);
            Interval { low: self.low, value: middle.min(most), high: self.high.min(most.max(self.low)) }
        });
        match range {
            None => doubts.push("no stream arrived".into()),
            Some(range) if range.high - range.low > 0.2 * range.value => {
                doubts.push("streams of one rate had room at some times and none at others: it varies within this range".into());
            }
            Some(_) => {}
        }
        if known.bucket_bytes.is_some() {
            doubts
                .push("a token bucket lets short streams pass whatever is available: it may be less".into());
        }
        if self.fleets >= FLEETS {
            doubts.push("the search did not come to an end".into());
        }
        if self.unusable > 0 {
            doubts.push("half of a fleet's streams showed neither".into());
        }
        if self.cut {
            doubts.push("streams were too short for the time stamps: allow a higher rate".into());
        }
        if self.host {
            doubts.push("a host dropped packets: it is what was measured".into());
        }
        AvailableAnswer {
            available_bps: range,
            grey_bps: self.grey,
            packet_bytes: self.bytes,
            fleets: self.fleets,
            capacity: Some(known),
            validity: Validity::of(doubts, || format!("{} fleets of {STREAMS} streams agree", self.fleets)),
        }
    }

    fn doing(&self) -> String {
        match self.known {
            None => format!("capacity first: {}", self.capacity.doing()),
            Some(_) => format!(
                "streams at {:.3} Mb/s; between {:.3} and {:.3} so far",
                self.rate / 1e6,
                self.low / 1e6,
                self.high / 1e6
            ),
        }
    }
}
