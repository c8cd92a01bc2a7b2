//! Available bandwidth by self-loading streams.
//!
//! 1. The capacity C is measured first.
//! 2. Streams a little faster than C keep the link busy, and what they take longer than alone is other traffic's (`cross.rs`):
//!    C less that is the estimate.
//! 3. Two fleets confirm it, as pathload does (Jain and Dovrolis, IEEE/ACM ToN 11(4), 2003): a stream faster than what is
//!    available makes a queue that grows as long as it lasts, a slower one does not. So streams somewhat below the estimate must not rise,
//!    and streams somewhat above it must.
//! 4. Where they say otherwise pathload's whole search is made, and the answer is the range that it leaves, in doubt: another link than the
//!    narrowest one has the least to give, or traffic changes faster than streams can tell.
//!
//! Departures from pathload 1.3.2:
//! 1. The search begins between nothing and the capacity, instead of doubling a rate, and only where the estimate was not confirmed.
//! 2. Streams last at least many times the resolution of the time stamps, with more packets instead of smaller ones.
//! 3. Cross traffic that varies within a fleet makes a grey region as wide as its variation: the middle is the mean.
//!
//! Behind a token bucket streams first take what the bucket holds; only what comes after counts, and nothing confirms it.

mod doubts;

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    capacity::{Capacity, CapacityAnswer, most_packets},
    cross::{Estimate, cross_traffic, estimate, first_loss, queue_begins, tokens_left},
    search::{Search, Verdict},
    statistics::{median, quantile},
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
/// The rate of streams that keep the link busy, in capacities; twice where they must empty a bucket first.
const BUSY: f64 = 1.1;
const BUSY_BUCKET: f64 = 2.0;
/// The rate of the slower streams to a policer.
const BUSY_POLICED: f64 = 1.3;
/// Of a stream behind a bucket so many times what it holds is sent, so that its later half comes after it.
const BUCKETS: f64 = 6.0;
/// Of the streams so many may lose packets within what is looked at.
const EARLY: f64 = 0.2;
/// The estimate is good where its standard error is within this share of what is available, and of the capacity; fleets for it
/// at most.
const ERROR: f64 = 0.02;
const LEAST_ERROR: f64 = 0.005;
const DIRECT_FLEETS: usize = 5;
/// Streams that confirm the estimate are so many standard errors off, and at least this share of the capacity.
const EDGE: f64 = 2.5;
const LEAST_EDGE: f64 = 0.06;
/// Of a fleet's usable streams so many must agree (pathload's 60 %).
const AGREE: f64 = 0.6;
/// Loss of a stream above which the fleet counts as too fast, and loss that half of all streams may not have (pathload).
const LOST: f64 = 0.15;
const LOST_OFTEN: f64 = 0.03;
/// Rests between streams, in durations of a stream: so that the queue of one has gone before the next.
const PAUSE: f64 = 2.0;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AvailableAnswer {
    /// bit/s of IP at `packet_bytes`.
    pub available_bps: Option<Interval>,
    /// How it differs from stream to stream: a standard deviation, bit/s.
    pub varies_bps: Option<f64>,
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
    phase: Phase,
    /// The busy streams, and what other traffic took while each passed, bit/s.
    busy: Vec<Seen>,
    /// Slower streams to a policer.
    slow: Vec<Seen>,
    cross: Vec<f64>,
    /// Packets of a busy stream, where more make a queue overflow.
    shorter: Option<usize>,
    found: Option<Estimate>,
    search: Option<Search>,
    fleets: usize,
    unusable: usize,
    cut: bool,
    host: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Capacity,
    /// Streams that keep the link busy.
    Direct,
    /// Slower streams, where a policer drops and never delays.
    Policed,
    /// Streams at this rate, bit/s, below the estimate; then above.
    Below(f64),
    Above(f64),
    /// What the estimate says is not so.
    Search,
    Done,
}

