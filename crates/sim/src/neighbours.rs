//! Address resolution: the first packet from a station to a neighbour waits for a request and its reply.
//!
//! Without it the first round trip of a run would be one too short. Waiting packets are limited, and dropped
//! after three requests without a reply (`__neigh_event_send`, `neigh_timer_handler`, net/core/neighbour.c).
//! Differences from RFC 826, RFC 4861 and Linux:
//! 1. The request is sent to the neighbour only, not to all.
//! 2. Entries never expire.
//! 3. The fragments of a datagram wait and are dropped together.
//! 4. A failed resolution is not reported: connections and echoes wait for their timeouts (Linux returns
//!    EHOSTUNREACH).

use std::collections::VecDeque;

use net::Packet;
use units::{Instant, Time};

use crate::compact_packet::CompactPacket;

/// Interval at which a request without a reply is repeated (`retrans_time`, net/ipv4/arp.c).
const RETRANS_TIME: Time = Time::from_secs(1);
/// Number of requests before the resolution fails (`mcast_probes`).
const MAX_REQUESTS: u32 = 3;
/// Memory of waiting packets: `unres_qlen_bytes`, by default `SK_WMEM_DEFAULT` (256 packets of 256 bytes)
/// since 4.14.
const MAX_WAITING_MEMORY: u64 = 256 * (256 + SK_BUFF + SHARED_INFO);
/// Packets that wait under Linux 2.4: `unres_qlen`.
const MAX_WAITING_24: usize = 3;
/// `sk_buff`, and `skb_shared_info` at the end of a packet's head, bytes.
const SK_BUFF: u64 = 256;
const SHARED_INFO: u64 = 320;
/// Space before a packet for its Ethernet header, and the bytes that `__ip_append_data`
/// (net/ipv4/ip_output.c) adds for alignment.
const HEADROOM: u64 = 16 + 15;
/// Largest packet whose data is contiguous in memory (`SKB_MAX_ALLOC`), bytes.
const MAX_CONTIGUOUS: u64 = 16_384 - SHARED_INFO;
const PAGE: u64 = 4096;
/// IP bytes of a request as a link counts them: an ARP packet has 28 after its Ethernet header.
pub(crate) const REQUEST_BYTES: u32 = 28;

/// The quantity that limits the packets that wait for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingLimit {
    /// Their memory.
    Memory,
    /// Their number (Linux 2.4).
    Packets,
}

/// Packets that a station dropped while they waited for an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WaitingDrops {
    /// Too many waited.
    pub(crate) queue_full: u64,
    /// No request had a reply.
    pub(crate) no_reply: u64,
}

/// The stations' neighbour tables.
#[derive(Debug)]
pub(crate) struct NeighbourTables {
    /// The resolved neighbours of each station, sorted.
    resolved: Vec<Vec<u32>>,
    pending: Vec<Resolution>,
    /// By station.
    limits: Vec<WaitingLimit>,
    dropped: Vec<WaitingDrops>,
    /// Every neighbour is known from the beginning.
    is_fixed: bool,
}

/// A resolution in progress.
#[derive(Debug)]
struct Resolution {
    requester: u32,
    target: u32,
    /// Requests sent so far.
    requests: u32,
    /// When the next request is sent, or the resolution fails.
    next_at: Instant,
    /// Waiting packets with their destination stations.
    waiting: VecDeque<(u32, CompactPacket)>,
    /// Their memory, bytes.
    memory: u64,
}

impl Resolution {
    /// Adds a packet. Drops the oldest ones if it exceeds the limit; returns their number.
    fn hold(&mut self, limit: WaitingLimit, to: u32, packet: CompactPacket) -> u64 {
        let own = memory(&packet);
        let mut dropped = 0;
        while match limit {
            WaitingLimit::Memory => self.memory + own > MAX_WAITING_MEMORY,
            WaitingLimit::Packets => self.waiting.len() >= MAX_WAITING_24,
        } {
            let Some((_, oldest)) = self.waiting.pop_front() else { break };
            self.memory -= memory(&oldest);
            dropped += u64::from(oldest.segments());
        }
        self.memory += own;
        self.waiting.push_back((to, packet));
        dropped
    }
}

/// Memory that the kernel charges for a packet, bytes (`truesize`).
fn memory(packet: &CompactPacket) -> u64 {
    let bytes = (u64::from(packet.segment_bytes()) + HEADROOM).next_multiple_of(64);
    let data = match bytes <= MAX_CONTIGUOUS {
        true => (bytes + SHARED_INFO).next_power_of_two(),
        false => bytes.next_multiple_of(PAGE) + 2 * SHARED_INFO,
    };
    u64::from(packet.segments()) * (data + SK_BUFF)
}

impl NeighbourTables {
    /// The tables of stations with these limits, empty or `is_fixed`.
    pub(crate) fn new(limits: Vec<WaitingLimit>, is_fixed: bool) -> Self {
        NeighbourTables {
            resolved: vec![Vec::new(); limits.len()],
            pending: Vec::new(),
            dropped: vec![WaitingDrops::default(); limits.len()],
            limits,
            is_fixed,
        }
    }

    /// True if packets to the neighbour may leave at once.
    #[inline]
    pub(crate) fn is_resolved(&self, station: u32, neighbour: u32) -> bool {
        self.is_fixed || self.resolved[station as usize].binary_search(&neighbour).is_ok()
    }

