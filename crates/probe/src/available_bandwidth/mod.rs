//! Available bandwidth by self-loading streams.
//!
//! 1. The capacity C is measured first.
//! 2. Streams slightly faster than C keep the link busy. Their additional duration is due to cross traffic
//!    (`cross_traffic.rs`): the estimate is C minus the cross traffic.
//! 3. Two fleets confirm it, as in pathload (Jain and Dovrolis, IEEE/ACM ToN 11(4), 2003): a stream faster
//!    than the available bandwidth causes a queue that grows as long as the stream lasts, a slower one does
//!    not. So delays must not increase in streams slightly below the estimate, and must increase in streams
//!    slightly above it.
//! 4. If they do not confirm it, pathload's whole search follows. Its range is the result, with a warning:
//!    another link than the narrowest one has less available bandwidth, or cross traffic changes too fast for
//!    streams.
//!
//! Differences from pathload 1.3.2:
//! 1. The search begins between zero and the capacity, instead of doubling a rate, and only if the estimate
//!    was not confirmed.
//! 2. Streams last many times the resolution of the timestamps, with more packets instead of
//!    smaller ones.
//! 3. Cross traffic that varies within a fleet causes a grey region as wide as its variation: the middle is
//!    the mean.
//!
//! After a token bucket streams first take the bucket's tokens; only later packets count, and there is no
//! confirmation.

mod warnings;

use serde::Serialize;
use units::Time;

use crate::{
    capacity::{Capacity, CapacityResult, max_packets},
    cross_traffic::{
        CrossTrafficEstimate, cross_traffic_bps, estimate, estimate_tokens, first_loss, queue_start,
    },
    rate_search::{FleetVerdict, RateSearch},
    result::{Interval, ProbeLimits, Validity},
    statistics::{median, quantile},
    train::{Fleet, Method, Step, Train, TrainObservation},
    trend::{Trend, delay_trend},
};

/// Minimum number of packets of a stream (pathload's).
const MIN_STREAM_PACKETS: usize = 100;
/// Maximum number of packets of a stream that lasts at most `STREAM_NS`.
const MAX_STREAM_PACKETS: usize = 240;
/// Target duration of a stream, ns.
const STREAM_NS: f64 = 100e6;
/// Number of streams of a fleet.
const STREAMS: usize = 12;
/// Minimum duration of a stream, in units of the resolution.
const MIN_STREAM_RESOLUTIONS: f64 = 400.0;
/// Rate of streams that keep the link busy, as a multiple of the capacity.
const BUSY_RATE: f64 = 1.1;
/// The rate of these streams if they must empty a token bucket first.
const BUSY_RATE_WITH_BUCKET: f64 = 2.0;
/// Rate of the slower streams to a policer, as a fraction of the capacity.
const SLOW_POLICED_RATE: f64 = 1.3;
/// Minimum size of a stream after a token bucket, as a multiple of the bucket's size, so that its later half
/// passes after the bucket is empty.
const MIN_STREAM_BUCKETS: f64 = 6.0;
/// Maximum share of streams with losses within the evaluated packets.
const MAX_EARLY_LOSS_SHARE: f64 = 0.2;
/// Target of the estimate's standard error, as a fraction of the available bandwidth;
/// [`TARGET_ERROR_OF_CAPACITY`] if that is larger.
const TARGET_ERROR: f64 = 0.02;
/// Target of the estimate's standard error, as a fraction of the capacity.
const TARGET_ERROR_OF_CAPACITY: f64 = 0.005;
/// Maximum number of fleets of busy streams.
const MAX_BUSY_FLEETS: usize = 5;
/// Distance between the estimate and the rates of streams that confirm it, in standard errors; at least
/// [`MIN_CONFIRMATION_DISTANCE`].
const CONFIRMATION_ERRORS: f64 = 2.5;
/// Minimum distance between the estimate and the rates of streams that confirm it, as a fraction of the
/// capacity.
const MIN_CONFIRMATION_DISTANCE: f64 = 0.06;
/// Minimum share of a fleet's streams that must agree (pathload's 60 %).
const MIN_AGREEMENT: f64 = 0.6;
/// Loss of one stream at which the fleet counts as too fast (pathload).
const MAX_LOSS: f64 = 0.15;
/// Loss of half of all streams at which the fleet counts as too fast (pathload).
const MAX_FREQUENT_LOSS: f64 = 0.03;
/// Pause between streams, as a multiple of a stream's duration, so that the queue of one drains before the
/// next.
const PAUSE: f64 = 2.0;

