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

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    curve::{Curve, curve},
    statistics::{least, median, mode, quantile},
    train::{Fleet, Method, Seen, Step, Train},
};

/// A burst's dispersion in units of the resolution: a hundred make one per cent of error.
const DISPERSION: f64 = 200.0;
/// Packets of a burst at least: fewer say little about where a bucket ends.
const LEAST_PACKETS: usize = 16;
/// Bursts of each length while they grow, and of the final length at a time.
const SCOUTS: usize = 4;
const BURSTS: usize = 16;
/// Rounds of final bursts at most, and bursts undisturbed by cross traffic that are enough.
const ROUNDS: usize = 6;
const ENOUGH: usize = 6;
/// A long train lasts so long at the rate found, where the limit on the load allows it, ns.
const LONG_NS: f64 = 150e6;
/// Packets of a long train, at least and at most.
const LONG_PACKETS: (usize, usize) = (200, 200_000);
/// A bend counts where more than this share of a train, and more than so many packets, passed before it.
const BEND_SHARE: f64 = 0.08;
const BEND_PACKETS: f64 = 4.0;
/// Of a burst this share may pass before its bend: the later half is then straight.
const BURST_BEND: f64 = 0.15;
/// Gaps between two packets count where they are so many times the resolution.
const WINDOW: f64 = 15.0;
/// Long trains at ever other rates.
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

/// What a burst showed.
#[derive(Debug, Clone, Copy)]
struct Burst {
    rate_bps: f64,
    first_delay: f64,
    last_delay: f64,
    lost: usize,
    sent_bps: Option<f64>,
    /// Share of its packets before a bend.
    bend: f64,
}

/// What long trains at one rate showed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    sent_bps: f64,
    rate_bps: f64,
    /// How uncertain that rate is, as a share of itself: by the difference of the trains.
    spread: f64,
}

