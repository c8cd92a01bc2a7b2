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

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    answer::{Interval, Validity},
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

/// What came back for a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HopReply {
    /// When it came, ns since the packet, or for a train since its first packet, was sent.
    pub after_ns: f64,
    /// Who sent it.
    pub from: IpAddr,
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
    /// Of each size the smallest round-trip time, ns.
    least: Vec<Option<f64>>,
    silent: usize,
    trains: Vec<f64>,
}

impl Hops {
    /// A path of at most `most` hops that takes packets of `mtu` bytes; times are exact to `resolution_ns`.
    pub fn new(most: u8, mtu: u32, resolution_ns: f64) -> Self {
        let phase = if most == 0 { Phase::Done } else { Phase::Slopes { ttl: 1, number: 0 } };
        Hops { mtu: mtu.max(SMALL * 4), most, resolution_ns, phase, found: Vec::new(), reached: false }
    }

    fn size(&self, index: usize) -> u32 {
        SMALL + (self.mtu - SMALL) * index as u32 / (SIZES as u32 - 1)
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
        let Some(found) = self.found.last_mut() else { return };
        match reply {
            Some(reply) => {
                found.address = Some(reply.from);
                self.reached |= reply.is_host;
                let own = &mut found.least[number % SIZES];
                *own = Some(own.map_or(reply.after_ns, |own| own.min(reply.after_ns)));
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

    /// Slope of the smallest round-trip times over the sizes, ns a byte, and how uncertain it is: the median of the slopes
    /// between all pairs (Theil 1950, Sen 1968), which times that never were undisturbed hardly move.
    fn slope(&self, found: &Found) -> Option<(f64, f64)> {
        let points: Vec<(f64, f64)> = found
            .least
            .iter()
            .enumerate()
            .filter_map(|(index, least)| Some((f64::from(self.size(index)), (*least)?)))
            .collect();
        if points.len() < SIZES / 2 {
            return None;
        }
        let mut slopes = Vec::new();
        for (i, a) in points.iter().enumerate() {
            slopes.extend(points[i + 1..].iter().map(|b| (b.1 - a.1) / (b.0 - a.0)));
        }
        let slope = median(&slopes)?;
        let rests: Vec<f64> = points.iter().map(|p| p.1 - slope * p.0).collect();
        let middle = median(&rests)?;
        let off = median(&rests.iter().map(|rest| (rest - middle).abs()).collect::<Vec<_>>())?;
        let span = f64::from(self.mtu - SMALL);
        Some((slope, 2.0 * (off + self.resolution_ns) / span))
    }

    /// What is known.
    pub fn answer(&self) -> HopsAnswer {
        let mut hops = Vec::new();
        let mut before = Some((0.0, 0.0));
        for (index, found) in self.found.iter().enumerate() {
            let slope = self.slope(found);
            let link_bps = match (before, slope) {
                (Some(before), Some(slope)) => {
                    let (step, error) = (slope.0 - before.0, slope.1 + before.1);
                    (step > error.min(step.abs())).then(|| Interval {
                        low: 8e9 / (step + error),
                        value: 8e9 / step,
                        high: if step > error { 8e9 / (step - error) } else { f64::MAX },
                    })
                }
                _ => None,
            };
            // A silent router's link is measured together with the next.
            before = slope.or(before);
            hops.push(Hop {
                hop: index as u8 + 1,
                address: found.address,
                rtt_ms: least(found.least.iter().flatten().copied()).map(|ns| ns / 1e6),
                link_bps,
                train_us: median(&found.trains).map(|ns| ns / 1e3),
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
            validity: Validity::of(doubts, || "both methods name the same link".into()),
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
                Some(a)
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