    /// Holds a packet until its neighbour is resolved. True if a request must be sent now.
    pub(crate) fn hold(
        &mut self,
        (station, neighbour): (u32, u32),
        now: Instant,
        to: u32,
        packet: CompactPacket,
    ) -> bool {
        let limit = self.limits[station as usize];
        let pending = self.pending.iter_mut().find(|r| (r.requester, r.target) == (station, neighbour));
        if let Some(resolution) = pending {
            self.dropped[station as usize].queue_full += resolution.hold(limit, to, packet);
            return false;
        }
        let mut resolution = Resolution {
            requester: station,
            target: neighbour,
            requests: 1,
            next_at: now.later_by(RETRANS_TIME),
            waiting: VecDeque::new(),
            memory: 0,
        };
        resolution.hold(limit, to, packet);
        self.pending.push(resolution);
        true
    }

    /// Adds a neighbour to a station's table. Returns the packets that waited for it.
    pub(crate) fn resolve(&mut self, station: u32, neighbour: u32) -> VecDeque<(u32, CompactPacket)> {
        let resolved = &mut self.resolved[station as usize];
        if let Err(index) = resolved.binary_search(&neighbour) {
            resolved.insert(index, neighbour);
        }
        match self.pending.iter().position(|r| (r.requester, r.target) == (station, neighbour)) {
            Some(index) => self.pending.remove(index).waiting,
            None => VecDeque::new(),
        }
    }

    /// When a request is next repeated or a resolution fails; later than any event if none is pending.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        if self.pending.is_empty() {
            return Instant::NEVER;
        }
        self.pending.iter().map(|r| r.next_at).fold(Instant::NEVER, Instant::min)
    }

    /// A request to repeat now: requester and target. Ends resolutions whose requests had no reply.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(u32, u32)> {
        while let Some(index) = self.pending.iter().position(|r| r.next_at <= now) {
            let resolution = &mut self.pending[index];
            if resolution.requests < MAX_REQUESTS {
                resolution.requests += 1;
                resolution.next_at = now.later_by(RETRANS_TIME);
                return Some((resolution.requester, resolution.target));
            }
            let ended = self.pending.remove(index);
            let dropped: u64 = ended.waiting.iter().map(|(_, packet)| u64::from(packet.segments())).sum();
            self.dropped[ended.requester as usize].no_reply += dropped;
        }
        None
    }

    /// The packets that a station dropped so far while they waited.
    pub(crate) fn dropped(&self, station: u32) -> WaitingDrops {
        self.dropped[station as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fragments::Fragments,
        packet::{Body, Echo, SimPacket},
    };

    /// An echo request of 1500 bytes of IP, which takes 2048 + 256 bytes of memory.
    fn packet(sequence: u32) -> CompactPacket {
        let fragments = Fragments::new(1480, 1500, 20);
        SimPacket { to: 0, header: 20, body: Body::Echo(Echo { sequence, is_reply: false, fragments }) }
            .into()
    }

    fn sequence(packet: &CompactPacket) -> u32 {
        let CompactPacket::Boxed(packet) = packet else { panic!("{packet:?}") };
        let Body::Echo(echo) = &packet.body else { panic!("{packet:?}") };
        echo.sequence
    }

    /// Holds 200 packets; returns the numbers of those that wait.
    fn held(limit: WaitingLimit) -> (Vec<u32>, WaitingDrops) {
        let mut tables = NeighbourTables::new(vec![limit; 2], false);
        for number in 0..200 {
            assert_eq!(
                tables.hold((0, 1), Instant::from_nanos(number), 1, packet(number as u32)),
                number == 0
            );
        }
        let dropped = tables.dropped(0);
        (tables.resolve(0, 1).iter().map(|(_, packet)| sequence(packet)).collect(), dropped)
    }

    #[test]
    fn the_oldest_packets_are_dropped() {
        // 212,992 B of memory.
        let (waiting, dropped) = held(WaitingLimit::Memory);
        assert_eq!(waiting, (108..200).collect::<Vec<_>>());
        assert_eq!(dropped, WaitingDrops { queue_full: 108, no_reply: 0 });
        let (waiting, dropped) = held(WaitingLimit::Packets);
        assert_eq!((waiting, dropped.queue_full), (vec![197, 198, 199], 197));
    }

    #[test]
    fn a_resolution_fails_after_three_requests() {
        let mut tables = NeighbourTables::new(vec![WaitingLimit::Memory; 2], false);
        assert!(tables.hold((0, 1), Instant::ZERO, 1, packet(0)));
        for second in [1, 2] {
            assert_eq!(tables.next(), Instant::from_secs(second));
            assert_eq!(tables.due(Instant::from_secs(second)), Some((0, 1)));
            assert_eq!(tables.due(Instant::from_secs(second)), None);
        }
        assert_eq!(tables.due(Instant::from_secs(3)), None);
        assert_eq!(tables.dropped(0), WaitingDrops { queue_full: 0, no_reply: 1 });
        assert_eq!(tables.next(), Instant::NEVER);
        assert!(
            tables.hold((0, 1), Instant::from_secs(4), 1, packet(1)),
            "the next packet begins another resolution"
        );
        assert_eq!(tables.resolve(0, 1).len(), 1);
        assert!(tables.is_resolved(0, 1));
    }
}
