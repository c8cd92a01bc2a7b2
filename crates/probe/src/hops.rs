//! Measures each link of a path by ICMP errors of the routers, without cooperation of the other host.
//!
//! It combines two methods that fail for different reasons:
//! - *pathchar* (Jacobson 1997; Downey, SIGCOMM 1999): many packets of several sizes are sent to each router,
//!   and the minimum round-trip time of each size counts. These lie on a line. Its slope increases from
//!   router to router by the serialization time per byte of the link between them.
//! - *pathneck* (Hu et al., SIGCOMM 2004): the TTLs of small packets before and after a train of large ones
//!   expire at one router after another. The time between the two replies of a router is the length of the
//!   train there. It increases at a link that is narrower than all before.
//!
//! Slow or rate-limited replies of routers disturb the first method, and cross traffic disturbs the second.
//!
//! An ICMP error quotes the packet that caused it (RFC 792: 8 bytes of it; RFC 1812: as much as fits into 576
//! bytes; RFC 4443: as much as fits into 1280 bytes). So the error may grow with the probe, and the backward
//! direction then adds to the slope. The size of each reply is known, so that there are two slopes (see
//! [`Slopes`]): over probes whose replies have a constant size, of the forward direction; over probes whose
//! replies grow with them, of both directions together. If only the second is precise enough, the link is
//! assumed to have the same rate in both directions. The interval then covers other ratios, and the result
//! reports this.

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    result::{Interval, Validity},
    slopes::{SlopeEstimate, Slopes},
    statistics::{median, minimum},
};

/// Number of packet sizes of pathchar.
const SIZES: usize = 12;
/// Number of packets of each size to each router.
const REPEATS: usize = 10;
/// Number of packets of each size to a router that limits the rate of its ICMP errors.
const REPEATS_IF_RATE_LIMITED: usize = 2;
/// Size of the smallest packet, bytes of IP.
const MIN_PACKET_BYTES: u32 = 64;
/// Number of large packets of a pathneck train.
const LOAD_PACKETS: usize = 60;
/// Number of pathneck trains.
const TRAINS: usize = 10;
/// A train counts as longer if its length increases by at least this factor.
const MIN_INCREASE: f64 = 1.15;
/// Number of missing replies after which a router counts as silent.
const MAX_MISSING_REPLIES: usize = 3;

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopProbe {
    /// Time to live; 255 reaches the host.
    pub ttl: u8,
    /// Size, bytes of IP.
    pub bytes: u32,
}

/// The version of IP, which determines how much of a probe a router quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Size of the headers of IP and UDP, bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            IpVersion::V4 => 28,
            IpVersion::V6 => 48,
        }
    }

    /// Size of the largest probe that an ICMP error quotes completely: 576 bytes (RFC 1812 section 4.3.2.3)
    /// or 1280 bytes (RFC 4443 section 2.4c), minus the error's own headers.
    fn max_quotation(self) -> u32 {
        match self {
            IpVersion::V4 => 576 - 28,
            IpVersion::V6 => 1280 - 48,
        }
    }
}

/// The reply to a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HopReply {
    /// Time since the packet was sent, or for a train since its first packet, ns.
    pub after_ns: f64,
    /// Address of the sender.
    pub from: IpAddr,
    /// Size of the reply, bytes of IP.
    pub bytes: u32,
    /// Whether the destination host sent it.
    pub is_host: bool,
    /// Whether a router reports that it cannot or may not forward the packet (destination unreachable, RFC
    /// 792): no later hop can reply.
    pub is_unreachable: bool,
}

/// A hop: a router or the host, with the link before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hop {
    /// Number of the hop, from 1.
    pub hop: u8,
    /// Source address of the replies; `None` without replies.
    pub address: Option<IpAddr>,
    /// Minimum round-trip time, milliseconds.
    pub rtt_ms: Option<f64>,
    /// Rate of the link before it by pathchar, bit/s; `None` if the serialization time is below the
    /// resolution.
    pub link_bps: Option<Interval>,
    /// Length of pathneck's train at this hop, microseconds.
    pub train_us: Option<f64>,
    /// Sizes of its smallest and its largest reply, bytes of IP.
    pub reply_bytes: Option<(u32, u32)>,
    /// Whether the link's rate assumes the same rate in both directions, because replies grew with the
    /// probes.
    pub assumes_equal_directions: bool,
}

