//! The links of a path one by one, by answers of the routers between them: nothing is needed at the other end.
//!
//! Two methods that fail in different ways:
//! - *pathchar* (Jacobson 1997; Downey, SIGCOMM 1999): of the round-trip times of many packets of many sizes to each router the
//!   smallest of each size count. They lie on a line; its slope grows from router to router by the time that a byte takes on
//!   the link between them.
//! - *pathneck* (Hu et al., SIGCOMM 2004): small packets before and after a train of large ones run out of hops at one router after
//!   the other, whose two answers are as far apart as the train is long there. It gets longer at a link that is narrower than all
//!   before.
//!
//! What routers do slowly, or not for everybody, disturbs the first; what other traffic does disturbs the second.
//!
//! An ICMP error quotes the packet that caused it (RFC 792: 8 bytes of it; RFC 1812: as much as 576 bytes hold; RFC 4443: as much as
//! 1280 bytes hold), so the error may grow with the probe, and then the way back adds to the slope. Each reply's size is known, so
//! two slopes are taken (see [`Slopes`]): over probes whose replies have one size, the way there alone; over probes whose replies
//! grow with them, both ways together. Where only the second is exact enough, a link is taken to be as fast in both directions, the
//! interval covers what it may be otherwise, and the answer says so.

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    answer::{Interval, Validity},
    slopes::{Estimate, Slopes},
    statistics::{least, median},
};

/// Sizes of pathchar's packets, and how often each is sent to each router.
const SIZES: usize = 12;
const REPEATS: usize = 10;
const REPEATS_OF_LIMITED: usize = 2;
/// The smallest packet, bytes of IP.
const SMALL: u32 = 64;
/// Large packets of a pathneck train, and trains.
const LOAD: usize = 60;
const TRAINS: usize = 10;
/// A train counts as longer from this factor on.
const LONGER: f64 = 1.15;
/// Answers that may be missing to a router before the next is asked: it is silent then.
const SILENT: usize = 3;

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopPacket {
    /// After so many routers it comes to its end; 255 goes all the way.
    pub ttl: u8,
    /// Bytes of IP.
    pub bytes: u32,
}

/// The version of IP: it decides how much of a probe a router quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Bytes of the headers of IP and UDP.
    pub fn headers(self) -> u32 {
        match self {
            IpVersion::V4 => 28,
            IpVersion::V6 => 48,
        }
    }

    /// The probe from whose size on an ICMP error grows no more: 576 bytes (RFC 1812 section 4.3.2.3), 1280 bytes (RFC 4443
    /// section 2.4c), less the error's own headers.
    fn longest_quotation(self) -> u32 {
        match self {
            IpVersion::V4 => 576 - 28,
            IpVersion::V6 => 1280 - 48,
        }
    }
}

/// What came back for a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HopReply {
    /// When it came, ns since the packet, or for a train since its first packet, was sent.
    pub after_ns: f64,
    /// Who sent it.
    pub from: IpAddr,
    /// Bytes of IP of the reply.
    pub bytes: u32,
    /// It is the host itself.
    pub is_host: bool,
}

/// A hop: a router or the host, and the link before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hop {
    /// Its number, from 1.
    pub hop: u8,
    /// Who answers there; `None` where nobody does.
    pub address: Option<IpAddr>,
    /// The smallest round-trip time, milliseconds.
    pub rtt_ms: Option<f64>,
    /// The link before it by pathchar, bit/s; `None` where it takes less time than can be told.
    pub link_bps: Option<Interval>,
    /// How long pathneck's train is there, microseconds.
    pub train_us: Option<f64>,
    /// Bytes of IP of its smallest and of its largest reply.
    pub reply_bytes: Option<(u32, u32)>,
    /// The link's value is that of a link as fast in both directions: replies grew with the probes.
    pub assumes_equal_directions: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HopsAnswer {
    /// All hops as far as somebody answered.
    pub hops: Vec<Hop>,
    /// The hop behind the narrowest link.
    pub bottleneck: Option<u8>,
    /// By pathchar.
    pub by_slopes: Option<u8>,
    /// By pathneck.
    pub by_trains: Option<u8>,
    /// The host answered.
    pub reached: bool,
    /// Bytes of IP of the largest probe.
    pub packet_bytes: u32,
    /// Whether to believe it.
    pub validity: Validity,
}

/// What to send next: packets back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Slopes { ttl: u8, number: usize },
    Trains { number: usize },
    Done,
}

/// The measurement: send what [`Hops::next`] says, and tell [`Hops::take`] what came back.
#[derive(Debug, Clone)]
pub struct Hops {
    mtu: u32,
    version: IpVersion,
    most: u8,
    resolution_ns: f64,
    phase: Phase,
    found: Vec<Found>,
    reached: bool,
}

