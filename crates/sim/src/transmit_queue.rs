//! The transmit queues of hosts' devices (`nic.tx_queue`): packets wait there while the host's link sends
//! others.
//!
//! A super-packet counts as one packet, as in the kernel's pfifo. Hosts without the key have no such queue:
//! their packets go to the link at once.
//!
//! Differences from real devices: 1. The device takes the next packet when the link is free; real ones take
//! some ahead.
//! 2. Address resolution requests do not wait.

use std::collections::VecDeque;

use net::TimerQueue;
use scenario::Scenario;
use units::Instant;

use crate::{addresses::Route, compact_packet::CompactPacket};

/// The transmit queues of all stations.
#[derive(Debug)]
pub(crate) struct TransmitQueues {
    /// By station; empty if no station has a queue.
    by_station: Vec<Option<TransmitQueue>>,
    /// When each station's link is free for the first packet of its queue.
    timers: TimerQueue,
}

/// One station's queue.
#[derive(Debug)]
pub(crate) struct TransmitQueue {
    /// In packets.
    limit: usize,
    packets: VecDeque<(Route, CompactPacket)>,
    /// The TCP packets in it.
    tcp: QueuedTcp,
    /// Packets dropped because it was full.
    dropped: u64,
}

/// The share of a TCP sender in a queue: destination endpoint, packets, bytes of payload.
#[derive(Debug, Default)]
pub(crate) struct QueuedTcp(Vec<(u32, u32, u64)>);

impl QueuedTcp {
    /// Adds a packet, if it is TCP.
    pub(crate) fn add(&mut self, packet: &CompactPacket) {
        if let Some((to, payload)) = packet.tcp_payload() {
            let (_, packets, bytes) = self.to(to);
            (*packets, *bytes) = (*packets + 1, *bytes + u64::from(payload));
        }
    }

    /// Removes a packet, if it is TCP.
    pub(crate) fn remove(&mut self, packet: &CompactPacket) {
        if let Some((to, payload)) = packet.tcp_payload() {
            let (_, packets, bytes) = self.to(to);
            (*packets, *bytes) = (*packets - 1, *bytes - u64::from(payload));
        }
    }

    /// The packets to endpoint `to`, and their bytes of payload.
    pub(crate) fn of(&self, to: u32) -> (u32, u64) {
        let own = self.0.iter().find(|tcp| tcp.0 == to);
        own.map_or((0, 0), |(_, packets, bytes)| (*packets, *bytes))
    }

    fn to(&mut self, to: u32) -> &mut (u32, u32, u64) {
        let index = self.0.iter().position(|tcp| tcp.0 == to).unwrap_or_else(|| {
            self.0.push((to, 0, 0));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// Free space of a queue, and its content of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueSpace {
    /// Packets that it can still accept.
    pub(crate) packets: u32,
    /// The sender's packets in it.
    pub(crate) own_packets: u32,
    /// Their payload, bytes.
    pub(crate) own_bytes: u64,
}

impl TransmitQueues {
    /// The queues of a scenario's hosts; `nodes` is the node of each station.
    pub(crate) fn new(scenario: &Scenario, nodes: impl Iterator<Item = net::Node>) -> Self {
        let limit = |node: net::Node| match node {
            net::Node::Host(host) => scenario.hosts[host as usize].nic.tx_queue,
            _ => None,
        };
        let queue = |limit: u32| TransmitQueue {
            limit: limit as usize,
            packets: VecDeque::new(),
            tcp: QueuedTcp::default(),
            dropped: 0,
        };
        let mut by_station: Vec<_> = nodes.map(|node| limit(node).map(queue)).collect();
        if by_station.iter().all(Option::is_none) {
            by_station.clear();
        }
        let timers = TimerQueue::new(by_station.len());
        TransmitQueues { by_station, timers }
    }

    /// The queue of a station.
    #[inline]
    pub(crate) fn at(&mut self, station: u32) -> Option<&mut TransmitQueue> {
        self.by_station.get_mut(station as usize)?.as_mut()
    }

    /// Packets that the queue of a station has dropped so far because it was full; 0 without a queue.
    pub(crate) fn dropped(&self, station: u32) -> u64 {
        let queue = self.by_station.get(station as usize).and_then(Option::as_ref);
        queue.map_or(0, |queue| queue.dropped)
    }

    /// When one of them next releases a packet; later than any event if none does.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.timers.next()
    }

    /// The first station whose queue releases a packet at `now`.
    #[inline]
    pub(crate) fn due(&self, now: Instant) -> Option<u32> {
        self.timers.due(now).map(|first| first.1 as u32)
    }

    /// Sets when the queue of a station releases its next packet.
    pub(crate) fn arm(&mut self, station: u32, at: Option<Instant>) {
        self.timers.arm(station as usize, at);
    }
}

impl TransmitQueue {
    /// Appends a packet, or drops it if the queue is full and the packet has no space reserved. True if it is
    /// then the only one.
    pub(crate) fn push(&mut self, route: &Route, packet: CompactPacket, is_reserved: bool) -> bool {
        if self.packets.len() >= self.limit && !is_reserved {
            self.dropped += 1;
            return false;
        }
        self.tcp.add(&packet);
        self.packets.push_back((*route, packet));
        self.packets.len() == 1
    }

    /// Removes the first packet.
    pub(crate) fn pop(&mut self) -> Option<(Route, CompactPacket)> {
        let (route, packet) = self.packets.pop_front()?;
        self.tcp.remove(&packet);
        Some((route, packet))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Free space, and its content of the sender of packets to endpoint `to`. `link_is_free`: the link
    /// would accept one more packet at once.
    pub(crate) fn space(&self, to: u32, link_is_free: bool) -> QueueSpace {
        let packets = self.limit.saturating_sub(self.packets.len()) as u32 + u32::from(link_is_free);
        let (own_packets, own_bytes) = self.tcp.of(to);
        QueueSpace { packets, own_packets, own_bytes }
    }
}
