//! The transmit queues of hosts' devices (`nic.tx_queue`): packets wait there while the host's link is sending others.
//!
//! A super-packet is one packet of the queue, as in the kernel's pfifo. Hosts without the key have no such queue: their
//! packets go to the link at once.
//!
//! Departures: 1. The device takes the next packet when the link is free; real ones take some ahead. 2. Questions for
//! neighbours do not wait.

use std::collections::VecDeque;

use scenario::Scenario;
use units::Time;

use crate::{
    addresses::Route,
    packet::{Body, SimPacket},
};

/// The queues of all stations that have one.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// By station.
    by_station: Vec<Option<Device>>,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Device {
    limit: usize,
    waiting: VecDeque<(Route, SimPacket)>,
    /// What of it is TCP's: the number that packets go to, packets, bytes of payload.
    own: Vec<(u32, u32, u64)>,
    /// When the link is free for the first that waits.
    pub(crate) next: Option<Time>,
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
            next: None,
        };
        let by_station: Vec<_> = nodes.map(|node| limit(node).map(device)).collect();
        let any = by_station.iter().any(Option::is_some);
        Devices { by_station: if any { by_station } else { Vec::new() } }
    }

    /// The queue of a station.
    #[inline]
    pub(crate) fn at(&mut self, station: u32) -> Option<&mut Device> {
        self.by_station.get_mut(station as usize)?.as_mut()
    }

    /// When one of them next passes a packet on.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.by_station.iter().flatten().filter_map(|device| device.next).min()
    }

    /// The first station whose device passes a packet on at `now`.
    pub(crate) fn due(&self, now: Time) -> Option<u32> {
        let is_due = |device: &Option<Device>| {
            device.as_ref().and_then(|device| device.next).is_some_and(|next| next <= now)
        };
        self.by_station.iter().position(is_due).map(|station| station as u32)
    }
}

impl Device {
    /// Takes a packet in, if there is room; `busy` is how long the link will be.
    pub(crate) fn push(&mut self, route: &Route, packet: SimPacket, now: Time, busy: Time) {
        if self.waiting.len() < self.limit {
            if let Body::Tcp(segment) = &packet.body {
                let own = self.own_of(packet.to);
                (own.1, own.2) = (own.1 + 1, own.2 + u64::from(segment.len));
            }
            self.waiting.push_back((*route, packet));
            self.next.get_or_insert(Time(now.0 + busy.0));
        }
    }

    /// The first packet.
    pub(crate) fn pop(&mut self) -> Option<(Route, SimPacket)> {
        self.next = None;
        let (route, packet) = self.waiting.pop_front()?;
        if let Body::Tcp(segment) = &packet.body {
            let own = self.own_of(packet.to);
            (own.1, own.2) = (own.1 - 1, own.2 - u64::from(segment.len));
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
