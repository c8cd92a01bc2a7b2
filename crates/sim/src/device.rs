//! The transmit queues of hosts' devices (`nic.tx_queue`): packets wait there while the host's link is sending others.
//!
//! A super-packet is one packet of the queue, as in the kernel's pfifo. Hosts without the key have no such queue: their
//! packets go to the link at once.
//!
//! Departures: 1. The device takes the next packet when the link is free; real ones take some ahead. 2. Questions for
//! neighbours do not wait.

use std::collections::VecDeque;

use net::Wakes;
use scenario::Scenario;
use units::Time;

use crate::{addresses::Route, parcel::Parcel};

/// The queues of all stations that have one.
#[derive(Debug)]
pub(crate) struct Devices {
    /// By station.
    by_station: Vec<Option<Device>>,
    /// When each station's link is free for the first that waits.
    wakes: Wakes,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Device {
    limit: usize,
    waiting: VecDeque<(Route, Parcel)>,
    /// What of it is TCP's: the number that packets go to, packets, bytes of payload.
    own: Vec<(u32, u32, u64)>,
    /// Packets that found it full.
    dropped: u64,
}

/// What a sender should know of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Packets that it takes yet.
    pub(crate) packets: u32,
    /// Packets in it that go to the asker's peer.
    pub(crate) own_packets: u32,
    /// Their payload, bytes.
    pub(crate) own_bytes: u64,
}

impl Devices {
    /// The devices of a scenario's hosts, of which `nodes` gives the host of each station.
    pub(crate) fn new(scenario: &Scenario, nodes: impl Iterator<Item = net::Node>) -> Self {
        let limit = |node: net::Node| match node {
            net::Node::Host(host) => scenario.hosts[host as usize].nic.tx_queue,
            _ => None,
        };
        let device = |limit: u32| Device {
            limit: limit as usize,
            waiting: VecDeque::new(),
            own: Vec::new(),
            dropped: 0,
        };
        let mut by_station: Vec<_> = nodes.map(|node| limit(node).map(device)).collect();
        if by_station.iter().all(Option::is_none) {
            by_station.clear();
        }
        let wakes = Wakes::new(by_station.len());
        Devices { by_station, wakes }
    }

    /// The queue of a station.
    #[inline]
    pub(crate) fn at(&mut self, station: u32) -> Option<&mut Device> {
        self.by_station.get_mut(station as usize)?.as_mut()
    }

    /// When one of them next passes a packet on; later than anything that happens, if none does.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.wakes.next()
    }

    /// The first station whose device passes a packet on at `now`.
    #[inline]
    pub(crate) fn due(&self, now: Time) -> Option<u32> {
        self.wakes.due(now).map(|first| first.1 as u32)
    }

    /// The device of a station passes its next packet on at `at`.
    pub(crate) fn arm(&mut self, station: u32, at: Option<Time>) {
        self.wakes.arm(station as usize, at);
    }
}

impl Device {
    /// Takes a packet in, if there is room. Tells whether it is the only one.
    pub(crate) fn push(&mut self, route: &Route, packet: Parcel) -> bool {
        if self.waiting.len() >= self.limit {
            self.dropped += 1;
            return false;
        }
        if let Some((to, payload)) = packet.tcp_payload() {
            let own = self.own_of(to);
            (own.1, own.2) = (own.1 + 1, own.2 + u64::from(payload));
        }
        self.waiting.push_back((*route, packet));
        self.waiting.len() == 1
    }

    /// The first packet.
    pub(crate) fn pop(&mut self) -> Option<(Route, Parcel)> {
        let (route, packet) = self.waiting.pop_front()?;
        if let Some((to, payload)) = packet.tcp_payload() {
            let own = self.own_of(to);
            (own.1, own.2) = (own.1 - 1, own.2 - u64::from(payload));
        }
        Some((route, packet))
    }

    fn own_of(&mut self, to: u32) -> &mut (u32, u32, u64) {
        let place = self.own.iter().position(|own| own.0 == to).unwrap_or_else(|| {
            self.own.push((to, 0, 0));
            self.own.len() - 1
        });
        &mut self.own[place]
    }

    /// Packets that found it full, since it was made.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the sender of packets to number `to` should know; `is_free`: the link would take one at once.
    pub(crate) fn room(&self, to: u32, is_free: bool) -> Room {
        let packets = (self.limit - self.waiting.len()) as u32 + u32::from(is_free);
        let own = self.own.iter().find(|own| own.0 == to);
        let (own_packets, own_bytes) = own.map_or((0, 0), |own| (own.1, own.2));
        Room { packets, own_packets, own_bytes }
    }
}