/// The result of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HopsResult {
    /// All hops up to the last one that replied.
    pub hops: Vec<Hop>,
    /// The hop after the narrowest link.
    pub bottleneck: Option<u8>,
    /// The bottleneck hop by pathchar's method alone.
    pub by_slopes: Option<u8>,
    /// The bottleneck hop by pathneck's method alone.
    pub by_trains: Option<u8>,
    /// Whether the destination host replied.
    pub reached: bool,
    /// Size of the largest probe, bytes of IP.
    pub packet_bytes: u32,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// The present phase of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HopsPhase {
    Slopes { ttl: u8, number: usize },
    Trains { number: usize },
    Done,
}

/// The measurement: send the packets of [`Hops::next_packets`], and pass the replies to
/// [`Hops::add_replies`], until there are no more packets.
#[derive(Debug, Clone)]
pub struct Hops {
    mtu: u32,
    version: IpVersion,
    max_hops: u8,
    resolution_ns: f64,
    phase: HopsPhase,
    hops: Vec<HopSamples>,
    reached: bool,
    /// The router that cannot or may not forward packets to the host.
    end_of_path: Option<IpAddr>,
}

/// Samples of a hop.
#[derive(Debug, Clone, Default)]
struct HopSamples {
    address: Option<IpAddr>,
    /// For each size the probe with the minimum round-trip time.
    fastest: Vec<Option<ProbeRoundTrip>>,
    missing_replies: usize,
    /// Lengths of pathneck's trains, ns.
    train_lengths_ns: Vec<f64>,
}

/// A probe and its reply.
#[derive(Debug, Clone, Copy)]
struct ProbeRoundTrip {
    bytes: u32,
    reply_bytes: u32,
    ns: f64,
}

impl Hops {
    /// Measures a path of at most `max_hops` hops with packets of up to `mtu` bytes. `resolution_ns` is the
    /// resolution of the times.
    pub fn new(max_hops: u8, mtu: u32, version: IpVersion, resolution_ns: f64) -> Self {
        let phase = if max_hops == 0 { HopsPhase::Done } else { HopsPhase::Slopes { ttl: 1, number: 0 } };
        Hops {
            mtu: mtu.max(MIN_PACKET_BYTES * 4),
            version,
            max_hops,
            resolution_ns,
            phase,
            hops: Vec::new(),
            reached: false,
            end_of_path: None,
        }
    }

    /// Size of the probe with this index. If probes with replies of constant size can differ enough in size,
    /// all probes have such replies. Otherwise half of them have, or none.
    fn probe_size(&self, index: usize) -> u32 {
        let longest = self.version.max_quotation();
        let spread = |from: u32, to: u32, index: usize, count: usize| {
            from + (to - from) * index as u32 / (count as u32 - 1)
        };
        let half = SIZES / 2;
        if self.mtu < longest + 8 * SIZES as u32 {
            spread(MIN_PACKET_BYTES, self.mtu, index, SIZES)
        } else if self.mtu - longest >= longest - MIN_PACKET_BYTES {
            spread(longest, self.mtu, index, SIZES)
        } else if index < half {
            spread(MIN_PACKET_BYTES, longest, index, half)
        } else {
            spread(longest + 8, self.mtu, index - half, half)
        }
    }

    /// Reduces the packet size because a router reported the MTU `mtu`, and restarts the present hop. Returns
    /// false if packets are not larger already.
    pub fn reduce_mtu(&mut self, mtu: u32) -> bool {
        let mtu = mtu.max(MIN_PACKET_BYTES * 4);
        if mtu >= self.mtu {
            return false;
        }
        self.mtu = mtu;
        if let HopsPhase::Slopes { ttl, number } = self.phase {
            if number > 0 {
                self.hops.pop();
            }
            self.phase = HopsPhase::Slopes { ttl, number: 0 };
        }
        true
    }