impl Available {
    /// Measures, the capacity first.
    pub fn new(limits: Limits) -> Self {
        Available {
            limits,
            bytes: limits.mtu,
            capacity: Capacity::new(limits),
            known: None,
            phase: Phase::Capacity,
            busy: Vec::new(),
            slow: Vec::new(),
            cross: Vec::new(),
            shorter: None,
            found: None,
            search: None,
            fleets: 0,
            unusable: 0,
            cut: false,
            host: false,
        }
    }

    /// Measures on a path of known capacity.
    pub fn with_capacity(limits: Limits, known: CapacityAnswer) -> Self {
        let mut own = Available::new(limits);
        own.begin(known);
        own
    }

    fn begin(&mut self, known: CapacityAnswer) {
        self.phase = if known.capacity_bps.is_some() { Phase::Direct } else { Phase::Done };
        self.known = Some(known);
    }

    fn capacity_bps(&self) -> f64 {
        self.known.as_ref().and_then(|known| known.capacity_bps).map_or(0.0, |found| found.value)
    }

    /// What a token bucket lets pass at once, bytes.
    fn bucket_bytes(&self) -> Option<f64> {
        self.known.as_ref().and_then(|known| known.bucket_bytes)
    }

    fn stream(&mut self) -> Train {
        let rate = match self.phase {
            Phase::Direct if self.bucket_bytes().is_some() => BUSY_BUCKET * self.capacity_bps(),
            Phase::Direct => BUSY * self.capacity_bps(),
            Phase::Policed => BUSY_POLICED * self.capacity_bps(),
            Phase::Below(rate) | Phase::Above(rate) => rate,
            Phase::Search => self.search.map_or(0.0, |search| search.rate),
            Phase::Capacity | Phase::Done => 0.0,
        };
        let in_time = |ns: f64| (ns * rate / 8e9 / f64::from(self.bytes)) as usize;
        let behind = self.bucket_bytes().map_or(0.0, |bucket| BUCKETS * bucket / f64::from(self.bytes));
        let wanted = in_time(LONGER * self.limits.resolution_ns).max(behind as usize);
        let most = most_packets(&self.limits, self.bytes);
        self.cut |= wanted > most;
        let handy = in_time(STREAM_NS).clamp(STREAM.0, STREAM.1);
        if let (Phase::Direct, Some(shorter)) = (self.phase, self.shorter) {
            return Train::paced(self.bytes, shorter.min(most), rate);
        }
        Train::paced(self.bytes, wanted.max(handy).min(most), rate)
    }

    /// What a fleet says.
    fn verdict(&mut self, seen: &[Seen]) -> Verdict {
        let often = seen.iter().filter(|seen| loss(seen) >= LOST_OFTEN).count();
        if seen.iter().any(|seen| loss(seen) >= LOST) || often * 2 >= seen.len() {
            return Verdict::TooFast;
        }
        let trends: Vec<Trend> = seen.iter().map(|seen| trend(seen, self.limits.resolution_ns)).collect();
        let count = |which: Trend| trends.iter().filter(|trend| **trend == which).count() as f64;
        let usable = count(Trend::Rises) + count(Trend::Level);
        self.unusable += usize::from(usable < STREAMS as f64 / 2.0);
        if count(Trend::Rises) >= AGREE * trends.len() as f64 {
            Verdict::TooFast
        } else if count(Trend::Level) >= AGREE * trends.len() as f64 {
            Verdict::HasRoom
        } else {
            Verdict::Grey
        }
    }

    fn direct(&mut self, seen: &[Seen]) {
        self.busy.extend_from_slice(seen);
        self.cross = self.cross_traffic();
        let group = self.shorter.map_or(1, |packets| STREAM.0.div_ceil(packets.max(1)));
        self.found = estimate(&self.cross, group);
        let enough = if self.shorter.is_some() { 2 * DIRECT_FLEETS } else { DIRECT_FLEETS };
        let capacity = self.capacity_bps();
        let Some(cross) = self.found else {
            match self.bucket_bytes() {
                Some(_) if self.is_policed() => self.phase = Phase::Policed,
                Some(_) => self.phase = Phase::Done,
                None if self.fleets >= enough => self.search_all(),
                None => {}
            }
            return;
        };
        let left = self.left(cross);
        let is_good =
            cross.error <= (ERROR * left).max(LEAST_ERROR * capacity) && self.cross.len() >= STREAMS;
        if !is_good && self.fleets < enough {
            return;
        }
        self.phase = match left - self.edge(cross) {
            _ if self.bucket_bytes().is_some() => Phase::Done,
            below if below > LEAST_EDGE * capacity => Phase::Below(below),
            _ => self.above(),
        };
    }

