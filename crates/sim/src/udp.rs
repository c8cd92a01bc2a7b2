//! A UDP flow: sends datagrams at exact times; the receiver counts them.
//!
//! If the host's transmit queue is full, it drops the datagram and counts it, and the sender continues:
//! sendto(2) reports this only to sockets with `IP_RECVERR` (`udp_send_skb`, net/ipv4/udp.c).
//!
//! Differences from hosts with real devices: 1. The send buffer does not hold the sender back. In the kernel,
//! sendto(2) waits while the socket's packets in the transmit queue fill the buffer: with the default of
//! 212,992 bytes, 92 packets of 1500 bytes. (TAP devices release the buffer at once: `skb_orphan` in
//! `tun_net_xmit`, drivers/net/tun.c.)

use datagrams::DatagramSource;
use engine_common::UDP_HEADER_BYTES;
use units::{Instant, Time};

use crate::{
    addresses::Route,
    fragments::Fragments,
    link_layer::LinkLayer,
    packet::{Body, Datagram, SimPacket},
    udp_receiver::DatagramReceiver,
};

/// Both ends of a UDP flow.
#[derive(Debug)]
pub(crate) struct DatagramFlow {
    pub(crate) source: DatagramSource,
    pub(crate) receiver: DatagramReceiver,
    /// Time to wait for datagrams after the last is sent.
    timeout: Time,
    forward: Route,
    /// The receiver's endpoint number.
    to: u32,
    ip_header: u32,
    /// The path MTU that the sender's host has cached, at most its interface's MTU.
    pub(crate) mtu: u32,
}

/// The parameters of a UDP flow at its start.
pub(crate) struct DatagramFlowPlan {
    pub(crate) source: DatagramSource,
    pub(crate) forward: Route,
    pub(crate) ip_header: u32,
    /// The path MTU that the sender's host has cached, at most its interface's MTU.
    pub(crate) mtu: u32,
    /// The receiver's endpoint number.
    pub(crate) to: u32,
    /// Time to wait for datagrams after the last is sent.
    pub(crate) timeout: Time,
}

impl DatagramFlow {
    pub(crate) fn new(plan: DatagramFlowPlan) -> Self {
        let DatagramFlowPlan { source, forward, ip_header, mtu, to, timeout } = plan;
        DatagramFlow { source, receiver: DatagramReceiver::default(), timeout, forward, to, ip_header, mtu }
    }

    /// Sends the datagrams that are due. Returns when the next is due.
    pub(crate) fn send(&mut self, now: Instant, links: &mut LinkLayer) -> Option<Instant> {
        while let Some(at) = self.source.next().filter(|at| *at <= now) {
            let (number, payload) = self.source.take();
            let fragments = Fragments::new(payload + UDP_HEADER_BYTES, self.mtu, self.ip_header);
            let body = Body::Datagram(Datagram { number, sent: at, payload, fragments });
            links.send(&self.forward, now, SimPacket { to: self.to, header: self.ip_header, body });
        }
        self.source.next()
    }

    /// When the flow ended: the arrival of its last datagram. `None` until all datagrams are sent, and have
    /// arrived or timed out.
    pub(crate) fn finished(&self, now: Instant) -> Option<Instant> {
        let source = &self.source;
        if source.next().is_some() {
            return None;
        }
        let counts = &self.receiver.counts;
        let all_arrived = counts.received == source.sent;
        let timed_out = now >= source.last + self.timeout;
        (all_arrived || timed_out)
            .then_some(counts.last_ns.map_or(source.last, |ns| Instant::from_nanos(ns as u64)))
    }
}
