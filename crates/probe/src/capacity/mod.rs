//! Capacity of the narrowest link, from the dispersion of packets that are sent faster.
//!
//! Bursts of equal packets leave the narrow link back to back, so that the slope of their arrivals is its
//! rate. Three sources of error are handled:
//! 1. *Cross traffic between the packets.* Only bursts count whose first and last packet had minimum delay
//!    (the filter of CapProbe, Kapoor et al. 2004, for bursts as in PBProbe, Chen et al. 2009). If there are
//!    none, the result is the mode of all bursts (as in pathrate, Dovrolis et al. 2001), with a warning.
//! 2. *Coarse timestamps.* Bursts grow until they last many times the resolution.
//! 3. *Token buckets*, after which short bursts show the peak rate. Longer trains at twice the estimated rate
//!    show a bend: the bucket's bytes pass at once, and all later bytes at the token rate.
//!
//! A train sent at R leaves a link with cross traffic X at C R / (R + X). So trains at two rates yield C
//! without X (the regression of TOPP, Melander et al. 2000). This is used if there is a bucket, or if no
//! burst was undisturbed.
//!
//! All rates are of IP bytes at the size of the probes; Ethernet adds a header of 14 bytes to each packet (38
//! with preamble, checksum and gap).

mod bursts;
mod long_trains;

use serde::Serialize;
use units::Time;

use crate::{
    result::{Interval, ProbeLimits, Validity},
    statistics::median,
    train::{Fleet, Method, Step, Train, TrainObservation},
};

use bursts::{BURSTS, Burst, UndisturbedBursts};
use long_trains::LongTrains;

/// Minimum dispersion of a burst, in units of the resolution: a hundred cause an error of one per cent.
const MIN_DISPERSION: f64 = 200.0;
/// Minimum number of packets of a burst: with fewer, the packet at which a bucket is empty cannot be found.
const MIN_PACKETS: usize = 16;
/// Number of bursts of each length while the length grows.
const GROWING_BURSTS: usize = 4;
/// Maximum ratio of the bounds of a reliable interval.
const MAX_INTERVAL_RATIO: f64 = 1.14;
/// Maximum share of a burst before its bend, so that its later half is straight.
const MAX_BURST_BEND: f64 = 0.15;
/// Number of long trains of a fleet; twice as many once a bucket is known.
const LONG_TRAINS: usize = 3;
/// Minimum size of a token bucket, packets.
const MIN_BUCKET_PACKETS: f64 = 2.0;
/// Maximum number of fleets of long trains, each at another rate.
const MAX_LONG_FLEETS: usize = 8;

/// The result of a capacity measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityResult {
    /// Capacity, bit/s of IP at `packet_bytes`; `None` if no train arrived.
    pub capacity_bps: Option<Interval>,
    /// Rate of a burst before the token bucket is empty, bit/s of IP; `None` without a token bucket.
    pub peak_bps: Option<f64>,
    /// Size of the token bucket, bytes of IP.
    pub bucket_bytes: Option<f64>,
    /// Rate of cross traffic, bit/s, if trains at two rates showed it.
    pub cross_bps: Option<f64>,
    /// Size of a probe, bytes, IP header included.
    pub packet_bytes: u32,
    /// Number of packets of a burst.
    pub burst_packets: usize,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// The measurement method.