    /// What other traffic took of each busy stream, as long as the streams fill the queue and do not yet make it overflow: then the
    /// regular stream and the irregular others no longer lose alike.
    fn cross_traffic(&mut self) -> Vec<f64> {
        let first_losses: Vec<f64> = self.busy.iter().map(|seen| first_loss(seen) as f64).collect();
        let end = quantile(&first_losses, EARLY).unwrap_or(0.0) as usize;
        if self.busy.iter().any(|seen| first_loss(seen) < seen.sent()) && self.bucket_bytes().is_none() {
            self.shorter = Some(end * 5 / 4 + 8);
        }
        let capacity = self.capacity_bps();
        let margin = 2.0 * f64::from(self.bytes) * 8e9 / capacity + 2.0 * self.limits.resolution_ns;
        let is_bucket = self.bucket_bytes().is_some();
        let within = |seen: &Seen| {
            let until = if is_bucket { first_loss(seen) } else { end.min(seen.sent()) };
            // A bucket of a few packets is too small to be noticed, and in short streams too large to be left out.
            let from = if is_bucket || self.shorter.is_some() { queue_begins(seen, margin) } else { 0 };
            from.min(until)..until
        };
        self.busy.iter().filter_map(|seen| cross_traffic(seen, capacity, within(seen))).collect()
    }

    /// To the streams that must rise; an idle path has none, for they would be the busy ones.
    fn above(&self) -> Phase {
        let capacity = self.capacity_bps();
        let Some(cross) = self.found else { return Phase::Done };
        let above = self.left(cross) + self.edge(cross);
        if above < capacity { Phase::Above(above) } else { Phase::Done }
    }

    /// What other traffic leaves of the capacity, bit/s.
    fn left(&self, cross: Estimate) -> f64 {
        let capacity = self.capacity_bps();
        (capacity - cross.value).clamp(0.0, capacity)
    }

    /// How far streams that confirm it are off, bit/s.
    fn edge(&self, cross: Estimate) -> f64 {
        (EDGE * cross.error).max(LEAST_EDGE * self.capacity_bps())
    }

    fn search_all(&mut self) {
        self.search = Some(Search::below(self.capacity_bps()));
        self.phase = Phase::Search;
    }

    /// The range, bit/s: of the search where it had to be made, else what the busy streams say.
    fn range(&self) -> Option<Interval> {
        let most = self.known.as_ref()?.capacity_bps?;
        if let Some(search) = self.search {
            let middle = (search.low + search.high) / 2.0;
            let high = search.high.min(most.value.max(search.low));
            return Some(Interval { low: search.low, value: middle.min(most.value), high });
        }
        let cross = self.found?;
        let value = self.left(cross);
        // A = C - X with X = C a - R, where a train at R takes a = (R + X) / C times as long: what C is off by counts a - 1 times.
        let busy = if self.bucket_bytes().is_some() { BUSY_BUCKET } else { BUSY };
        let factor = busy - 1.0 + cross.value / most.value;
        Some(Interval::left_of(most, value, cross.error, factor))
    }

    /// Slower streams to a policer: others' tokens are missing sooner than the stream's alone would be.
    fn policed(&mut self, seen: &[Seen]) {
        self.slow.extend_from_slice(seen);
        self.phase = Phase::Done;
        let times = |streams: &[Seen]| streams.iter().filter_map(time_to_loss).collect::<Vec<_>>();
        let rate = |streams: &[Seen]| median(&streams.iter().filter_map(Seen::sent_bps).collect::<Vec<_>>());
        let (Some(fast), Some(slow)) = (rate(&self.busy), rate(&self.slow)) else { return };
        let capacity = self.capacity_bps();
        let left = tokens_left((fast, &times(&self.busy)), (slow, &times(&self.slow)));
        self.found = left.map(|(left, _)| Estimate { value: (capacity - left.value).max(0.0), ..left });
        let is_good = left.is_some_and(|(left, _)| left.error < 2.0 * ERROR * left.value);
        if !is_good && !self.is_regular() && self.fleets < 2 * DIRECT_FLEETS {
            self.phase = Phase::Direct;
        }
    }
}

