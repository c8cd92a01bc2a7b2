//! Recognizes copies of a packet. A capture on several devices (`tcpdump -i any` with a bridge, a bond or a
//! veth pair) contains each packet once per device, and a network may duplicate packets.
//!
//! - IPv4: a copy has the same identification. A retransmission has another one, because senders increment it
//!   for each packet. A super-packet has one identification for each of its segments, so that the segments
//!   are recognized on a device that receives them one by one.
//! - Without an identification (IPv6; IPv4 with 0, RFC 6864): a copy has the same TCP header with timestamps,
//!   follows within 1 ms, and its receiver did not report a loss (SACK) in between. A retransmission that
//!   fast answers such a report.

use std::collections::{BTreeMap, VecDeque};

use crate::segment::Segment;

/// Maximum age of the first packet, nanoseconds: queues may lie between two devices. It is less than the
/// minimum retransmission timeout (200 ms), because some hosts have a constant identification.
const MAX_AGE_NS: u64 = 100_000_000;
/// [`MAX_AGE_NS`] without an identification.
const MAX_AGE_WITHOUT_ID_NS: u64 = 1_000_000;
/// Maximum number of identifications that are remembered.
const MAX_IDS: usize = 2048;
/// Maximum number of packets without identification that are remembered.
const MAX_WITHOUT_ID: usize = 256;

/// The packets that one endpoint sent recently.
#[derive(Debug, Default)]
pub(crate) struct RecentPackets {
    /// By identification.
    by_id: BTreeMap<u16, RecentPacket>,
    /// The keys of `by_id` with their times, the oldest first.
    ids: VecDeque<(u16, u64)>,
    /// Those without an identification, the oldest first.
    without_id: VecDeque<(u64, Segment)>,
}

#[derive(Debug)]
struct RecentPacket {
    time_ns: u64,
    seq: u32,
    ack: u32,
}

impl RecentPackets {
    /// Adds a packet, and returns whether it is a copy. `mss` is the payload of a full segment, and `is_sent`
    /// states whether all of its payload was captured before.
    pub(crate) fn add(&mut self, now_ns: u64, segment: &Segment, mss: u32, is_sent: bool) -> bool {
        match segment.id {
            Some(id) => {
                let is_same = |recent: &RecentPacket| {
                    recent.seq == segment.seq
                        && recent.ack == segment.ack
                        && now_ns.saturating_sub(recent.time_ns) <= MAX_AGE_NS
                };
                let is_copy = is_sent && self.by_id.get(&id).is_some_and(is_same);
                if !is_copy {
                    self.remember(now_ns, id, segment, mss.max(1));
                }
                is_copy
            }
            None => self.add_without_id(now_ns, segment),
        }
    }

    /// Remembers the identification of each segment in a packet.
    fn remember(&mut self, now_ns: u64, id: u16, segment: &Segment, mss: u32) {
        for index in 0..segment.payload.div_ceil(mss).clamp(1, MAX_IDS as u32) {
            let id = id.wrapping_add(index as u16);
            let seq = segment.seq.wrapping_add(index * mss);
            self.by_id.insert(id, RecentPacket { time_ns: now_ns, seq, ack: segment.ack });
            self.ids.push_back((id, now_ns));
        }
        while self.ids.len() > MAX_IDS {
            let Some((id, time_ns)) = self.ids.pop_front() else { break };
            if self.by_id.get(&id).is_some_and(|recent| recent.time_ns == time_ns) {
                self.by_id.remove(&id);
            }
        }
    }

    fn add_without_id(&mut self, now_ns: u64, segment: &Segment) -> bool {
        // Equal ACKs are common.
        let is_distinctive = match segment.payload {
            0 => segment.flags.syn() || segment.flags.fin(),
            _ => segment.timestamps.is_some(),
        };
        if !is_distinctive {
            return false;
        }
        let is_old = |time_ns: u64| now_ns.saturating_sub(time_ns) > MAX_AGE_WITHOUT_ID_NS;
        while self.without_id.front().is_some_and(|(time_ns, _)| is_old(*time_ns))
            || self.without_id.len() == MAX_WITHOUT_ID
        {
            self.without_id.pop_front();
        }
        let is_copy = self.without_id.iter().any(|(_, recent)| recent == segment);
        if !is_copy {
            self.without_id.push_back((now_ns, *segment));
        }
        is_copy
    }

    /// Records that the receiver reported a loss: packets without an identification that follow may be
    /// retransmissions.
    pub(crate) fn on_loss_report(&mut self) {
        self.without_id.clear();
    }
}