impl Passed {
    fn of(sent_bps: f64, rates: &[f64]) -> Option<Passed> {
        let rate_bps = median(rates)?;
        let range = quantile(rates, 1.0)? - quantile(rates, 0.0)?;
        // The range of three is 1.7 standard deviations, and their median's is two thirds of one.
        Some(Passed { sent_bps, rate_bps, spread: 0.4 * range / rate_bps })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Undisturbed {
    Unknown,
    Enough,
    TooFew,
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

    fn burst(&self, seen: &Seen) -> Option<Burst> {
        let curve = curve(seen, self.limits.resolution_ns)?;
        let (first, last) = (seen.received().next()?, seen.received().next_back()?);
        Some(Burst {
            rate_bps: curve.rate_bps,
            first_delay: first.delay_ns(),
            last_delay: last.delay_ns(),
            lost: seen.lost(),
            sent_bps: seen.sent_bps(),
            bend: curve.bend_bytes / (seen.sent() as f64 * f64::from(seen.bytes)),
        })
    }

    fn measure(&mut self, packets: usize, seen: &[Seen]) {
        let new: Vec<Burst> = seen.iter().filter_map(|seen| self.burst(seen)).collect();
        self.bursts.extend(new);
        for seen in seen {
            self.look_through_windows(seen);
        }
        self.rounds += 1;
        if self.bursts.is_empty() {
            self.phase = Phase::Done;
            return;
        }
        // Where losses are rare, bursts without any; their slopes are not bent by what is missing.
        let whole: Vec<Burst> = self.bursts.iter().filter(|b| b.lost == 0).copied().collect();
        let bursts = if whole.len() * 4 >= self.bursts.len() { whole } else { self.bursts.clone() };
        let rates: Vec<f64> = bursts.iter().map(|b| b.rate_bps).collect();
        let Some(typical) = median(&rates) else { return self.phase = Phase::Done };
        let dispersion = f64::from(self.bytes) * 8e9 * packets as f64 / typical;
        let tolerance = 2.0 * self.limits.resolution_ns + 0.02 * dispersion;
        let (first, last) =
            (least(bursts.iter().map(|b| b.first_delay)), least(bursts.iter().map(|b| b.last_delay)));
        let (Some(first), Some(last)) = (first, last) else { return self.phase = Phase::Done };
        let clean: Vec<f64> = bursts
            .iter()
            .filter(|b| b.first_delay <= first + tolerance && b.last_delay <= last + tolerance)
            .map(|b| b.rate_bps)
            .collect();
        if clean.len() < ENOUGH && self.rounds < ROUNDS {
            return;
        }
        let (value, sample) = if clean.len() >= ENOUGH.min(self.bursts.len() / 2) {
            self.undisturbed = Undisturbed::Enough;
            (median(&clean).unwrap_or(typical), clean)
        } else if let Some(value) = self.most_frequent_window() {
            self.undisturbed = Undisturbed::Enough;
            (value, vec![value])
        } else {
            self.undisturbed = Undisturbed::TooFew;
            (mode(&rates).unwrap_or(typical), rates)
        };
        let (low, high) = (quantile(&sample, 0.1).unwrap_or(value), quantile(&sample, 0.9).unwrap_or(value));
        let blur = 2.0 * self.limits.resolution_ns / dispersion;
        self.found = Some(Interval {
            low: low.min(value) * (1.0 - blur),
            value,
            high: high.max(value) * (1.0 + blur),
        });
        self.phase = Phase::Long { rate_bps: 2.0 * value, left: LONG_TRIES };
    }

    /// Rates between packets that are so few apart that cross traffic often misses them, where time stamps can tell.
    fn look_through_windows(&mut self, seen: &Seen) {
        let all: Vec<_> = seen.received().collect();
        // The later half, as all slopes: what comes before may have come out of a bucket.
        for pair in all[all.len() / 2..].windows(2) {
            let gap = (pair[1].arrived_ns - pair[0].arrived_ns) as f64;
            if pair[1].number == pair[0].number + 1 {
                self.windows.push(f64::from(self.bytes) * 8e9 / gap.max(1.0));
            }
        }
    }

    /// The mode of the windows, where a fifth of them is within two per cent of it.
    fn most_frequent_window(&self) -> Option<f64> {
        let mode = mode(&self.windows)?;
        if f64::from(self.bytes) * 8e9 / mode < WINDOW * self.limits.resolution_ns {
            return None;
        }
        let near = self.windows.iter().filter(|rate| (*rate / mode - 1.0).abs() < 0.02).count();
        (near >= 50 && near * 5 >= self.windows.len()).then_some(mode)
    }

    /// Packets of a long train at this rate.
    fn long_packets(&self, rate_bps: f64) -> usize {
        let wanted = rate_bps * LONG_NS / 8e9 / f64::from(self.bytes);
        let most = most_packets(&self.limits, self.bytes) / 2;
        (wanted as usize).clamp(LONG_PACKETS.0, LONG_PACKETS.1).min(most).max(8)
    }

    fn long(&mut self, rate_bps: f64, left: usize, seen: &[Seen]) {
        let curves: Vec<Curve> =
            seen.iter().filter_map(|seen| curve(seen, self.limits.resolution_ns)).collect();
        let sent = median(&seen.iter().filter_map(Seen::sent_bps).collect::<Vec<_>>()).unwrap_or(rate_bps);
        let rates: Vec<f64> = curves.iter().map(|c| c.rate_bps).collect();
        let Some(passed) = Passed::of(sent, &rates) else {
            self.doubts.push("long trains were lost".into());
            return self.phase = Phase::Done;
        };
        let rate = passed.rate_bps;
        let bend = median(&curves.iter().map(|c| c.bend_bytes).collect::<Vec<_>>()).unwrap_or(0.0);
        let total = median(&curves.iter().map(|c| c.bytes).collect::<Vec<_>>()).unwrap_or(1.0);
        let before = self.found.map_or(f64::INFINITY, |found| found.value);
        let bends =
            median(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>()).is_some_and(|b| b > BURST_BEND);
        // Beside cross traffic of all the capacity a train at twice the rate would still have two thirds of it.
        let bent = bend > (BEND_SHARE * total).max(BEND_PACKETS * f64::from(self.bytes))
            || rate < 0.6 * before
            || bends;
        let none_known = self.found.is_none();
        if none_known && rate > 0.95 * sent && left > 1 {
            // Nothing held it up: faster.
            return self.phase = Phase::Long { rate_bps: 2.0 * rate_bps, left: left - 1 };
        }
        if self.bucket_bytes.is_some() || none_known || (bent && rate < 0.9 * before) {
            if self.bucket_bytes.is_none() {
                self.peak_bps = self.found.map(|found| found.value);
            }
            // Nothing comes to the bucket faster than the links before it carry.
            let sent = sent.min(self.peak_bps.unwrap_or(f64::INFINITY));
            self.beyond.push(Passed { sent_bps: sent, ..passed });
            // Cross traffic leaves it emptier now and then.
            self.bucket_bytes = Some(bend.max(self.bucket_bytes.unwrap_or(0.0)));
            self.through_two_rates();
            self.phase = match (left, self.steep().count()) {
                (0 | 1, _) => {
                    self.doubts.push("the rate behind a token bucket did not settle".into());
                    Phase::Done
                }
                // Close to it now.
                (_, 0) => Phase::Long { rate_bps: 2.0 * rate, left: left - 1 },
                // Once more, at another rate: twice as fast, or slower where this host cannot.
                (_, 1) if self.peak_bps.is_none_or(|peak| peak > 3.0 * rate) && sent < 3.0 * rate => {
                    Phase::Long { rate_bps: 2.0 * sent, left: left - 1 }
                }
                (_, 1) => Phase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), left: left - 1 },
                _ if self.two_rates().is_some() => Phase::Done,
                _ => Phase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), left: left - 1 },
            };
            return;
        }
        // A bucket that each burst emptied: its rate is known by their later halves.
        let least_bend = quantile(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>(), 0.1)
            .unwrap_or(0.0)
            * self.packets as f64
            * f64::from(self.bytes);
        if self.undisturbed == Undisturbed::Enough && least_bend > BEND_PACKETS * f64::from(self.bytes) {
            self.bucket_bytes = Some(least_bend);
        }
        self.phase = match self.undisturbed {
            Undisturbed::TooFew => {
                self.beyond.push(passed);
                Phase::Slow { rate_bps: before }
            }
            _ => Phase::Done,
        };
    }

    /// Long trains at twice the bursts' rate and at that rate itself: from the two, the capacity without cross traffic.
    fn slow(&mut self, seen: &[Seen]) {
        self.phase = Phase::Done;
        let slow: Vec<Burst> = seen.iter().filter_map(|seen| self.burst(seen)).collect();
        let sent = median(&slow.iter().filter_map(|b| b.sent_bps).collect::<Vec<_>>());
        let rates: Vec<f64> = slow.iter().map(|b| b.rate_bps).collect();
        let passed = sent.and_then(|sent| Passed::of(sent, &rates));
        let (Some(slow), Some(fast)) = (passed, self.beyond.last()) else { return };
        if fast.sent_bps > 1.3 * slow.sent_bps && slow.rate_bps < 0.98 * slow.sent_bps {
            let (found, cross) = without_cross_traffic(slow, *fast);
            (self.found, self.cross_bps) = (Some(found), Some(cross));
        }
    }

    /// Trains that were sent faster than they passed, but not so fast that little of them did.
    fn steep(&self) -> impl Iterator<Item = Passed> + '_ {
        self.beyond.iter().copied().filter(|passed| (1.1..8.0).contains(&(passed.sent_bps / passed.rate_bps)))
    }

    /// The slowest and the fastest of them, where they differ enough.
    fn two_rates(&self) -> Option<[Passed; 2]> {
        let slow = self.steep().min_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        let fast = self.steep().max_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        (fast.sent_bps > 1.3 * slow.sent_bps).then_some([slow, fast])
    }

    fn through_two_rates(&mut self) {
        match self.two_rates() {
            Some([slow, fast]) => {
                let (found, cross) = without_cross_traffic(slow, fast);
                (self.found, self.cross_bps) = (Some(found), Some(cross));
            }
            None => self.found = self.beyond.last().map(|last| Interval::within(last.rate_bps, 0.1)),
        }
    }
}