/// From the first packet to the first that was lost, ns.
fn time_to_loss(seen: &Seen) -> Option<f64> {
    Some((seen.sent_ns.get(first_loss(seen))? - seen.sent_ns.first()?) as f64)
}

fn loss(seen: &Seen) -> f64 {
    seen.lost() as f64 / seen.sent().max(1) as f64
}

impl Method for Available {
    type Answer = AvailableAnswer;

    fn next(&mut self) -> Step {
        if self.phase == Phase::Capacity {
            if let Step::Send(fleet) = self.capacity.next() {
                return Step::Send(fleet);
            }
            let known = self.capacity.answer();
            self.begin(known);
        }
        if self.phase == Phase::Done {
            return Step::Done;
        }
        let stream = self.stream();
        let gap = Time((stream.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Step::Send(Fleet { trains: vec![stream; STREAMS], gap })
    }

    fn take(&mut self, seen: &[Seen]) {
        if self.phase == Phase::Capacity {
            return self.capacity.take(seen);
        }
        self.host |= seen.iter().any(|seen| seen.host_drops > 0);
        self.fleets += 1;
        match self.phase {
            Phase::Capacity | Phase::Done => {}
            Phase::Policed => self.policed(seen),
            Phase::Direct => self.direct(seen),
            Phase::Below(_) => match self.verdict(seen) {
                Verdict::TooFast => self.search_all(),
                Verdict::HasRoom | Verdict::Grey => self.phase = self.above(),
            },
            Phase::Above(_) => match self.verdict(seen) {
                Verdict::HasRoom => self.search_all(),
                Verdict::TooFast | Verdict::Grey => self.phase = Phase::Done,
            },
            Phase::Search => {
                let verdict = self.verdict(seen);
                if let Some(search) = &mut self.search {
                    search.narrow(verdict);
                    if search.is_done() {
                        self.phase = Phase::Done;
                    }
                }
            }
        }
    }

    fn answer(&self) -> AvailableAnswer {
        let known = self.known.clone().unwrap_or_else(|| self.capacity.answer());
        let range = self.range();
        let doubts = self.doubts(&known, range);
        AvailableAnswer {
            available_bps: range,
            varies_bps: self.found.map(|found| found.spread),
            packet_bytes: self.bytes,
            fleets: self.fleets,
            capacity: Some(known),
            validity: Validity::of(doubts, || match self.bucket_bytes() {
                Some(_) if self.is_policed() => {
                    format!(
                        "{} streams agree on the tokens that others leave",
                        self.busy.len() + self.slow.len()
                    )
                }
                Some(_) => format!("{} streams agree on what comes after a token bucket", self.cross.len()),
                None => format!("{} streams agree, and slower and faster ones confirm it", self.cross.len()),
            }),
        }
    }

    fn doing(&self) -> String {
        match self.phase {
            Phase::Capacity => format!("capacity first: {}", self.capacity.doing()),
            Phase::Direct => "streams as fast as the link, to see what others take of it".into(),
            Phase::Policed => "slower streams, to see how soon a policer drops of them".into(),
            Phase::Below(rate) => {
                format!("streams at {:.3} Mb/s, for which there should be room", rate / 1e6)
            }
            Phase::Above(rate) => {
                format!("streams at {:.3} Mb/s, for which there should be none", rate / 1e6)
            }
            Phase::Search => self.search.map_or(String::new(), |search| {
                format!(
                    "streams at {:.3} Mb/s; between {:.3} and {:.3} so far",
                    search.rate / 1e6,
                    search.low / 1e6,
                    search.high / 1e6
                )
            }),
            Phase::Done => "done".into(),
        }
    }
}
