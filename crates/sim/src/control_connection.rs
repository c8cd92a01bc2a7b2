//! The control connection of a tsunami flow: TCP with the hosts' settings, which carries bytes both ways. The
//! flow's receiver opens it.
//!
//! [`Endpoint`] counts bytes and does not store them, so each direction has a queue of those that were
//! written and not yet read. Differences from a [`Transfer`](crate::transfer::Transfer), because it carries
//! little: it ignores GRO limits and the space in transmit queues.

use std::collections::VecDeque;

use datagrams::Draws;
use scenario::{Host, TcpSpec};
use tcp::{CongestionControl, Endpoint, Segment};
use units::Instant;

use crate::{
    Error, HostDefaults, Side, addresses::Addresses, config::config, link_layer::LinkLayer,
    transfer::segment_packet,
};

/// Both ends, by [`Side`] of the flow.
pub(crate) struct ControlConnection {
    endpoints: [Endpoint; 2],
    /// By the side that writes: bytes that its socket has not taken yet.
    unwritten: [VecDeque<u8>; 2],
    /// By the side that writes: bytes that the other side has not read yet.
    unread: [VecDeque<u8>; 2],
    addresses: Addresses,
    /// The endpoint number of the flow's sender; the receiver's is the next.
    number: u32,
    /// Bytes of IP and TCP headers with the options that every segment has.
    header: u32,
}

/// The parameters of a connection.
pub(crate) struct ControlPlan<'a> {
    pub(crate) defaults: &'a HostDefaults,
    /// By side, as the following arrays.
    pub(crate) hosts: [&'a Host; 2],
    pub(crate) mtus: [u32; 2],
    pub(crate) addresses: Addresses,
    pub(crate) number: u32,
    pub(crate) seed: u64,
}

impl ControlConnection {
    /// Opens the connection from the flow's receiver to its sender.
    ///
    /// # Errors
    /// [`Error::Sysctl`] if a host has an invalid sysctl.
    pub(crate) fn open(
        plan: &ControlPlan<'_>,
        [sender, receiver]: [Box<dyn CongestionControl>; 2],
        now: Instant,
    ) -> Result<Self, Error> {
        let end_config = |side: Side| -> Result<tcp::Config, Error> {
            let host = plan.hosts[side as usize];
            let mut config = config(plan.defaults, host, &TcpSpec::default(), side)?;
            config.ip_header = plan.addresses.ip_header;
            config.mtu = plan.mtus[side as usize].min(config.mtu);
            config.initial_seq = Draws::draw_once(plan.seed, plan.number + side as u32) as u32;
            Ok(config)
        };
        let (own, peer) = (end_config(Side::Sender)?, end_config(Side::Receiver)?);
        let timestamps = own.timestamps && peer.timestamps;
        Ok(ControlConnection {
            endpoints: [Endpoint::listen(own, sender), Endpoint::connect(peer, receiver, now.as_nanos())],
            unwritten: Default::default(),
            unread: Default::default(),
            addresses: plan.addresses,
            number: plan.number,
            header: plan.addresses.ip_header + 20 + 12 * u32::from(timestamps),
        })
    }

    pub(crate) fn on_segment(&mut self, side: Side, segment: &Segment, now: Instant) {
        self.endpoints[side as usize].on_segment(now.as_nanos(), segment);
    }

    pub(crate) fn on_timer(&mut self, side: Side, now: Instant) {
        self.endpoints[side as usize].on_timer(now.as_nanos());
    }

    pub(crate) fn on_packet_too_big(&mut self, side: Side, seq: u32, mtu: u32, now: Instant) {
        self.endpoints[side as usize].on_packet_too_big(now.as_nanos(), seq, mtu);
    }

    /// When a timer of one end is due.
    pub(crate) fn next_timer(&self, side: Side) -> Option<Instant> {
        self.endpoints[side as usize].next_timer().map(Instant::from_nanos)
    }

    /// Takes all bytes that have arrived at one end.
    pub(crate) fn read(&mut self, side: Side, now: Instant) -> Vec<u8> {
        let endpoint = &mut self.endpoints[side as usize];
        let mut count = 0;
        while endpoint.readable() > 0 {
            match endpoint.read(now.as_nanos(), u64::MAX) {
                0 => break,
                read => count += read as usize,
            }
        }
        let unread = &mut self.unread[1 - side as usize];
        unread.drain(..count.min(unread.len())).collect()
    }

    /// Writes bytes at one end. What its socket does not take is written by the next call.
    pub(crate) fn write(&mut self, side: Side, bytes: &[u8], now: Instant) {
        let (endpoint, unwritten) = (&mut self.endpoints[side as usize], &mut self.unwritten[side as usize]);
        unwritten.extend(bytes);
        while !unwritten.is_empty() && endpoint.can_write() {
            let length = unwritten.len() as u64;
            let written = endpoint.write(now.as_nanos(), length).min(length) as usize;
            if written == 0 {
                break;
            }
            self.unread[side as usize].extend(unwritten.drain(..written));
        }
    }

    /// Smoothed round-trip time, its mean deviation, and the minimum, as the flow's receiver measures them.
    pub(crate) fn rtt_us(&self, now: Instant) -> [Option<i64>; 3] {
        let info = self.endpoints[Side::Receiver as usize].info(now.as_nanos());
        [Some(info.srtt_us), Some(info.rttvar_us), info.min_rtt_us].map(|us| us.map(i64::from))
    }

    /// Sends the segments that one end has to send now.
    pub(crate) fn send(&mut self, side: Side, now: Instant, links: &mut LinkLayer) {
        let (route, to) = match side {
            Side::Sender => (&self.addresses.forward, self.number + Side::Receiver as u32),
            Side::Receiver => (&self.addresses.reverse, self.number + Side::Sender as u32),
        };
        let endpoint = &mut self.endpoints[side as usize];
        while let Some(segment) = endpoint.transmit(now.as_nanos()) {
            let packet = segment_packet(endpoint, segment, to, self.header);
            links.send(route, now, packet);
        }
    }
}
