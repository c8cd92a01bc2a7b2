//! Capacity: what the narrowest link carries, by the dispersion of packets that were sent faster than it.
//!
//! Bursts of equal packets leave the narrow link back to back, so that the slope of their arrivals is its rate. Three
//! sources of error are dealt with one by one:
//! 1. *Cross traffic between the packets.* Of many bursts those count whose first and last packet were both as fast as
//!    any (the minimum-delay filter of CapProbe, Kapoor et al. 2004, for bursts as in PBProbe, Chen et al. 2009). Where there is
//!    none, the mode of all is the answer (as in pathrate, Dovrolis et al. 2001), and in doubt.
//! 2. *Coarse time stamps.* Bursts grow until they last many times the resolution.
//! 3. *Token buckets*, behind which short bursts show the peak rate. Longer trains, sent at twice the rate found so far, show
//!    a bend: the bucket's bytes pass at once, and all later ones at the rate at which tokens come.
//!
//! A train sent at R beside cross traffic X leaves at C R / (R + X), so trains at two rates give C without X (the regression of
//! TOPP, Melander et al. 2000): that is done where there is a bucket, or where no burst was undisturbed.
//!
//! All rates are of IP bytes at the size of the probes; a link of Ethernet carries 14 bytes of header with each (38 with
//! preamble, checksum and gap).

mod bursts;
mod long;

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    statistics::median,
    train::{Fleet, Method, Seen, Step, Train},
};

use bursts::{BURSTS, Burst, Undisturbed};
use long::Passed;

/// A burst's dispersion in units of the resolution: a hundred make one per cent of error.
const DISPERSION: f64 = 200.0;
/// Packets of a burst at least: fewer say little about where a bucket ends.
const LEAST_PACKETS: usize = 16;
/// Bursts of each length while they grow.
const SCOUTS: usize = 4;
/// An interval is in doubt whose ends differ by more than this factor.
const WIDE: f64 = 1.14;
/// Of a burst this share may pass before its bend: the later half is then straight.
const BURST_BEND: f64 = 0.15;
/// Long trains of a fleet; twice as many once a bucket is known.
const LONG_TRAINS: usize = 3;
/// Packets that a token bucket holds at least.
const LEAST_BUCKET: f64 = 2.0;
/// Fleets of long trains, at ever other rates.
const LONG_TRIES: usize = 8;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityAnswer {
    /// bit/s of IP at `packet_bytes`; `None` where nothing arrived.
    pub capacity_bps: Option<Interval>,
    /// What a burst passes at before a token bucket is empty, bit/s of IP; `None` where there is none.
    pub peak_bps: Option<f64>,
    /// What the bucket holds, bytes of IP.
    pub bucket_bytes: Option<f64>,
    /// What other traffic takes of it, bit/s, where trains at two rates showed it.
    pub cross_bps: Option<f64>,
    /// Bytes of a probe, IP header included.
    pub packet_bytes: u32,
    /// Packets of a burst.
    pub burst_packets: usize,
    /// Whether to believe it.
    pub validity: Validity,
}

/// The method.
#[derive(Debug, Clone)]
pub struct Capacity {
    limits: Limits,
    bytes: u32,
    phase: Phase,
    /// Of the bursts of the present length.
    bursts: Vec<Burst>,
    rounds: usize,
    /// Rates of a few packets each, of all bursts.
    windows: Vec<f64>,
    undisturbed: Undisturbed,
    /// Rate, bit/s.
    found: Option<Interval>,
    peak_bps: Option<f64>,
    bucket_bytes: Option<f64>,
    cross_bps: Option<f64>,
    packets: usize,
    /// Long trains beyond a bend, or through cross traffic.
    beyond: Vec<Passed>,
    doubts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Grow {
        packets: usize,
    },
    Measure {
        packets: usize,
    },
    Long {
        rate_bps: f64,
        left: usize,
    },
    /// Long trains at the rate found, where cross traffic lay between the packets of bursts.
    Slow {
        rate_bps: f64,
    },
    Done,
}