#[derive(Debug, Clone)]
pub struct Capacity {
    limits: ProbeLimits,
    bytes: u32,
    phase: CapacityPhase,
    /// Bursts of the final length.
    bursts: Vec<Burst>,
    rounds: usize,
    /// Rates between consecutive packets of all bursts, bit/s.
    pair_rates_bps: Vec<f64>,
    undisturbed: UndisturbedBursts,
    /// Estimate of the capacity, bit/s.
    estimate: Option<Interval>,
    peak_bps: Option<f64>,
    bucket_bytes: Option<f64>,
    cross_bps: Option<f64>,
    burst_packets: usize,
    /// Long trains that emptied a token bucket, or that cross traffic affected.
    long_trains: Vec<LongTrains>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CapacityPhase {
    Grow {
        packets: usize,
    },
    Measure {
        packets: usize,
    },
    Long {
        rate_bps: f64,
        remaining: usize,
    },
    /// Long trains at the estimated rate, if cross traffic disturbed all bursts.
    Slow {
        rate_bps: f64,
    },
    Done,
}

impl Capacity {
    /// A measurement with packets of the path MTU.
    pub fn new(limits: ProbeLimits) -> Self {
        Capacity {
            limits,
            bytes: limits.mtu,
            phase: CapacityPhase::Grow {
                packets: MIN_PACKETS.min(max_packets(&limits, limits.mtu) / GROWING_BURSTS).max(2),
            },
            bursts: Vec::new(),
            rounds: 0,
            pair_rates_bps: Vec::new(),
            undisturbed: UndisturbedBursts::Unknown,
            estimate: None,
            peak_bps: None,
            bucket_bytes: None,
            cross_bps: None,
            burst_packets: 0,
            long_trains: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Maximum number of packets of a burst: a quarter of what the limit on the load allows within a second,
    /// so that a few bursts do not take a minute.
    fn max_burst_packets(&self) -> usize {
        (max_packets(&self.limits, self.bytes) / GROWING_BURSTS).max(2)
    }

    fn grow_bursts(&mut self, packets: usize, observations: &[TrainObservation]) {
        let bursts: Vec<Burst> =
            observations.iter().filter_map(|observation| self.evaluate_burst(observation)).collect();
        if bursts.is_empty() {
            self.phase = if packets > 2 && observations.iter().any(|s| s.received().next().is_some()) {
                // All but one packet of each burst was dropped.
                CapacityPhase::Long { rate_bps: self.modest_bps(), remaining: MAX_LONG_FLEETS }
            } else {
                CapacityPhase::Done
            };
            return;
        }
        let dispersion = |b: &Burst| f64::from(self.bytes) * 8e9 * packets as f64 / b.rate_bps;
        let typical = median(&bursts.iter().map(dispersion).collect::<Vec<_>>()).unwrap_or(0.0);
        let lossy = bursts.iter().filter(|b| b.lost > 0).count() * 2 > bursts.len();
        let bends = bursts.iter().filter(|b| b.bend > MAX_BURST_BEND).count() * 2 > bursts.len();
        let required = MIN_DISPERSION * self.limits.resolution_ns;
        if (typical >= required && !bends) || packets >= self.max_burst_packets() || lossy {
            let fits = if lossy && !bends {
                // Slightly less than what the queue holds.
                let queued = packets
                    - median(&bursts.iter().map(|b| b.lost as f64).collect::<Vec<_>>()).unwrap_or(0.0)
                        as usize;
                (queued * 9 / 10).clamp(2, packets)
            } else {
                packets
            };
            self.burst_packets = fits;
            self.phase = CapacityPhase::Measure { packets: fits };
        } else {
            let factor = if bends { 2.0 } else { (1.1 * required / typical.max(1.0)).clamp(1.5, 16.0) };
            self.phase = CapacityPhase::Grow {
                packets: ((packets as f64 * factor) as usize).min(self.max_burst_packets()),
            };
        }
    }

    /// A rate at which the limit on the load allows trains of tens of milliseconds, bit/s.
    fn modest_bps(&self) -> f64 {
        self.limits.max_bytes_per_second as f64 * 8.0 * 4.0
    }
}

/// Number of packets of `bytes` that the limit on the load allows within a second.
pub(crate) fn max_packets(limits: &ProbeLimits, bytes: u32) -> usize {
    (limits.max_bytes_per_second / u64::from(bytes.max(1))) as usize
}

impl Method for Capacity {
    type Output = CapacityResult;

    fn next_step(&mut self) -> Step {
        // With cross traffic a queue takes several times as long to drain as to fill.
        let pause = |packets: usize, rate: f64| {
            Time::from_nanos((6.0 * packets as f64 * f64::from(self.bytes) * 8e9 / rate) as u64 + 1_000_000)
        };
        let rate = self
            .estimate
            .map(|estimate| estimate.value)
            .or_else(|| median(&self.bursts.iter().map(|b| b.rate_bps).collect::<Vec<_>>()));
        match self.phase {
            CapacityPhase::Grow { packets } => Step::Send(Fleet {
                trains: vec![Train::burst(self.bytes, packets); GROWING_BURSTS],
                gap: Time::from_millis(20),
            }),
            CapacityPhase::Measure { packets } => Step::Send(Fleet {
                trains: vec![Train::burst(self.bytes, packets); BURSTS],
                gap: pause(packets, rate.unwrap_or(1e7).max(1e6)).min(Time::from_millis(500)),
            }),
            CapacityPhase::Long { rate_bps, .. } | CapacityPhase::Slow { rate_bps } => {
                let packets = self.long_packets(rate_bps);
                // Behind a token bucket the result depends on long trains only.
                let count = if self.bucket_bytes.is_some() { 2 * LONG_TRAINS } else { LONG_TRAINS };
                Step::Send(Fleet {
                    trains: vec![Train::paced(self.bytes, packets, rate_bps); count],
                    gap: pause(packets, rate_bps.max(1e6)).min(Time::from_secs(1)),
                })
            }
            CapacityPhase::Done => Step::Done,
        }
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        let warning = "a host dropped packets, so the host was measured and not the path";
        if observations.iter().any(|observation| observation.host_drops > 0)
            && !self.warnings.iter().any(|given| given == warning)
        {
            self.warnings.push(warning.into());
        }
        match self.phase {
            CapacityPhase::Grow { packets } => self.grow_bursts(packets, observations),
            CapacityPhase::Measure { packets } => self.add_bursts(packets, observations),
            CapacityPhase::Long { rate_bps, remaining } => {
                self.add_long_trains(rate_bps, remaining, observations)
            }
            CapacityPhase::Slow { .. } => self.add_slow_trains(observations),
            CapacityPhase::Done => {}
        }
    }

    fn result(&self) -> CapacityResult {
        let packets = self.burst_packets;
        let mut warnings = self.warnings.clone();
        let value = self.estimate.map(|estimate| estimate.value);
        // A smaller bucket is implausible: the path's rate changed instead.
        let bucket_bytes =
            self.bucket_bytes.filter(|bytes| *bytes >= MIN_BUCKET_PACKETS * f64::from(self.bytes));
        let changed = self
            .estimate
            .zip(self.peak_bps)
            .filter(|_| self.bucket_bytes.is_some() && bucket_bytes.is_none());
        if let Some((found, before)) = changed {
            let (before, after) = (before / 1e6, found.value / 1e6);
            warnings.push(format!(
                "the capacity changes with time: {before:.1} Mb/s at first, {after:.1} Mb/s later"
            ));
        }
        if let Some((value, slower)) = value.and_then(|value| Some((value, self.slower_rate(value)?))) {
            let (slower, value) = (slower / 1e6, value / 1e6);
            warnings.push(format!(
                "the capacity changes with time: sometimes {slower:.1} Mb/s, sometimes {value:.1} Mb/s"
            ));
        }
        match value {
            None => warnings.push("no train arrived".into()),
            Some(value) if self.bucket_bytes.is_none() => {
                let sent: Vec<f64> = self.bursts.iter().filter_map(|b| b.sent_bps).collect();
                let sent = median(&sent).filter(|_| sent.len() * 2 > self.bursts.len());
                if sent.is_some_and(|sent| sent < 1.2 * value) {
                    warnings.push(
                        "packets arrived as fast as this host sent them: the value is a lower bound of the \
                        capacity"
                            .into(),
                    );
                }
                if self.undisturbed == UndisturbedBursts::TooFew {
                    warnings.push(
                        "cross traffic disturbed almost every burst: the capacity is computed from \
                        trains at two rates"
                            .into(),
                    );
                }
                let dispersion = f64::from(self.bytes) * 8e9 * packets.max(MIN_PACKETS) as f64 / value;
                if dispersion < 20.0 * self.limits.resolution_ns {
                    warnings.push(
                        "bursts were too short for the resolution of the timestamps: allow a higher rate"
                            .into(),
                    );
                }
            }
            Some(_) => {}
        }
        if self.estimate.is_some()
            && self.bucket_bytes.is_some()
            && !self.long_trains.is_empty()
            && self.two_rates().is_none()
        {
            warnings.push("only trains at one rate emptied the token bucket".into());
        }
        if let Some(estimate) = self.estimate
            && estimate.high / estimate.low > MAX_INTERVAL_RATIO
        {
            warnings.push("trains disagree by too much, as with cross traffic".into());
        }
        CapacityResult {
            capacity_bps: self.estimate,
            peak_bps: self.peak_bps,
            bucket_bytes,
            cross_bps: self.cross_bps,
            packet_bytes: self.bytes,
            burst_packets: packets,
            validity: Validity::new(warnings, || match bucket_bytes {
                Some(_) if self.long_trains.is_empty() => {
                    "bursts agree after they emptied a token bucket".into()
                }
                Some(_) => "long trains at two rates agree on the rate after the bucket is empty".into(),
                None => format!("the undisturbed ones of {} bursts agree", self.bursts.len()),
            }),
        }
    }

    fn progress(&self) -> String {
        match self.phase {
            CapacityPhase::Grow { packets } => {
                format!("bursts of {packets} packets, to find the required length")
            }
            CapacityPhase::Measure { packets } => {
                format!("bursts of {packets} packets, {} so far", self.bursts.len())
            }
            CapacityPhase::Long { rate_bps, .. } => {
                format!("long trains at {:.3} Mb/s, to detect token buckets", rate_bps / 1e6)
            }
            CapacityPhase::Slow { rate_bps } => {
                format!("long trains at {:.3} Mb/s, to separate cross traffic", rate_bps / 1e6)
            }
            CapacityPhase::Done => "done".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_host_in_several_fleets_are_one_warning() {
        let limits = ProbeLimits { max_bytes_per_second: 12_500_000, mtu: 1500, resolution_ns: 100.0 };
        let mut capacity = Capacity::new(limits);
        let observation = TrainObservation { host_drops: 1, ..TrainObservation::default() };
        capacity.add_observations(std::slice::from_ref(&observation));
        capacity.add_observations(&[observation]);
        let reasons = capacity.result().validity.reasons;
        assert_eq!(reasons.iter().filter(|reason| reason.contains("a host dropped packets")).count(), 1);
    }
}