/// From trains at two rates, the capacity and the cross traffic: 1 / received = 1 / C + (X / C) / sent, with X / C from 0 to 1.
fn without_cross_traffic(slow: Passed, fast: Passed) -> (Interval, f64) {
    let reach = (1.0 / fast.sent_bps) / (1.0 / slow.sent_bps - 1.0 / fast.sent_bps);
    let share = (1.0 / slow.rate_bps - 1.0 / fast.rate_bps) * fast.sent_bps * reach;
    let share = share.clamp(0.0, 1.0);
    let value = 1.0 / (1.0 / fast.rate_bps - share / fast.sent_bps);
    // The error of the line through both where it meets 1 / sent = 0.
    let part = |passed: Passed, weight: f64| weight * passed.spread * value / passed.rate_bps;
    let error = part(fast, 1.0 + reach).hypot(part(slow, reach));
    // What was added for cross traffic is hardly known better than to a third of itself.
    let least = ((value / fast.rate_bps - 1.0) / 3.0).max(0.01);
    (Interval::within(value, (2.0 * error).clamp(least, 0.9)), share * value)
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
            Phase::Long { rate_bps, .. } => {
                let packets = self.long_packets(rate_bps);
                Step::Send(Fleet {
                    trains: vec![Train::paced(self.bytes, packets, rate_bps); 3],
                    gap: pause(packets, rate_bps.max(1e6)).min(Time::from_secs(1)),
                })
            }
            Phase::Slow { rate_bps } => {
                let packets = self.long_packets(rate_bps);
                Step::Send(Fleet {
                    trains: vec![Train::paced(self.bytes, packets, rate_bps); 3],
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
            && found.high / found.low > 1.2
        {
            doubts.push("trains differ by too much, as cross traffic does".into());
        }
        CapacityAnswer {
            capacity_bps: self.found,
            peak_bps: self.peak_bps,
            bucket_bytes: self.bucket_bytes,
            cross_bps: self.cross_bps,
            packet_bytes: self.bytes,
            burst_packets: packets,
            validity: Validity::of(doubts, || match self.bucket_bytes {
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
