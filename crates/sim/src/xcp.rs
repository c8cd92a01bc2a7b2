//! An XCP flow: a sender whose window the routers set, and a receiver that echoes their feedback (Katabi,
//! Handley and Rohrs, SIGCOMM 2002, sections 3.1 to 3.4).
//!
//! Each packet carries the sender's window and round-trip time, and a field for the routers' feedback H. The
//! receiver returns it in the acknowledgement, and cwnd = max(cwnd + H, s) with the packet size s. A loss
//! halves the window as in TCP. The routers' part is `net`'s queue discipline `xcp`. Choices where the paper
//! leaves the design open or to TCP, and differences from the paper:
//! 1. The sender requests as much as possible (an infinite H). If that value returns, no router on the path
//!    supports XCP, and the window grows as in TCP: it doubles each round trip up to ssthresh, then grows by
//!    one packet (RFC 5681).
//! 2. There is no handshake: the first window is two packets. Its round-trip time is unknown, so the header
//!    has 0.
//! 3. Each packet is acknowledged separately. Three later acknowledgements indicate a loss (RFC 9002 section
//!    6.1.1). Without any for a timeout (RFC 6298, at least 200 ms as in Linux), all outstanding packets are
//!    lost. Losses of one window reduce it once.
//! 4. cwnd counts IP bytes. The header has 40 bytes after IP's (20 of XCP as in draft-falk-xcp-spec-03, 20 as
//!    TCP's).

use datagrams::{SequenceOrder, SequenceWindow};
use net::XCP_HEADER_BYTES;
use schema::EventKind;
use units::{Bytes, Instant};

use crate::{
    addresses::Addresses,
    link_layer::LinkLayer,
    packet::{Body, SimPacket, XcpAck, XcpData},
    xcp_window::{AckResult, Window},
};

/// Both ends of an XCP flow.
#[derive(Debug)]
pub(crate) struct XcpFlow {
    pub(crate) window: Window,
    addresses: Addresses,
    /// The sender's endpoint number; the receiver's is the next.
    number: u32,
    /// Payload bytes of a full packet.
    pub(crate) payload: u32,
    size: Option<Bytes>,
    next_part: u32,
    /// Lost parts to retransmit, the first at the end.
    retransmit_queue: Vec<u32>,
    /// Parts that the receiver has.
    seen: SequenceWindow,
    /// Payload bytes received, each part once.
    pub(crate) received: u64,
    /// When the last part arrived at the receiver.
    pub(crate) finished: Option<Instant>,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) retransmitted: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) timeouts: u64,
    /// Events since the previous sample.
    pub(crate) events: Vec<(Instant, EventKind, i64)>,
}

impl XcpFlow {
    /// `number` is the sender's endpoint number.
    pub(crate) fn new(spec: &scenario::XcpSpec, mtu: u32, addresses: Addresses, number: u32) -> Self {
        XcpFlow {
            window: Window::new(mtu),
            addresses,
            number,
            payload: mtu.saturating_sub(addresses.ip_header + XCP_HEADER_BYTES).max(1),
            size: spec.size,
            next_part: 0,
            retransmit_queue: Vec::new(),
            seen: SequenceWindow::new(usize::MAX),
            received: 0,
            finished: None,
            sent_packets: 0,
            sent_bytes: 0,
            retransmitted: 0,
            acked_bytes: 0,
            timeouts: 0,
            events: Vec::new(),
        }
    }

    /// Sends the packets that the window allows.
    pub(crate) fn send(&mut self, now: Instant, links: &mut LinkLayer) {
        while let Some(part) = self.retransmit_queue.last().copied().or_else(|| self.new_part())
            && self.window.has_space()
        {
            match self.retransmit_queue.pop() {
                Some(_) => {
                    self.retransmitted += 1;
                    self.add_event(now, EventKind::Retransmit, 1);
                }
                None => self.next_part += 1,
            }
            let payload = self.payload_of(part);
            let number = self.window.on_sent(now, part);
            self.sent_packets += 1;
            self.sent_bytes += u64::from(payload);
            let data = XcpData { header: self.window.header(), number, part, payload };
            let packet = SimPacket {
                to: self.number + 1,
                header: self.addresses.ip_header + XCP_HEADER_BYTES,
                body: Body::Xcp(data),
            };
            links.send(&self.addresses.forward, now, packet);
        }
    }

    /// A packet arrives at the receiver, which acknowledges it.
    pub(crate) fn on_data(&mut self, data: &XcpData, now: Instant, links: &mut LinkLayer) {
        if self.seen.record(u64::from(data.part)) != SequenceOrder::Duplicate {
            self.received += u64::from(data.payload);
            if self.size.is_some_and(|size| self.received >= size.0) {
                self.finished.get_or_insert(now);
            }
        }
        let ack = XcpAck { number: data.number, feedback_bytes: data.header.feedback_bytes };
        let header = self.addresses.ip_header + XCP_HEADER_BYTES;
        links.send(
            &self.addresses.reverse,
            now,
            SimPacket { to: self.number, header, body: Body::XcpAck(ack) },
        );
    }

    /// An acknowledgement arrives at the sender.
    pub(crate) fn on_ack(&mut self, ack: &XcpAck, now: Instant, links: &mut LinkLayer) {
        let Some(AckResult { part, lost, reduced }) = self.window.on_ack(now, ack) else { return };
        self.acked_bytes += u64::from(self.payload_of(part));
        if !lost.is_empty() {
            self.add_event(now, EventKind::Lost, lost.len() as i64);
        }
        if reduced {
            self.add_event(now, EventKind::Reduction, self.window.cwnd_packets());
        }
        self.retransmit_queue.extend(lost.into_iter().rev());
        self.send(now, links);
    }

    /// The timer has expired: without acknowledgements for a timeout, all outstanding packets are lost.
    pub(crate) fn on_timer(&mut self, now: Instant, links: &mut LinkLayer) {
        let lost = self.window.take_timed_out(now);
        if lost.is_empty() {
            return;
        }
        self.timeouts += 1;
        self.add_event(now, EventKind::Rto, 1);
        self.add_event(now, EventKind::Lost, lost.len() as i64);
        self.retransmit_queue.extend(lost.into_iter().rev());
        self.send(now, links);
    }

    fn new_part(&self) -> Option<u32> {
        let offset = u64::from(self.next_part) * u64::from(self.payload);
        self.size.is_none_or(|size| offset < size.0).then_some(self.next_part)
    }

    fn payload_of(&self, part: u32) -> u32 {
        let offset = u64::from(part) * u64::from(self.payload);
        self.size.map_or(self.payload, |size| u64::from(self.payload).min(size.0 - offset) as u32)
    }

    /// Adds an event. Retransmissions of one instant are one event.
    fn add_event(&mut self, now: Instant, kind: EventKind, value: i64) {
        match self.events.last_mut() {
            Some((at, last, sum)) if (*at, *last) == (now, kind) && kind == EventKind::Retransmit => {
                *sum += value;
            }
            _ => self.events.push((now, kind, value)),
        }
    }
}