    /// The packets to send back to back; none when the measurement is complete.
    pub fn next_packets(&self) -> Vec<HopProbe> {
        match self.phase {
            HopsPhase::Slopes { ttl, number } => {
                vec![HopProbe { ttl, bytes: self.probe_size(number % SIZES) }]
            }
            HopsPhase::Trains { .. } => {
                let hops = 1..=self.hops.len() as u8;
                let small = |ttl| HopProbe { ttl, bytes: MIN_PACKET_BYTES };
                let load = std::iter::repeat_n(HopProbe { ttl: 255, bytes: self.mtu }, LOAD_PACKETS);
                hops.clone().map(small).chain(load).chain(hops.rev().map(small)).collect()
            }
            HopsPhase::Done => Vec::new(),
        }
    }

    /// Adds the reply to each of the packets, in the same order; `None` without a reply.
    pub fn add_replies(&mut self, replies: &[Option<HopReply>]) {
        match self.phase {
            HopsPhase::Slopes { ttl, number } => {
                self.add_reply(ttl, number, replies.first().copied().flatten())
            }
            HopsPhase::Trains { number } => {
                self.add_train(replies);
                self.phase = if number + 1 < TRAINS {
                    HopsPhase::Trains { number: number + 1 }
                } else {
                    HopsPhase::Done
                };
            }
            HopsPhase::Done => {}
        }
    }

    /// Reduces the number of packets to the present hop, which limits the rate of its ICMP errors, as Linux
    /// does (icmp_ratelimit).
    pub fn reduce_repeats(&mut self) {
        if let Some(hop) = self.hops.last_mut() {
            hop.missing_replies = hop.missing_replies.max(MAX_MISSING_REPLIES);
        }
    }

    fn add_reply(&mut self, ttl: u8, number: usize, reply: Option<HopReply>) {
        if number == 0 {
            self.hops.push(HopSamples { fastest: vec![None; SIZES], ..HopSamples::default() });
        }
        let bytes = self.probe_size(number % SIZES);
        let Some(hop) = self.hops.last_mut() else { return };
        match reply {
            Some(reply) => {
                hop.address = Some(reply.from);
                self.reached |= reply.is_host;
                if reply.is_unreachable {
                    self.end_of_path = Some(reply.from);
                }
                let own = &mut hop.fastest[number % SIZES];
                if own.is_none_or(|own| reply.after_ns < own.ns) {
                    *own = Some(ProbeRoundTrip { bytes, reply_bytes: reply.bytes, ns: reply.after_ns });
                }
            }
            None => hop.missing_replies += 1,
        }
        let is_silent = hop.address.is_none() && hop.missing_replies >= MAX_MISSING_REPLIES;
        let repeats =
            if hop.missing_replies >= MAX_MISSING_REPLIES { REPEATS_IF_RATE_LIMITED } else { REPEATS };
        // A router that rejects packets (an administrative filter) replies to those of the next hop too.
        let is_repeated = self.end_of_path.is_some() && self.is_last_router_repeated();
        self.phase = if number + 1 < SIZES * repeats && !is_silent && !is_repeated {
            HopsPhase::Slopes { ttl, number: number + 1 }
        } else if self.reached || self.end_of_path.is_some() || ttl >= self.max_hops || self.is_end_silent() {
            if is_repeated {
                self.hops.pop();
            }
            self.remove_silent_end();
            if self.hops.is_empty() { HopsPhase::Done } else { HopsPhase::Trains { number: 0 } }
        } else {
            HopsPhase::Slopes { ttl: ttl + 1, number: 0 }
        };
    }

    /// Whether the last two hops have one address.
    fn is_last_router_repeated(&self) -> bool {
        matches!(&self.hops[..], [.., before, last] if last.address.is_some() && last.address == before.address)
    }