/// The result of a measurement of the available bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AvailableBandwidthResult {
    /// Available bandwidth, bit/s of IP at `packet_bytes`.
    pub available_bps: Option<Interval>,
    /// Standard deviation between streams, bit/s.
    pub varies_bps: Option<f64>,
    /// Size of a probe, bytes, IP header included.
    pub packet_bytes: u32,
    /// Number of fleets of streams (or chirps) sent.
    pub fleets: usize,
    /// The capacity, which was measured first.
    pub capacity: Option<CapacityResult>,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// The measurement method.
#[derive(Debug, Clone)]
pub struct AvailableBandwidth {
    limits: ProbeLimits,
    bytes: u32,
    capacity: Capacity,
    capacity_result: Option<CapacityResult>,
    phase: AvailableBandwidthPhase,
    /// Streams that keep the link busy.
    busy_streams: Vec<TrainObservation>,
    /// Slower streams to a policer.
    slow_streams: Vec<TrainObservation>,
    /// Rate of cross traffic during each usable busy stream, bit/s.
    cross_bps: Vec<f64>,
    /// Number of packets of a busy stream, if longer ones overflow a queue.
    short_stream_packets: Option<usize>,
    cross_estimate: Option<CrossTrafficEstimate>,
    search: Option<RateSearch>,
    fleets: usize,
    inconclusive_fleets: usize,
    are_streams_too_short: bool,
    has_host_drops: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum AvailableBandwidthPhase {
    Capacity,
    /// Streams that keep the link busy.
    Busy,
    /// Slower streams to a policer, which drops packets and never delays them.
    Policed,
    /// Streams at this rate, bit/s, below the estimate, whose delays must not increase.
    Below(f64),
    /// Streams at this rate, bit/s, above the estimate, whose delays must increase.
    Above(f64),
    /// Pathload's search, because the estimate was not confirmed.
    Search,
    Done,
}

impl AvailableBandwidth {
    /// A measurement of the capacity and then of the available bandwidth.
    pub fn new(limits: ProbeLimits) -> Self {
        AvailableBandwidth {
            limits,
            bytes: limits.mtu,
            capacity: Capacity::new(limits),
            capacity_result: None,
            phase: AvailableBandwidthPhase::Capacity,
            busy_streams: Vec::new(),
            slow_streams: Vec::new(),
            cross_bps: Vec::new(),
            short_stream_packets: None,
            cross_estimate: None,
            search: None,
            fleets: 0,
            inconclusive_fleets: 0,
            are_streams_too_short: false,
            has_host_drops: false,
        }
    }

    /// A measurement on a path of known capacity.
    pub fn with_capacity(limits: ProbeLimits, capacity: CapacityResult) -> Self {
        let mut measurement = AvailableBandwidth::new(limits);
        measurement.begin(capacity);
        measurement
    }

    fn begin(&mut self, capacity: CapacityResult) {
        self.phase = if capacity.capacity_bps.is_some() {
            AvailableBandwidthPhase::Busy
        } else {
            AvailableBandwidthPhase::Done
        };
        self.capacity_result = Some(capacity);
    }

    fn capacity_bps(&self) -> f64 {
        self.capacity_result
            .as_ref()
            .and_then(|known| known.capacity_bps)
            .map_or(0.0, |capacity| capacity.value)
    }

    /// Size of the token bucket, bytes, if there is one.
    fn bucket_bytes(&self) -> Option<f64> {
        self.capacity_result.as_ref().and_then(|known| known.bucket_bytes)
    }

