//! A UDP flow: datagrams at exact times, and what their receiver counts.

use datagrams::Source;
use scenario::plan::UDP_HEADER;
use units::Time;

use crate::{
    addresses::Route,
    fragments::Fragments,
    packet::{Body, SimPacket},
    udp_receiver::Receiver,
    wire::Wire,
};

/// What a datagram carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) number: u64,
    pub(crate) sent: Time,
    pub(crate) payload: u32,
    pub(crate) fragments: Fragments,
}

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) source: Source,
    pub(crate) receiver: Receiver,
    patience: Time,
    there: Route,
    /// The receiver's number as packets have it.
    to: u32,
    ip_header: u32,
    /// The path's MTU, as far as the sender's host knows it.
    pub(crate) mtu: u32,
}

/// What a stream is made of.
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) there: Route,
    pub(crate) ip_header: u32,
    /// The path's MTU, as far as the sender's host knows it.
    pub(crate) mtu: u32,
    /// The receiver's number as packets have it.
    pub(crate) to: u32,
    /// How long a datagram may be under way when all are sent.
    pub(crate) patience: Time,
}

impl Stream {
    pub(crate) fn new(plan: Plan) -> Self {
        let Plan { source, there, ip_header, mtu, to, patience } = plan;
        Stream { source, receiver: Receiver::default(), patience, there, to, ip_header, mtu }
    }

    /// Sends what is due; gives when something is due again.
    pub(crate) fn send(&mut self, now: Time, wire: &mut Wire) -> Option<Time> {
        while let Some(at) = self.source.next().filter(|at| *at <= now) {
            let (number, payload) = self.source.take();
            let fragments = Fragments::of(payload + UDP_HEADER, self.mtu, self.ip_header);
            let body = Body::Datagram(Datagram { number, sent: at, payload, fragments });
            wire.send(&self.there, now, SimPacket { to: self.to, header: self.ip_header, body });
        }
        self.source.next()
    }

    /// When all was sent and has come, or will not come any more: when the last datagram came.
    pub(crate) fn finished(&self, now: Time) -> Option<Time> {
        let source = &self.source;
        if source.next().is_some() {
            return None;
        }
        let counts = &self.receiver.counts;
        let all_here = counts.received == source.sent;
        let given_up = now.0 >= source.last.0.saturating_add(self.patience.0);
        (all_here || given_up).then_some(counts.last_ns.map_or(source.last, |ns| Time(ns as u64)))
    }
}