impl Capacity {
    /// Measures with the largest packets.
    pub fn new(limits: Limits) -> Self {
        Capacity {
            limits,
            bytes: limits.mtu,
            phase: Phase::Grow {
                packets: LEAST_PACKETS.min(most_packets(&limits, limits.mtu) / SCOUTS).max(2),
            },
            bursts: Vec::new(),
            rounds: 0,
            windows: Vec::new(),
            undisturbed: Undisturbed::Unknown,
            found: None,
            peak_bps: None,
            bucket_bytes: None,
            cross_bps: None,
            packets: 0,
            beyond: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// The largest burst: a quarter of what a second allows, so that a few of them do not take a minute.
    fn most(&self) -> usize {
        (most_packets(&self.limits, self.bytes) / SCOUTS).max(2)
    }

    fn grow(&mut self, packets: usize, seen: &[Seen]) {
        let bursts: Vec<Burst> = seen.iter().filter_map(|seen| self.burst(seen)).collect();
        if bursts.is_empty() {
            self.phase = if packets > 2 && seen.iter().any(|s| s.received().next().is_some()) {
                // All but one packet of each was dropped.
                Phase::Long { rate_bps: self.modest_bps(), left: LONG_TRIES }
            } else {
                Phase::Done
            };
            return;
        }
        let dispersion = |b: &Burst| f64::from(self.bytes) * 8e9 * packets as f64 / b.rate_bps;
        let typical = median(&bursts.iter().map(dispersion).collect::<Vec<_>>()).unwrap_or(0.0);
        let lossy = bursts.iter().filter(|b| b.lost > 0).count() * 2 > bursts.len();
        let bends = bursts.iter().filter(|b| b.bend > BURST_BEND).count() * 2 > bursts.len();
        let wanted = DISPERSION * self.limits.resolution_ns;
        if (typical >= wanted && !bends) || packets >= self.most() || lossy {
            let fits = if lossy && !bends {
                // What a queue takes, and a little less.
                let taken = packets
                    - median(&bursts.iter().map(|b| b.lost as f64).collect::<Vec<_>>()).unwrap_or(0.0)
                        as usize;
                (taken * 9 / 10).clamp(2, packets)
            } else {
                packets
            };
            self.packets = fits;
            self.phase = Phase::Measure { packets: fits };
        } else {
            let factor = if bends { 2.0 } else { (1.1 * wanted / typical.max(1.0)).clamp(1.5, 16.0) };
            self.phase = Phase::Grow { packets: ((packets as f64 * factor) as usize).min(self.most()) };
        }
    }

    /// A rate that the limit on the load allows for tens of milliseconds, bit/s.
    fn modest_bps(&self) -> f64 {
        self.limits.most_bytes as f64 * 8.0 * 4.0
    }
}

/// Packets of `bytes` that the limit on the load allows within a second.
pub(crate) fn most_packets(limits: &Limits, bytes: u32) -> usize {
    (limits.most_bytes / u64::from(bytes.max(1))) as usize
}

impl Method for Capacity {
    type Answer = CapacityAnswer;

    fn next(&mut self) -> Step {
        // A queue with cross traffic takes several times as long to drain as to fill.
        let pause = |packets: usize, rate: f64| {
            Time((6.0 * packets as f64 * f64::from(self.bytes) * 8e9 / rate) as u64 + 1_000_000)
        };
        let rate = self
            .found
            .map(|found| found.value)
            .or_else(|| median(&self.bursts.iter().map(|b| b.rate_bps).collect::<Vec<_>>()));
        match self.phase {
            Phase::Grow { packets } => Step::Send(Fleet {
                trains: vec![Train::burst(self.bytes, packets); SCOUTS],
                gap: Time::from_millis(20),
            }),
            Phase::Measure { packets } => Step::Send(Fleet {
                trains: vec![Train::burst(self.bytes, packets); BURSTS],
                gap: pause(packets, rate.unwrap_or(1e7).max(1e6)).min(Time::from_millis(500)),
            }),
            Phase::Long { rate_bps, .. } | Phase::Slow { rate_bps } => {
                let packets = self.long_packets(rate_bps);
                // Behind a bucket they are all that there is to go by.
                let count = if self.bucket_bytes.is_some() { 2 * LONG_TRAINS } else { LONG_TRAINS };
                Step::Send(Fleet {
                    trains: vec![Train::paced(self.bytes, packets, rate_bps); count],
                    gap: pause(packets, rate_bps.max(1e6)).min(Time::from_secs(1)),
                })
            }
            Phase::Done => Step::Done,
        }
    }

    fn take(&mut self, seen: &[Seen]) {
        if seen.iter().any(|seen| seen.host_drops > 0) {
            self.doubts.push("the receiving host dropped packets: it is what was measured".into());
        }
        match self.phase {
            Phase::Grow { packets } => self.grow(packets, seen),
            Phase::Measure { packets } => self.measure(packets, seen),
            Phase::Long { rate_bps, left } => self.long(rate_bps, left, seen),
            Phase::Slow { .. } => self.slow(seen),
            Phase::Done => {}
        }
    }

    fn answer(&self) -> CapacityAnswer {
        let packets = self.packets;
        let mut doubts = self.doubts.clone();
        let value = self.found.map(|found| found.value);
        // There is no bucket that holds less than a packet: the path's rate was another one later.
        let bucket_bytes = self.bucket_bytes.filter(|bytes| *bytes >= LEAST_BUCKET * f64::from(self.bytes));
        let changed =
            self.found.zip(self.peak_bps).filter(|_| self.bucket_bytes.is_some() && bucket_bytes.is_none());
        if let Some((found, before)) = changed {
            let (before, after) = (before / 1e6, found.value / 1e6);
            doubts.push(format!(
                "what passes changes with time: {before:.1} Mb/s at first, {after:.1} Mb/s later"
            ));
        }
        if let Some((value, slower)) = value.and_then(|value| Some((value, self.slower_rate(value)?))) {
            let (slower, value) = (slower / 1e6, value / 1e6);
            doubts.push(format!("what passes changes with time: now {slower:.1} Mb/s, now {value:.1} Mb/s"));
        }
        match value {
            None => doubts.push("no train arrived".into()),
            Some(value) if self.bucket_bytes.is_none() => {
                let sent: Vec<f64> = self.bursts.iter().filter_map(|b| b.sent_bps).collect();
                let sent = median(&sent).filter(|_| sent.len() * 2 > self.bursts.len());
                if sent.is_some_and(|sent| sent < 1.2 * value) {
                    doubts.push(
                        "packets arrived as fast as this host sent them: the capacity is at least this"
                            .into(),
                    );
                }
                if self.undisturbed == Undisturbed::TooFew {
                    doubts.push("cross traffic disturbed almost every burst: the capacity is computed from trains at two rates".into());
                }
                let dispersion = f64::from(self.bytes) * 8e9 * packets.max(LEAST_PACKETS) as f64 / value;
                if dispersion < 20.0 * self.limits.resolution_ns {
                    doubts.push("bursts were too short for the time stamps: allow a higher rate".into());
                }
            }
            Some(_) => {}
        }
        if self.found.is_some()
            && self.bucket_bytes.is_some()
            && !self.beyond.is_empty()
            && self.two_rates().is_none()
        {
            doubts.push("trains at one rate only reached the token bucket".into());
        }
        if let Some(found) = self.found
            && found.high / found.low > WIDE
        {
            doubts.push("trains differ by too much, as cross traffic does".into());
        }
        CapacityAnswer {
            capacity_bps: self.found,
            peak_bps: self.peak_bps,
            bucket_bytes,
            cross_bps: self.cross_bps,
            packet_bytes: self.bytes,
            burst_packets: packets,
            validity: Validity::of(doubts, || match bucket_bytes {
                Some(_) if self.beyond.is_empty() => {
                    "bursts agree once they have emptied a token bucket".into()
                }
                Some(_) => "long trains at two rates agree on what passes once the bucket is empty".into(),
                None => format!("{} bursts, and the undisturbed ones agree", self.bursts.len()),
            }),
        }
    }

    fn doing(&self) -> String {
        match self.phase {
            Phase::Grow { packets } => format!("bursts of {packets} packets, to see how long they must be"),
            Phase::Measure { packets } => {
                format!("bursts of {packets} packets, {} so far", self.bursts.len())
            }
            Phase::Long { rate_bps, .. } => {
                format!("long trains at {:.3} Mb/s, to see past token buckets", rate_bps / 1e6)
            }
            Phase::Slow { rate_bps } => {
                format!("long trains at {:.3} Mb/s, to see past cross traffic", rate_bps / 1e6)
            }
            Phase::Done => "done".into(),
        }
    }
}