    fn next_stream(&mut self) -> Train {
        let rate = match self.phase {
            AvailableBandwidthPhase::Busy if self.bucket_bytes().is_some() => {
                BUSY_RATE_WITH_BUCKET * self.capacity_bps()
            }
            AvailableBandwidthPhase::Busy => BUSY_RATE * self.capacity_bps(),
            AvailableBandwidthPhase::Policed => SLOW_POLICED_RATE * self.capacity_bps(),
            AvailableBandwidthPhase::Below(rate) | AvailableBandwidthPhase::Above(rate) => rate,
            AvailableBandwidthPhase::Search => self.search.map_or(0.0, |search| search.rate),
            AvailableBandwidthPhase::Capacity | AvailableBandwidthPhase::Done => 0.0,
        };
        let packets_in = |ns: f64| (ns * rate / 8e9 / f64::from(self.bytes)) as usize;
        let bucket_packets =
            self.bucket_bytes().map_or(0.0, |bucket| MIN_STREAM_BUCKETS * bucket / f64::from(self.bytes));
        let required =
            packets_in(MIN_STREAM_RESOLUTIONS * self.limits.resolution_ns).max(bucket_packets as usize);
        let max = max_packets(&self.limits, self.bytes);
        self.are_streams_too_short |= required > max;
        let default_packets = packets_in(STREAM_NS).clamp(MIN_STREAM_PACKETS, MAX_STREAM_PACKETS);
        if let (AvailableBandwidthPhase::Busy, Some(packets)) = (self.phase, self.short_stream_packets) {
            return Train::paced(self.bytes, packets.min(max), rate);
        }
        Train::paced(self.bytes, required.max(default_packets).min(max), rate)
    }

    /// The verdict of a fleet.
    fn verdict(&mut self, observations: &[TrainObservation]) -> FleetVerdict {
        let lossy =
            observations.iter().filter(|observation| loss_rate(observation) >= MAX_FREQUENT_LOSS).count();
        if observations.iter().any(|observation| loss_rate(observation) >= MAX_LOSS)
            || lossy * 2 >= observations.len()
        {
            return FleetVerdict::TooFast;
        }
        let trends: Vec<Trend> = observations
            .iter()
            .map(|observation| delay_trend(observation, self.limits.resolution_ns))
            .collect();
        let count = |which: Trend| trends.iter().filter(|trend| **trend == which).count() as f64;
        let conclusive = count(Trend::Increasing) + count(Trend::Level);
        self.inconclusive_fleets += usize::from(conclusive < STREAMS as f64 / 2.0);
        if count(Trend::Increasing) >= MIN_AGREEMENT * trends.len() as f64 {
            FleetVerdict::TooFast
        } else if count(Trend::Level) >= MIN_AGREEMENT * trends.len() as f64 {
            FleetVerdict::Available
        } else {
            FleetVerdict::Inconclusive
        }
    }

    fn add_busy_streams(&mut self, observations: &[TrainObservation]) {
        self.busy_streams.extend_from_slice(observations);
        self.cross_bps = self.cross_traffic_rates();
        let group =
            self.short_stream_packets.map_or(1, |packets| MIN_STREAM_PACKETS.div_ceil(packets.max(1)));
        self.cross_estimate = estimate(&self.cross_bps, group);
        let max_fleets =
            if self.short_stream_packets.is_some() { 2 * MAX_BUSY_FLEETS } else { MAX_BUSY_FLEETS };
        let capacity = self.capacity_bps();
        let Some(cross) = self.cross_estimate else {
            match self.bucket_bytes() {
                Some(_) if self.is_policed() => self.phase = AvailableBandwidthPhase::Policed,
                Some(_) => self.phase = AvailableBandwidthPhase::Done,
                None if self.fleets >= max_fleets => self.begin_search(),
                None => {}
            }
            return;
        };
        let available = self.available_bps(cross);
        let is_good = cross.error <= (TARGET_ERROR * available).max(TARGET_ERROR_OF_CAPACITY * capacity)
            && self.cross_bps.len() >= STREAMS;
        if !is_good && self.fleets < max_fleets {
            return;
        }
        self.phase = match available - self.confirmation_distance_bps(cross) {
            _ if self.bucket_bytes().is_some() => AvailableBandwidthPhase::Done,
            below if below > MIN_CONFIRMATION_DISTANCE * capacity => AvailableBandwidthPhase::Below(below),
            _ => self.phase_above(),
        };
    }

