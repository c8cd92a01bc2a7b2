//! Finds the hops of a path as traceroute(8) does: the times to live of small packets expire at one router
//! after another, which reports this by ICMP. The host is the last hop: it reports that the port is closed.
//!
//! It sends three packets to a hop. [`Hops`](crate::Hops) sends hundreds, and measures the links. Routers
//! that distribute flows over several paths may send the packets to different routers at one distance,
//! because each packet has another port.

use std::net::IpAddr;

use crate::{
    hops::{HopProbe, HopReply},
    statistics::{median, minimum},
};

/// Number of packets to each hop, as traceroute(8).
const PACKETS_PER_HOP: u32 = 3;
/// Number of packets to a hop that does not reply.
const PACKETS_TO_SILENT_HOP: u32 = 2;
/// Number of silent hops in succession that end the path.
const MAX_SILENT_HOPS: usize = 5;
/// Size of a packet, bytes of IP.
const PACKET_BYTES: u32 = 64;

/// A router of the path, or the host.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedHop {
    /// Number of the hop, from 1.
    pub hop: u8,
    /// Source addresses of the replies, in the order of arrival; none without a reply.
    pub addresses: Vec<IpAddr>,
    /// Minimum round-trip time, microseconds.
    pub min_rtt_us: Option<f64>,
    /// Median round-trip time, microseconds.
    pub median_rtt_us: Option<f64>,
}

/// The result of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceResult {
    /// All hops up to the last one that replied.
    pub hops: Vec<TracedHop>,
    /// Whether the host replied; it is the last hop then, and the round-trip times of the hop are the host's.
    pub reached: bool,
    /// The router that reports that it cannot or may not forward packets to the host.
    pub end_of_path: Option<IpAddr>,
    /// Whether the trace was not cut off.
    pub is_complete: bool,
}

/// The trace: send the packet of [`Trace::next_packet`], and pass its reply to [`Trace::add_reply`], until
/// there is no next packet.
#[derive(Debug, Clone)]
pub struct Trace {
    max_hops: u8,
    hops: Vec<TraceSamples>,
    reached: bool,
    end_of_path: Option<IpAddr>,
    is_complete: bool,
}

/// Samples of a hop.
#[derive(Debug, Clone, Default)]
struct TraceSamples {
    addresses: Vec<IpAddr>,
    times_ns: Vec<f64>,
    packets: u32,
}

impl Trace {
    /// Traces a path of at most `max_hops` hops.
    pub fn new(max_hops: u8) -> Self {
        Trace {
            max_hops,
            hops: vec![TraceSamples::default()],
            reached: false,
            end_of_path: None,
            is_complete: max_hops == 0,
        }
    }

    /// The next packet; `None` when the trace is complete.
    pub fn next_packet(&self) -> Option<HopProbe> {
        (!self.is_complete).then_some(HopProbe { ttl: self.hops.len() as u8, bytes: PACKET_BYTES })
    }

    /// Adds the reply to the packet of [`Trace::next_packet`]; `None` without a reply.
    pub fn add_reply(&mut self, reply: Option<HopReply>) {
        let Some(hop) = self.hops.last_mut().filter(|_| !self.is_complete) else { return };
        hop.packets += 1;
        if let Some(reply) = reply {
            if !hop.addresses.contains(&reply.from) {
                hop.addresses.push(reply.from);
            }
            if reply.is_host && !self.reached {
                // Routers of a longer path are at the same distance.
                hop.times_ns.clear();
            }
            if reply.is_host || !self.reached {
                hop.times_ns.push(reply.after_ns.max(0.0));
            }
            self.reached |= reply.is_host;
            if reply.is_unreachable {
                self.end_of_path = Some(reply.from);
            }
        }
        let packets = if hop.addresses.is_empty() { PACKETS_TO_SILENT_HOP } else { PACKETS_PER_HOP };
        if hop.packets < packets {
            return;
        }
        let is_last = self.reached
            || self.end_of_path.is_some()
            || self.hops.len() >= usize::from(self.max_hops)
            || self.is_end_silent();
        if is_last {
            self.is_complete = true;
        } else {
            self.hops.push(TraceSamples::default());
        }
    }

    fn is_end_silent(&self) -> bool {
        self.hops.len() >= MAX_SILENT_HOPS
            && self.hops.iter().rev().take(MAX_SILENT_HOPS).all(|hop| hop.addresses.is_empty())
    }

