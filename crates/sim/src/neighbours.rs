//! Address resolution: the first packet from a station to a neighbour waits for a request and its reply.
//!
//! Without it the first round trip of a run would be one too short. Differences from RFC 826 and RFC 4861:
//! 1. The request is sent to the neighbour only, not to all.
//! 2. Entries never expire.
//! 3. A request without a reply is repeated each second without limit (Linux gives up after three).
//! 4. Any number of packets may wait (Linux: about 100 of 1500 bytes).

use units::Time;

use crate::compact_packet::CompactPacket;

/// Interval at which a request without a reply is repeated (`retrans_time`, net/ipv4/arp.c).
const RETRANS_TIME: Time = Time(1_000_000_000);
/// IP bytes of a request as a link counts them: an ARP packet has 28 after its Ethernet header.
pub(crate) const REQUEST_BYTES: u32 = 28;

/// The stations' neighbour tables.
#[derive(Debug)]
pub(crate) struct NeighbourTables {
    /// The resolved neighbours of each station, sorted.
    resolved: Vec<Vec<u32>>,
    pending: Vec<Resolution>,
    /// Every neighbour is known from the beginning.
    is_fixed: bool,
}

/// A resolution in progress.
#[derive(Debug)]
struct Resolution {
    requester: u32,
    target: u32,
    repeat_at: Time,
    /// Waiting packets with their destination stations.
    waiting: Vec<(u32, CompactPacket)>,
}

impl NeighbourTables {
    /// Tables of this many stations, empty or `is_fixed`.
    pub(crate) fn new(stations: usize, is_fixed: bool) -> Self {
        NeighbourTables { resolved: vec![Vec::new(); stations], pending: Vec::new(), is_fixed }
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
        now: Time,
        to: u32,
        packet: CompactPacket,
    ) -> bool {
        let pending = self.pending.iter_mut().find(|r| (r.requester, r.target) == (station, neighbour));
        if let Some(resolution) = pending {
            resolution.waiting.push((to, packet));
            return false;
        }
        let repeat_at = Time(now.0 + RETRANS_TIME.0);
        let waiting = vec![(to, packet)];
        self.pending.push(Resolution { requester: station, target: neighbour, repeat_at, waiting });
        true
    }

    /// Adds a neighbour to a station's table. Returns the packets that waited for it.
    pub(crate) fn resolve(&mut self, station: u32, neighbour: u32) -> Vec<(u32, CompactPacket)> {
        let resolved = &mut self.resolved[station as usize];
        if let Err(index) = resolved.binary_search(&neighbour) {
            resolved.insert(index, neighbour);
        }
        match self.pending.iter().position(|r| (r.requester, r.target) == (station, neighbour)) {
            Some(index) => self.pending.remove(index).waiting,
            None => Vec::new(),
        }
    }

    /// When a request is next repeated; later than any event if none is pending.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        if self.pending.is_empty() {
            return Time(u64::MAX);
        }
        self.pending.iter().map(|r| r.repeat_at).fold(Time(u64::MAX), Time::min)
    }

    /// A request to repeat now: requester and target.
    pub(crate) fn due(&mut self, now: Time) -> Option<(u32, u32)> {
        let resolution = self.pending.iter_mut().find(|r| r.repeat_at <= now)?;
        resolution.repeat_at = Time(now.0 + RETRANS_TIME.0);
        Some((resolution.requester, resolution.target))
    }
}