    /// Whether the last five hops are silent, which ends the path.
    fn is_end_silent(&self) -> bool {
        self.hops.len() >= 5 && self.hops.iter().rev().take(5).all(|hop| hop.address.is_none())
    }

    fn remove_silent_end(&mut self) {
        while self.hops.last().is_some_and(|hop| hop.address.is_none()) {
            self.hops.pop();
        }
    }

    fn add_train(&mut self, replies: &[Option<HopReply>]) {
        let count = self.hops.len();
        for (index, hop) in self.hops.iter_mut().enumerate() {
            let (first, last) = (replies.get(index), replies.get(2 * count + LOAD_PACKETS - 1 - index));
            let (Some(Some(first)), Some(Some(last))) = (first, last) else { continue };
            if first.from == last.from && last.after_ns > first.after_ns {
                hop.train_lengths_ns.push(last.after_ns - first.after_ns);
            }
        }
    }

    fn slopes(&self, hop: &HopSamples) -> Slopes {
        let points: Vec<(u32, u32, f64)> =
            hop.fastest.iter().flatten().map(|trip| (trip.bytes, trip.reply_bytes, trip.ns)).collect();
        Slopes::estimate(&points, self.resolution_ns)
    }

    /// The result so far.
    pub fn result(&self) -> HopsResult {
        let mut hops = Vec::new();
        let mut before = Slopes::ORIGIN;
        for (index, hop) in self.hops.iter().enumerate() {
            let slopes = self.slopes(hop);
            let step = slopes.step_from(&before);
            // The link of a silent router is measured together with the next.
            if slopes.is_known() {
                before = slopes;
            }
            let replies = hop.fastest.iter().flatten().map(|trip| trip.reply_bytes);
            hops.push(Hop {
                hop: index as u8 + 1,
                address: hop.address,
                rtt_ms: minimum(hop.fastest.iter().flatten().map(|trip| trip.ns)).map(|ns| ns / 1e6),
                link_bps: step.map(|step| rate_of(step.value)),
                train_us: median(&hop.train_lengths_ns).map(|ns| ns / 1e3),
                reply_bytes: replies.clone().min().zip(replies.max()),
                assumes_equal_directions: step.is_some_and(|step| step.assumes_equal_directions),
            });
        }
        let by_slopes = hops
            .iter()
            .filter_map(|hop| Some((hop.hop, hop.link_bps?.value)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(hop, _)| hop);
        let by_trains = last_increase(&hops);
        let (bottleneck, warnings) = self.select_bottleneck(&hops, by_slopes, by_trains);
        HopsResult {
            bottleneck,
            by_slopes,
            by_trains,
            reached: self.reached,
            packet_bytes: self.mtu,
            validity: Validity::new(warnings, || match hops.iter().any(|hop| hop.assumes_equal_directions) {
                true => "both methods find the same link; rates marked with ~ assume the same rate in both \
                         directions, because replies grew with the packets; their intervals cover other \
                         ratios too"
                    .into(),
                false => "both methods find the same link".into(),
            }),
            hops,
        }
    }

    fn select_bottleneck(
        &self,
        hops: &[Hop],
        by_slopes: Option<u8>,
        by_trains: Option<u8>,
    ) -> (Option<u8>, Vec<String>) {
        let mut warnings = Vec::new();
        match self.end_of_path.filter(|_| !self.reached) {
            Some(router) => warnings.push(format!(
                "{router} reports that it cannot or may not forward packets to the host: later links are unknown"
            )),
            None if !self.reached => {
                warnings.push("the host did not reply: links after the last router are unknown".into())
            }
            None => {}
        }
        if hops.iter().any(|hop| hop.address.is_none()) {
            warnings
                .push("some routers do not reply: their links are measured together with the next".into());
        }
        let bottleneck = match (by_slopes, by_trains) {
            (Some(a), Some(b)) if a != b => {
                warnings.push(format!("slopes indicate hop {a}, trains hop {b}"));
                // The slope may be of the backward direction, which does not affect trains.
                let assumed = hops.iter().any(|hop| hop.hop == a && hop.assumes_equal_directions);
                Some(if assumed { b } else { a })
            }
            (None, None) => {
                warnings.push("the serialization time of every link is below the resolution".into());
                None
            }
            (a, None) => {
                warnings.push("by slopes alone: trains got too few replies".into());
                a
            }
            (None, b) => {
                warnings.push(
                    "by trains alone: the serialization time of every link is below the resolution".into(),
                );
                b
            }
            (a, b) => a.or(b),
        };
        (bottleneck, warnings)
    }
}

/// Converts a serialization time per byte, ns, to a rate. If the time may be zero, the rate has no upper
/// bound.
fn rate_of(step: SlopeEstimate) -> Interval {
    let high = if step.low() > 0.0 { 8e9 / step.low() } else { f64::INFINITY };
    Interval { low: 8e9 / step.high(), value: 8e9 / step.value, high }
}

/// The last hop at which trains become longer.
fn last_increase(hops: &[Hop]) -> Option<u8> {
    let mut longest: Option<(u8, f64)> = None;
    for (hop, train) in hops.iter().filter_map(|hop| Some((hop.hop, hop.train_us?))) {
        if longest.is_none_or(|(_, before)| train > MIN_INCREASE * before) {
            longest = Some((hop, train));
        }
    }
    longest.map(|(hop, _)| hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures a path whose replies depend on the time to live: the number of the replying router, and
    /// whether it reports that the host is unreachable. Returns the result, and the number of packets sent.
    fn measure(reply_of: impl Fn(u8) -> (u8, bool)) -> (HopsResult, usize) {
        let mut hops = Hops::new(30, 1500, IpVersion::V4, 1000.0);
        let mut sent = 0;
        while !hops.next_packets().is_empty() {
            let packets = hops.next_packets();
            sent += packets.len();
            let reply = |packet: &HopProbe| {
                let (router, is_unreachable) = reply_of(packet.ttl);
                Some(HopReply {
                    after_ns: f64::from(router) * 1e6 + f64::from(packet.bytes) * 80.0,
                    from: IpAddr::from([10, 0, 0, router]),
                    bytes: 56,
                    is_host: false,
                    is_unreachable,
                })
            };
            let replies: Vec<Option<HopReply>> = packets.iter().map(reply).collect();
            hops.add_replies(&replies);
        }
        (hops.result(), sent)
    }

    #[test]
    fn a_router_that_does_not_forward_to_the_host_is_the_last_hop() {
        // The second router has no route; or a filter, which it applies only to packets that it would
        // forward.
        let no_route = measure(|ttl| (ttl.min(2), ttl >= 2));
        let filter = measure(|ttl| (ttl.min(2), ttl >= 3));
        for (result, sent) in [no_route, filter] {
            let addresses: Vec<_> = result.hops.iter().filter_map(|hop| hop.address).collect();
            assert_eq!(addresses, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])]);
            assert!(!result.reached && !result.validity.valid);
            assert!(result.validity.reasons[0].starts_with("10.0.0.2 reports"), "{:?}", result.validity);
            assert!(sent <= 2 * SIZES * REPEATS + 1 + TRAINS * (LOAD_PACKETS + 4), "{sent} packets");
        }
    }

    #[test]
    fn a_result_by_trains_alone_is_not_valid() {
        // The routers' replies take the same time for packets of all sizes.
        let mut hops = Hops::new(30, 1500, IpVersion::V4, 10_000.0);
        while !hops.next_packets().is_empty() {
            let packets = hops.next_packets();
            let replies: Vec<Option<HopReply>> = (0..packets.len())
                .map(|number| {
                    Some(HopReply {
                        after_ns: 5_000.0 + number as f64 * 1000.0,
                        from: IpAddr::from([10, 0, 0, 1]),
                        bytes: 56,
                        is_host: true,
                        is_unreachable: false,
                    })
                })
                .collect();
            hops.add_replies(&replies);
        }
        let result = hops.result();
        assert_eq!((result.by_slopes, result.by_trains), (None, Some(1)));
        assert!(!result.validity.valid, "{:?}", result.validity);
    }
}