/// What is known of a hop.
#[derive(Debug, Clone, Default)]
struct Found {
    address: Option<IpAddr>,
    /// Of each size the probe with the smallest round-trip time.
    least: Vec<Option<Trip>>,
    silent: usize,
    trains: Vec<f64>,
}

/// A probe and its reply.
#[derive(Debug, Clone, Copy)]
struct Trip {
    bytes: u32,
    reply_bytes: u32,
    ns: f64,
}

impl Hops {
    /// A path of at most `most` hops that takes packets of `mtu` bytes; times are exact to `resolution_ns`.
    pub fn new(most: u8, mtu: u32, version: IpVersion, resolution_ns: f64) -> Self {
        let phase = if most == 0 { Phase::Done } else { Phase::Slopes { ttl: 1, number: 0 } };
        Hops {
            mtu: mtu.max(SMALL * 4),
            version,
            most,
            resolution_ns,
            phase,
            found: Vec::new(),
            reached: false,
        }
    }

    /// Where probes whose replies have one size differ by enough all are such; else half of them are, if there are any.
    fn size(&self, index: usize) -> u32 {
        let longest = self.version.longest_quotation();
        let spread = |from: u32, to: u32, index: usize, count: usize| {
            from + (to - from) * index as u32 / (count as u32 - 1)
        };
        let half = SIZES / 2;
        if self.mtu < longest + 8 * SIZES as u32 {
            spread(SMALL, self.mtu, index, SIZES)
        } else if self.mtu - longest >= longest - SMALL {
            spread(longest, self.mtu, index, SIZES)
        } else if index < half {
            spread(SMALL, longest, index, half)
        } else {
            spread(longest + 8, self.mtu, index - half, half)
        }
    }

    /// A router says that only packets of `fits` bytes pass: the hop is measured anew with such. False where that is no news.
    pub fn too_big(&mut self, fits: u32) -> bool {
        let fits = fits.max(SMALL * 4);
        if fits >= self.mtu {
            return false;
        }
        self.mtu = fits;
        if let Phase::Slopes { ttl, number } = self.phase {
            if number > 0 {
                self.found.pop();
            }
            self.phase = Phase::Slopes { ttl, number: 0 };
        }
        true
    }

    /// The packets to send back to back; none when all is known.
    pub fn next(&self) -> Vec<HopPacket> {
        match self.phase {
            Phase::Slopes { ttl, number } => vec![HopPacket { ttl, bytes: self.size(number % SIZES) }],
            Phase::Trains { .. } => {
                let hops = 1..=self.found.len() as u8;
                let small = |ttl| HopPacket { ttl, bytes: SMALL };
                let load = std::iter::repeat_n(HopPacket { ttl: 255, bytes: self.mtu }, LOAD);
                hops.clone().map(small).chain(load).chain(hops.rev().map(small)).collect()
            }
            Phase::Done => Vec::new(),
        }
    }

    /// What came back for each of the packets, in their order.
    pub fn take(&mut self, replies: &[Option<HopReply>]) {
        match self.phase {
            Phase::Slopes { ttl, number } => self.take_one(ttl, number, replies.first().copied().flatten()),
            Phase::Trains { number } => {
                self.take_train(replies);
                self.phase =
                    if number + 1 < TRAINS { Phase::Trains { number: number + 1 } } else { Phase::Done };
            }
            Phase::Done => {}
        }
    }

    /// The hop asked now limits how often it answers, as Linux does (icmp_ratelimit): it is asked less often.
    pub fn slow_down(&mut self) {
        if let Some(found) = self.found.last_mut() {
            found.silent = found.silent.max(SILENT);
        }
    }

    fn take_one(&mut self, ttl: u8, number: usize, reply: Option<HopReply>) {
        if number == 0 {
            self.found.push(Found { least: vec![None; SIZES], ..Found::default() });
        }
        let bytes = self.size(number % SIZES);
        let Some(found) = self.found.last_mut() else { return };
        match reply {
            Some(reply) => {
                found.address = Some(reply.from);
                self.reached |= reply.is_host;
                let own = &mut found.least[number % SIZES];
                if own.is_none_or(|own| reply.after_ns < own.ns) {
                    *own = Some(Trip { bytes, reply_bytes: reply.bytes, ns: reply.after_ns });
                }
            }
            None => found.silent += 1,
        }
        let gives_up = found.address.is_none() && found.silent >= SILENT;
        let repeats = if found.silent >= SILENT { REPEATS_OF_LIMITED } else { REPEATS };
        self.phase = if number + 1 < SIZES * repeats && !gives_up {
            Phase::Slopes { ttl, number: number + 1 }
        } else if self.reached || ttl >= self.most || self.all_silent() {
            self.end_of_path();
            if self.found.is_empty() { Phase::Done } else { Phase::Trains { number: 0 } }
        } else {
            Phase::Slopes { ttl: ttl + 1, number: 0 }
        };
    }