    /// The result so far.
    pub fn result(&self) -> TraceResult {
        let hops = self.hops.iter().enumerate().map(|(index, hop)| TracedHop {
            hop: index as u8 + 1,
            addresses: hop.addresses.clone(),
            min_rtt_us: minimum(hop.times_ns.iter().copied()).map(|ns| ns / 1e3),
            median_rtt_us: median(&hop.times_ns).map(|ns| ns / 1e3),
        });
        let mut hops: Vec<TracedHop> = hops.collect();
        let end_of_path = self.end_of_path.filter(|_| !self.reached);
        // A router that rejects packets (an administrative filter) replies to those of the next hop too.
        let is_repeated = matches!(&hops[..], [.., before, last] if before.addresses == last.addresses);
        if end_of_path.is_some() && is_repeated {
            hops.pop();
        }
        while hops.last().is_some_and(|hop| hop.addresses.is_empty()) {
            hops.pop();
        }
        TraceResult { hops, reached: self.reached, end_of_path, is_complete: self.is_complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(router: u8) -> IpAddr {
        [10, 0, 0, router].into()
    }

    fn reply(router: u8, is_host: bool, is_unreachable: bool) -> Option<HopReply> {
        Some(HopReply {
            after_ns: f64::from(router) * 1e6,
            from: ip(router),
            bytes: 56,
            is_host,
            is_unreachable,
        })
    }

    /// Traces a path whose replies depend on the time to live and on the number of the packet. Returns the
    /// result, and the number of packets sent.
    fn trace(reply_of: impl Fn(u8, usize) -> Option<HopReply>) -> (TraceResult, usize) {
        let mut trace = Trace::new(30);
        let mut sent = 0;
        while let Some(packet) = trace.next_packet() {
            trace.add_reply(reply_of(packet.ttl, sent));
            sent += 1;
        }
        (trace.result(), sent)
    }

    fn addresses(result: &TraceResult) -> Vec<Vec<IpAddr>> {
        result.hops.iter().map(|hop| hop.addresses.clone()).collect()
    }

    #[test]
    fn the_host_ends_the_path_and_silent_routers_are_hops() {
        let (result, sent) = trace(|ttl, _| match ttl {
            2 => None,
            _ => reply(ttl, ttl == 4, false),
        });
        assert_eq!(addresses(&result), [vec![ip(1)], vec![], vec![ip(3)], vec![ip(4)]]);
        assert!(result.reached && result.is_complete && result.end_of_path.is_none());
        let times: Vec<Option<f64>> = result.hops.iter().map(|hop| hop.min_rtt_us).collect();
        assert_eq!(times, [Some(1e3), None, Some(3e3), Some(4e3)]);
        assert_eq!(sent, 3 * 3 + 2);
    }

    #[test]
    fn a_silent_host_ends_after_five_hops() {
        let (result, sent) = trace(|ttl, _| if ttl <= 2 { reply(ttl, false, false) } else { None });
        assert_eq!((result.hops.len(), result.reached, result.is_complete), (2, false, true));
        assert_eq!(sent, 2 * 3 + 5 * 2);
        let (silent, _) = trace(|_, _| None);
        assert!(silent.hops.is_empty());
        // A loop of routers.
        let (endless, _) = trace(|ttl, _| reply(1 + ttl % 2, false, false));
        assert_eq!((endless.hops.len(), endless.reached), (30, false));
    }

    #[test]
    fn a_router_that_forwards_no_packets_to_the_host_is_the_last_hop() {
        // The second router has no route; or a filter, which it applies only to packets that it would
        // forward.
        let no_route = trace(|ttl, _| reply(ttl.min(2), false, ttl >= 2));
        let filter = trace(|ttl, _| reply(ttl.min(2), false, ttl >= 3));
        for (result, _) in [no_route, filter] {
            assert_eq!(addresses(&result), [[ip(1)], [ip(2)]]);
            assert_eq!((result.reached, result.end_of_path), (false, Some(ip(2))));
        }
    }

    #[test]
    fn parallel_paths_are_shown_and_the_last_round_trips_are_the_hosts() {
        // At the second hop some packets are at a router of a longer path.
        let (result, _) = trace(|ttl, sent| match ttl {
            1 => reply(1, false, false),
            _ if sent == 4 => reply(9, true, false),
            _ => reply(2, false, false),
        });
        assert_eq!(addresses(&result)[1], [ip(2), ip(9)]);
        assert_eq!((result.reached, result.hops.len()), (true, 2));
        let last = &result.hops[1];
        assert_eq!((last.min_rtt_us, last.median_rtt_us), (Some(9e3), Some(9e3)));
    }

    #[test]
    fn a_trace_that_is_cut_off_has_its_hops_so_far() {
        let mut trace = Trace::new(30);
        for router in [1, 1, 1, 2] {
            trace.add_reply(reply(router, false, false));
        }
        let result = trace.result();
        assert_eq!((result.hops.len(), result.reached, result.is_complete), (2, false, false));
        assert_eq!(Trace::new(0).next_packet(), None);
    }
}