    /// The rate of cross traffic during each busy stream, while the streams fill the queue and do not yet
    /// overflow it. In a full queue the regular stream and irregular cross traffic lose different shares.
    fn cross_traffic_rates(&mut self) -> Vec<f64> {
        let first_losses: Vec<f64> =
            self.busy_streams.iter().map(|observation| first_loss(observation) as f64).collect();
        let end = quantile(&first_losses, MAX_EARLY_LOSS_SHARE).unwrap_or(0.0) as usize;
        if self.busy_streams.iter().any(|observation| first_loss(observation) < observation.sent())
            && self.bucket_bytes().is_none()
        {
            self.short_stream_packets = Some(end * 5 / 4 + 8);
        }
        let capacity = self.capacity_bps();
        let margin = 2.0 * f64::from(self.bytes) * 8e9 / capacity + 2.0 * self.limits.resolution_ns;
        let is_bucket = self.bucket_bytes().is_some();
        let within = |observation: &TrainObservation| {
            let until = if is_bucket { first_loss(observation) } else { end.min(observation.sent()) };
            // A bucket of a few packets may be too small to be detected, but is significant for short
            // streams.
            let from = if is_bucket || self.short_stream_packets.is_some() {
                queue_start(observation, margin)
            } else {
                0
            };
            from.min(until)..until
        };
        self.busy_streams
            .iter()
            .filter_map(|observation| cross_traffic_bps(observation, capacity, within(observation)))
            .collect()
    }

    /// The phase of streams above the estimate. On an idle path there is none, because they would be the busy
    /// streams.
    fn phase_above(&self) -> AvailableBandwidthPhase {
        let capacity = self.capacity_bps();
        let Some(cross) = self.cross_estimate else { return AvailableBandwidthPhase::Done };
        let above = self.available_bps(cross) + self.confirmation_distance_bps(cross);
        if above < capacity { AvailableBandwidthPhase::Above(above) } else { AvailableBandwidthPhase::Done }
    }

    /// The capacity minus cross traffic, bit/s.
    fn available_bps(&self, cross: CrossTrafficEstimate) -> f64 {
        let capacity = self.capacity_bps();
        (capacity - cross.value).clamp(0.0, capacity)
    }

    /// Difference between the estimate and the rates of streams that confirm it, bit/s.
    fn confirmation_distance_bps(&self, cross: CrossTrafficEstimate) -> f64 {
        (CONFIRMATION_ERRORS * cross.error).max(MIN_CONFIRMATION_DISTANCE * self.capacity_bps())
    }

    fn begin_search(&mut self) {
        self.search = Some(RateSearch::below(self.capacity_bps()));
        self.phase = AvailableBandwidthPhase::Search;
    }

    /// The estimate, bit/s: of the search if there was one, else of the busy streams.
    fn estimate(&self) -> Option<Interval> {
        let capacity = self.capacity_result.as_ref()?.capacity_bps?;
        if let Some(search) = self.search {
            let middle = (search.low + search.high) / 2.0;
            let high = search.high.min(capacity.value.max(search.low));
            return Some(Interval { low: search.low, value: middle.min(capacity.value), high });
        }
        let cross = self.cross_estimate?;
        let value = self.available_bps(cross);
        // A = C - X with X = C a - R, where a train at R takes a = (R + X) / C times as long: an error of C
        // counts a - 1 times.
        let busy = if self.bucket_bytes().is_some() { BUSY_RATE_WITH_BUCKET } else { BUSY_RATE };
        let factor = busy - 1.0 + cross.value / capacity.value;
        Some(Interval::of_available(capacity, value, cross.error, factor))
    }

    /// Adds slower streams to a policer. With cross traffic the tokens are used up earlier.
    fn add_policed_streams(&mut self, observations: &[TrainObservation]) {
        self.slow_streams.extend_from_slice(observations);
        self.phase = AvailableBandwidthPhase::Done;
        let times =
            |streams: &[TrainObservation]| streams.iter().filter_map(time_to_loss).collect::<Vec<_>>();
        let rate = |streams: &[TrainObservation]| {
            median(&streams.iter().filter_map(TrainObservation::sent_bps).collect::<Vec<_>>())
        };
        let (Some(fast), Some(slow)) = (rate(&self.busy_streams), rate(&self.slow_streams)) else { return };
        let capacity = self.capacity_bps();
        let tokens = estimate_tokens((fast, &times(&self.busy_streams)), (slow, &times(&self.slow_streams)));
        self.cross_estimate = tokens.map(|(available, _)| CrossTrafficEstimate {
            value: (capacity - available.value).max(0.0),
            ..available
        });
        let is_good =
            tokens.is_some_and(|(available, _)| available.error < 2.0 * TARGET_ERROR * available.value);
        if !is_good && !self.is_regular() && self.fleets < 2 * MAX_BUSY_FLEETS {
            self.phase = AvailableBandwidthPhase::Busy;
        }
    }
}

/// Time from the first packet to the first lost one, ns.
fn time_to_loss(observation: &TrainObservation) -> Option<f64> {
    Some((observation.sent_ns.get(first_loss(observation))? - observation.sent_ns.first()?) as f64)
}

fn loss_rate(observation: &TrainObservation) -> f64 {
    observation.lost() as f64 / observation.sent().max(1) as f64
}

impl Method for AvailableBandwidth {
    type Output = AvailableBandwidthResult;