    /// Five silent ones in a row are the end.
    fn all_silent(&self) -> bool {
        self.found.len() >= 5 && self.found.iter().rev().take(5).all(|found| found.address.is_none())
    }

    fn end_of_path(&mut self) {
        while self.found.last().is_some_and(|found| found.address.is_none()) {
            self.found.pop();
        }
    }

    fn take_train(&mut self, replies: &[Option<HopReply>]) {
        let count = self.found.len();
        for (index, found) in self.found.iter_mut().enumerate() {
            let (first, last) = (replies.get(index), replies.get(2 * count + LOAD - 1 - index));
            let (Some(Some(first)), Some(Some(last))) = (first, last) else { continue };
            if first.from == last.from && last.after_ns > first.after_ns {
                found.trains.push(last.after_ns - first.after_ns);
            }
        }
    }

    fn slopes(&self, found: &Found) -> Slopes {
        let points: Vec<(u32, u32, f64)> =
            found.least.iter().flatten().map(|trip| (trip.bytes, trip.reply_bytes, trip.ns)).collect();
        Slopes::of(&points, self.resolution_ns)
    }

    /// What is known.
    pub fn answer(&self) -> HopsAnswer {
        let mut hops = Vec::new();
        let mut before = Slopes::ORIGIN;
        for (index, found) in self.found.iter().enumerate() {
            let slopes = self.slopes(found);
            let step = slopes.step_from(&before);
            // A silent router's link is measured together with the next.
            if slopes.is_known() {
                before = slopes;
            }
            let replies = found.least.iter().flatten().map(|trip| trip.reply_bytes);
            hops.push(Hop {
                hop: index as u8 + 1,
                address: found.address,
                rtt_ms: least(found.least.iter().flatten().map(|trip| trip.ns)).map(|ns| ns / 1e6),
                link_bps: step.map(|step| rate_of(step.value)),
                train_us: median(&found.trains).map(|ns| ns / 1e3),
                reply_bytes: replies.clone().min().zip(replies.max()),
                assumes_equal_directions: step.is_some_and(|step| step.assumes_equal_directions),
            });
        }
        let by_slopes = hops
            .iter()
            .filter_map(|hop| Some((hop.hop, hop.link_bps?.value)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(hop, _)| hop);
        let by_trains = by_trains(&hops);
        let (bottleneck, doubts) = self.judge(&hops, by_slopes, by_trains);
        HopsAnswer {
            bottleneck,
            by_slopes,
            by_trains,
            reached: self.reached,
            packet_bytes: self.mtu,
            validity: Validity::of(doubts, || match hops.iter().any(|hop| hop.assumes_equal_directions) {
                true => {
                    "both methods name the same link; rates marked with ~ hold for links as fast in both \
                         directions, because replies grew with the packets; intervals cover other links too"
                        .into()
                }
                false => "both methods name the same link".into(),
            }),
            hops,
        }
    }

    fn judge(&self, hops: &[Hop], by_slopes: Option<u8>, by_trains: Option<u8>) -> (Option<u8>, Vec<String>) {
        let mut doubts = Vec::new();
        if !self.reached {
            doubts.push("the host did not answer: links behind the last router are not known".into());
        }
        if hops.iter().any(|hop| hop.address.is_none()) {
            doubts.push("some routers do not answer: their links are counted to the next".into());
        }
        let bottleneck = match (by_slopes, by_trains) {
            (Some(a), Some(b)) if a != b => {
                doubts.push(format!("slopes say hop {a}, trains hop {b}"));
                // Trains know nothing of the way back, which the slope may be of.
                let assumed = hops.iter().any(|hop| hop.hop == a && hop.assumes_equal_directions);
                Some(if assumed { b } else { a })
            }
            (None, None) => {
                doubts.push("no link takes longer than can be told".into());
                None
            }
            (a, None) => {
                doubts.push("by slopes alone: trains got too few answers".into());
                a
            }
            (a, b) => a.or(b),
        };
        (bottleneck, doubts)
    }
}

/// The rate at which a byte takes so many ns. A link that may take no time has no upper bound.
fn rate_of(step: Estimate) -> Interval {
    let high = if step.low() > 0.0 { 8e9 / step.low() } else { f64::INFINITY };
    Interval { low: 8e9 / step.high(), value: 8e9 / step.value, high }
}

/// The last hop at which trains get longer.
fn by_trains(hops: &[Hop]) -> Option<u8> {
    let mut longest: Option<(u8, f64)> = None;
    for (hop, train) in hops.iter().filter_map(|hop| Some((hop.hop, hop.train_us?))) {
        if longest.is_none_or(|(_, before)| train > LONGER * before) {
            longest = Some((hop, train));
        }
    }
    longest.map(|(hop, _)| hop)
}