    fn next_step(&mut self) -> Step {
        if self.phase == AvailableBandwidthPhase::Capacity {
            if let Step::Send(fleet) = self.capacity.next_step() {
                return Step::Send(fleet);
            }
            let known = self.capacity.result();
            self.begin(known);
        }
        if self.phase == AvailableBandwidthPhase::Done {
            return Step::Done;
        }
        let stream = self.next_stream();
        let gap = Time::from_nanos((stream.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Step::Send(Fleet { trains: vec![stream; STREAMS], gap })
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        if self.phase == AvailableBandwidthPhase::Capacity {
            return self.capacity.add_observations(observations);
        }
        self.has_host_drops |= observations.iter().any(|observation| observation.host_drops > 0);
        self.fleets += 1;
        match self.phase {
            AvailableBandwidthPhase::Capacity | AvailableBandwidthPhase::Done => {}
            AvailableBandwidthPhase::Policed => self.add_policed_streams(observations),
            AvailableBandwidthPhase::Busy => self.add_busy_streams(observations),
            AvailableBandwidthPhase::Below(_) => match self.verdict(observations) {
                FleetVerdict::TooFast => self.begin_search(),
                FleetVerdict::Available | FleetVerdict::Inconclusive => self.phase = self.phase_above(),
            },
            AvailableBandwidthPhase::Above(_) => match self.verdict(observations) {
                FleetVerdict::Available => self.begin_search(),
                FleetVerdict::TooFast | FleetVerdict::Inconclusive => {
                    self.phase = AvailableBandwidthPhase::Done
                }
            },
            AvailableBandwidthPhase::Search => {
                let verdict = self.verdict(observations);
                if let Some(search) = &mut self.search {
                    search.narrow(verdict);
                    if search.is_done() {
                        self.phase = AvailableBandwidthPhase::Done;
                    }
                }
            }
        }
    }

    fn result(&self) -> AvailableBandwidthResult {
        let capacity = self.capacity_result.clone().unwrap_or_else(|| self.capacity.result());
        let estimate = self.estimate();
        let warnings = self.warnings(&capacity, estimate);
        AvailableBandwidthResult {
            available_bps: estimate,
            varies_bps: self.cross_estimate.map(|estimate| estimate.spread),
            packet_bytes: self.bytes,
            fleets: self.fleets,
            capacity: Some(capacity),
            validity: Validity::new(warnings, || match self.bucket_bytes() {
                Some(_) if self.is_policed() => {
                    format!(
                        "{} streams agree on the tokens that cross traffic leaves",
                        self.busy_streams.len() + self.slow_streams.len()
                    )
                }
                Some(_) => format!("{} streams agree on the rate after a token bucket", self.cross_bps.len()),
                None => format!(
                    "{} streams agree, and slower and faster ones confirm the estimate",
                    self.cross_bps.len()
                ),
            }),
        }
    }

    fn progress(&self) -> String {
        match self.phase {
            AvailableBandwidthPhase::Capacity => format!("capacity first: {}", self.capacity.progress()),
            AvailableBandwidthPhase::Busy => "streams as fast as the link, to measure cross traffic".into(),
            AvailableBandwidthPhase::Policed => {
                "slower streams, to measure when a policer begins to drop".into()
            }
            AvailableBandwidthPhase::Below(rate) => {
                format!("streams at {:.3} Mb/s, which should be available", rate / 1e6)
            }
            AvailableBandwidthPhase::Above(rate) => {
                format!("streams at {:.3} Mb/s, which should not be available", rate / 1e6)
            }
            AvailableBandwidthPhase::Search => self.search.map_or(String::new(), |search| {
                format!(
                    "streams at {:.3} Mb/s; between {:.3} and {:.3} so far",
                    search.rate / 1e6,
                    search.low / 1e6,
                    search.high / 1e6
                )
            }),
            AvailableBandwidthPhase::Done => "done".into(),
        }
    }
}
